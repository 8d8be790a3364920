//! A group as one would write it without a thought for speed: every event in one list, every question a walk over it. The
//! model tests hold the real one to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::group::delivery::backoff_ms;
use crate::domain::group::{Delivery, MemberId};
use crate::domain::{Event, GroupSettings, MemberSettings, PartitionCursor, Retry, SeqRange};

/// One event and all that happened to it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub event: Arc<Event>,
    /// No longer in the log.
    pub removed: bool,
    /// Given to the group in this life.
    pub offered: bool,
    pub acked: bool,
    pub holder: Option<(MemberId, u64)>,
    pub attempts: u32,
    pub due_ms: u64,
    pub reason: String,
    pub dying: bool,
    /// Handed out as a dead letter and not saved.
    pub handed: bool,
    /// Delivered in this life.
    pub delivered: bool,
    /// Had to wait for its key in this life.
    pub was_held: bool,
}

#[derive(Debug)]
pub(super) struct ModelMember {
    pub settings: MemberSettings,
    pub paused: bool,
    pub events: u32,
    pub bytes: usize,
    pub named: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Model {
    pub now_ms: u64,
    pub settings: GroupSettings,
    pub dead_letters: bool,
    pub group_paused: bool,
    /// In seq order, from seq 1.
    pub items: Vec<Item>,
    pub members: BTreeMap<MemberId, ModelMember>,
    /// The cursors that this life of the group began with.
    pub base: Vec<PartitionCursor>,
    pub dropped_dead: u64,
    /// For each partition, the newest event that was delivered for the first time.
    pub delivered_last: BTreeMap<u32, u64>,
}

impl Item {
    pub fn new(event: Arc<Event>) -> Item {
        Item {
            event,
            removed: false,
            offered: false,
            acked: false,
            holder: None,
            attempts: 0,
            due_ms: 0,
            reason: String::new(),
            dying: false,
            handed: false,
            delivered: false,
            was_held: false,
        }
    }

    /// In the group's window.
    pub fn is_open(&self) -> bool {
        self.offered && !self.acked
    }

    /// What the store should have of an event that failed.
    pub fn retry(&self) -> Retry {
        Retry {
            seq: self.event.seq,
            attempts: self.attempts,
            due_ms: self.due_ms,
            reason: self.reason.as_str().into(),
        }
    }

    fn forget_life(&mut self, acked: bool, retry: Option<&Retry>) {
        let removed = self.removed;
        *self = Item::new(self.event.clone());
        self.removed = removed;
        self.acked = acked;
        if let Some(retry) = retry.filter(|_| !acked) {
            self.attempts = retry.attempts;
            self.due_ms = retry.due_ms;
            self.reason = retry.reason.to_string();
        }
    }
}

impl Model {
    pub fn item(&mut self, seq: u64) -> &mut Item {
        &mut self.items[seq as usize - 1]
    }

    pub fn tail(&self) -> u64 {
        self.items.len() as u64
    }

    pub fn is_ready(&self, item: &Item) -> bool {
        item.is_open() && item.holder.is_none() && !item.dying && item.due_ms <= self.now_ms
    }

    pub fn is_held(&self, item: &Item) -> bool {
        let earlier = &self.items[..item.event.seq as usize - 1];
        let blocks = |other: &Item| other.event.key == item.event.key && (other.is_open() || other.handed);
        self.settings.ordered && item.event.key.is_some() && earlier.iter().any(blocks)
    }

    pub fn is_deliverable(&self, item: &Item) -> bool {
        self.is_ready(item) && !self.is_held(item)
    }

    pub fn held_by(&self, member: MemberId) -> usize {
        self.items
            .iter()
            .filter(|item| item.holder.is_some_and(|(holder, _)| holder == member))
            .count()
    }

    pub fn room(&self, member: MemberId) -> usize {
        let settings = &self.members[&member];
        if settings.paused || self.group_paused {
            return 0;
        }
        settings.settings.max_in_flight as usize - self.held_by(member)
    }

    /// What follows by itself from what happened; called after every step.
    pub fn settle_down(&mut self) {
        for at in 0..self.items.len() {
            let (ready, held) = (self.is_ready(&self.items[at]), self.is_held(&self.items[at]));
            let item = &mut self.items[at];
            if ready && item.attempts >= self.settings.max_attempts {
                if self.dead_letters {
                    item.dying = true;
                } else {
                    item.acked = true;
                    self.dropped_dead += 1;
                }
            } else if ready && held {
                item.was_held = true;
            }
        }
    }

