//! A group with its log, members and loads, each call compared with the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{Item, Model};
use super::stored::Stored;
use crate::domain::group::window::Limits;
use crate::domain::group::{AckOutcome, Changes, Group};
use crate::domain::{Event, GroupSettings, NewEvent, PartitionCursor, Place, partition_of};

pub(super) const PARTITIONS: u32 = 3;
pub(super) const LIMITS: Limits = Limits {
    window: 24,
    bodies: 5,
    body_bytes: 1_200,
    loads: 3,
};

/// A group and all around it, next to the model.
pub(super) struct World {
    pub group: Group,
    pub model: Model,
    pub stored: Stored,
    pub saving: Option<Changes>,
    pub loads: Vec<Vec<u64>>,
    pub first: u64,
    pub anything_removed: bool,
}

impl World {
    pub fn new(settings: GroupSettings, dead_letters: bool) -> World {
        let cursors = vec![PartitionCursor::default(); PARTITIONS as usize];
        World {
            group: Group::with_limits(LIMITS, settings.clone(), cursors.clone(), vec![], dead_letters),
            model: Model {
                now_ms: 1_000_000,
                settings,
                dead_letters,
                group_paused: false,
                items: vec![],
                members: BTreeMap::new(),
                base: cursors.clone(),
                dropped_dead: 0,
                delivered_last: BTreeMap::new(),
            },
            stored: Stored {
                cursors,
                ..Stored::default()
            },
            saving: None,
            loads: vec![],
            first: 1,
            anything_removed: false,
        }
    }

    pub fn publish(&mut self, key: u8, tag: bool, filler: usize) {
        let seq = self.model.tail() + 1;
        let new = NewEvent {
            id: format!("e{seq}").into(),
            id_given: false,
            ts: 1,
            key: (key > 0).then(|| format!("k{key}").into()),
            headers: vec![],
            payload: format!("\"{}\"", "x".repeat(filler)).into(),
            tags: tag.then(|| "t".into()).into_iter().collect(),
            caused_by: vec![],
            sid: None,
        };
        let partition = partition_of(new.key.as_deref().unwrap_or(&new.id), PARTITIONS);
        let before = self
            .model
            .items
            .iter()
            .filter(|item| item.event.partition == partition)
            .count();
        let place = Place {
            seq,
            at: 1,
            partition,
            ordinal: before as u64 + 1,
        };
        let event = Arc::new(Event::place(&"t".parse().unwrap(), &new, place));
        self.model.items.push(Item::new(event));
    }

    /// Reads what the group asks for, at most `most` events of it; false where it asks for nothing.
    pub fn read(&mut self, most: usize) -> bool {
        let tail = self.model.tail();
        let Some(plan) = self.group.next_read(tail) else {
            return false;
        };
        assert_eq!(plan.from, self.group.read_position() + 1);
        let (mut events, mut bytes) = (vec![], 0);
        let mut upto = tail;
        for item in &self.model.items[plan.from as usize - 1..] {
            if item.removed {
                continue;
            }
            if events.len() >= plan.max_events.min(most) || bytes >= plan.max_bytes {
                upto = events.last().map_or(0, |event: &Arc<Event>| event.seq);
                break;
            }
            bytes += item.event.json.len();
            events.push(item.event.clone());
        }
        self.group.offer(events, upto);
        let reached = self.group.read_position();
        assert!(reached >= plan.from && reached <= upto, "{plan:?} {upto} {reached}");
        for seq in plan.from..=reached {
            let filter = self.model.settings.filter.clone();
            let item = self.model.item(seq);
            item.offered = !item.removed;
            item.holder = item.holder.filter(|_| !item.removed);
            let untouched = item.attempts == 0 && item.holder.is_none();
            let left_out = filter.is_some_and(|filter| !filter.matches(&item.event)) && untouched;
            item.acked |= item.removed || left_out;
        }
        self.group.tick(self.model.now_ms);
        self.settle_down();
        true
    }