    pub fn fail(&mut self, seq: u64, reason: &str, wait: impl FnOnce(u64, u32) -> u64) {
        let (now_ms, first_ms, max_attempts) = (self.now_ms, self.settings.backoff_ms, self.settings.max_attempts);
        let item = self.item(seq);
        item.holder = None;
        item.attempts += 1;
        item.reason = reason.into();
        let wait_ms = wait(backoff_ms(first_ms, item.attempts, seq, now_ms), item.attempts);
        item.due_ms = now_ms + wait_ms;
        if item.attempts >= max_attempts {
            // What is over does not wait.
            let due_ms = std::mem::replace(&mut item.due_ms, 0);
            self.settle_down();
            self.item(seq).due_ms = due_ms;
        }
    }

    pub fn tick(&mut self) {
        for seq in 1..=self.tail() {
            if self.item(seq).holder.is_some_and(|(_, until)| until <= self.now_ms) {
                self.fail(seq, "ack timeout", |_, _| 0);
            }
        }
    }

    /// Checks a delivery against every rule and takes note of it.
    pub fn deliver(&mut self, delivery: &Delivery) {
        let seq = delivery.event.seq;
        let item = self.items[seq as usize - 1].clone();
        assert_eq!(item.event, delivery.event);
        assert!(self.is_deliverable(&item), "{item:?} is not to be delivered");
        assert_eq!(delivery.attempt, item.attempts + 1);
        let is_fresh = |item: &Item| item.attempts == 0 && !item.was_held;
        let passed = self.items[..seq as usize - 1]
            .iter()
            .find(|lower| is_fresh(lower) && self.is_deliverable(lower));
        assert!(passed.is_none(), "{seq} overtakes {passed:?}");
        if is_fresh(&item) && !item.delivered {
            let last = self.delivered_last.insert(item.event.partition, seq);
            assert!(last.is_none_or(|last| last < seq), "{seq} is delivered after {last:?}");
        }
        assert!(
            self.room(delivery.member) > 0,
            "member {} is full or paused",
            delivery.member
        );
        let now_ms = self.now_ms;
        let member = self.members.get_mut(&delivery.member).unwrap();
        assert_eq!(delivery.ack_timeout_ms, member.settings.ack_timeout_ms);
        member.events = member.events.checked_sub(1).expect("credit for an event");
        member.bytes = member
            .bytes
            .checked_sub(item.event.json.len())
            .expect("credit for the bytes");
        let until_ms = now_ms + member.settings.ack_timeout_ms;
        let item = self.item(seq);
        item.holder = Some((delivery.member, until_ms));
        item.delivered = true;
    }

    /// The group begins again from what is stored, or elsewhere.
    pub fn begin(&mut self, cursors: &[PartitionCursor], retries: &BTreeMap<u64, Retry>) {
        self.base = cursors.to_vec();
        self.delivered_last.clear();
        self.dropped_dead = 0;
        for item in &mut self.items {
            let seq = item.event.seq;
            item.forget_life(cursors[item.event.partition as usize].is_acked(seq), retries.get(&seq));
        }
    }

    /// The cursor of a partition, from its definition. `None` while the stored one is not read again as a whole.
    pub fn cursor(&self, partition: u32, read_position: u64) -> Option<PartitionCursor> {
        let base = &self.base[partition as usize];
        if base.acked.last().is_some_and(|range| range.last > read_position) {
            return None;
        }
        let items = || {
            self.items
                .iter()
                .filter(|item| item.event.partition == partition && item.offered)
        };
        let (floor, floor_ordinal) = match items().find(|item| !item.acked) {
            Some(item) => (item.event.seq - 1, item.event.ordinal - 1),
            None => (read_position, items().map(|item| item.event.ordinal).max().unwrap_or(0)),
        };
        let floor = floor.max(base.floor);
        let mut runs: Vec<Vec<&Event>> = vec![vec![]];
        for item in items().filter(|item| item.event.seq > floor) {
            if item.acked {
                runs.last_mut().unwrap().push(&item.event);
            } else {
                runs.push(vec![]);
            }
        }
        runs.retain(|run| !run.is_empty());
        let (first, last) = (
            |run: &[&Event]| run[0].clone(),
            |run: &[&Event]| run[run.len() - 1].clone(),
        );
        Some(PartitionCursor {
            floor,
            floor_ordinal: floor_ordinal.max(base.floor_ordinal),
            acked: runs
                .iter()
                .map(|run| SeqRange {
                    first: first(run).seq,
                    last: last(run).seq,
                })
                .collect(),
            acked_count: runs.iter().map(|run| last(run).ordinal - first(run).ordinal + 1).sum(),
        })
    }
}