    pub fn ask_loads(&mut self) -> bool {
        let seqs = self.group.take_loads(self.model.now_ms);
        for seq in &seqs {
            assert!(
                !self.loads.iter().flatten().any(|other| other == seq),
                "{seq} is asked for twice"
            );
            assert!(self.model.item(*seq).is_open());
        }
        let some = !seqs.is_empty();
        self.loads.extend(some.then_some(seqs));
        assert!(self.loads.iter().flatten().count() <= LIMITS.loads);
        some
    }

    pub fn answer_loads(&mut self, fails: bool) {
        let Some(seqs) = self.loads.pop() else {
            return;
        };
        if fails {
            return self.group.load_failed(&seqs);
        }
        let mut expected = 0;
        let mut events = vec![];
        for &seq in &seqs {
            let item = self.model.item(seq);
            if !item.removed {
                events.push(item.event.clone());
            } else if item.is_open() {
                item.acked = true;
                item.holder = None;
                expected += 1;
            }
        }
        assert_eq!(self.group.loaded(&seqs, events), expected);
    }

    pub fn deliver(&mut self, most: usize) -> usize {
        let deliveries = self.group.deliver(self.model.now_ms, most);
        assert!(deliveries.len() <= most);
        for delivery in &deliveries {
            self.model.deliver(delivery);
        }
        deliveries.len()
    }

    pub fn grant_wants(&mut self) -> bool {
        let wants = self.group.wants();
        for want in &wants {
            assert!(self.model.room(want.member) > 0);
            let member = self.model.members.get_mut(&want.member).unwrap();
            assert!(want.events > 0 && want.bytes > 0 && !member.named);
            assert!(member.events == 0 || member.bytes < want.bytes);
            member.events += want.events;
            member.bytes += want.bytes;
            self.group.credit(want.member, want.events, want.bytes);
        }
        !wants.is_empty()
    }

    /// Does all there is to do. Then, where somebody has room, nothing that can be delivered may be left.
    pub fn pump(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the group does not come to rest");
            self.ask_loads();
            let mut busy = !self.loads.is_empty();
            while !self.loads.is_empty() {
                self.answer_loads(false);
            }
            self.settle_down();
            busy |= self.deliver(2) > 0;
            self.forget_named();
            busy |= self.grant_wants();
            busy |= self.read(usize::MAX);
            self.settle_down();
            if !busy {
                break;
            }
        }
        let room = self.model.members.keys().any(|&member| self.model.room(member) > 0);
        let left = self.model.items.iter().find(|item| self.model.is_deliverable(item));
        assert!(
            !room || left.is_none(),
            "{left:?} is left over: {:?}",
            self.group.stats()
        );
    }

    /// A pending request for credit is answered with nothing.
    pub fn forget_named(&mut self) {
        for (&id, member) in &mut self.model.members {
            member.named = false;
            self.group.credit(id, 0, 0);
        }
    }

    pub fn settle_down(&mut self) {
        self.model.settle_down();
    }

    pub fn ack(&mut self, seq: u64) {
        let id = self.model.item(seq).event.id.clone();
        let expected = if self.model.item(seq).is_open() {
            AckOutcome::Done
        } else {
            AckOutcome::Lookup
        };
        assert_eq!(self.group.ack(&id), expected);
        if expected == AckOutcome::Lookup {
            if self.model.item(seq).removed || seq <= self.group.read_position() || !self.group.in_window(seq) {
                return;
            }
            self.group.read_through(seq);
            while self.group.read_position() < seq {
                assert!(self.read(usize::MAX), "{seq} is in the window");
            }
            self.group.ack_seq(seq);
        }
        let item = self.model.item(seq);
        item.acked = true;
        item.holder = None;
    }

    pub fn some_seq(&self, at: usize) -> Option<u64> {
        (!self.model.items.is_empty()).then(|| (at % self.model.items.len()) as u64 + 1)
    }

    /// An event that is with a member, where there is one.
    pub fn some_held(&self, at: usize) -> Option<u64> {
        let held: Vec<&Item> = self.model.items.iter().filter(|item| item.holder.is_some()).collect();
        (!held.is_empty()).then(|| held[at % held.len()].event.seq)
    }
}
