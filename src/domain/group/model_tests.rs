//! Random histories of a group, its log, its members and its store, each step compared with the [model](super::model).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::model::{Item, Model, ModelMember};
use super::window::Limits;
use super::{AckOutcome, Changes, Departure, Group, MemberId};
use crate::domain::{
    Event, Filter, GroupSettings, MemberSettings, NewEvent, PartitionCursor, Place, Retry, partition_of,
};

const PARTITIONS: u32 = 3;
const LIMITS: Limits = Limits {
    window: 24,
    bodies: 5,
    body_bytes: 1_200,
    loads: 3,
};

#[derive(Debug, Clone)]
enum Step {
    Publish { key: u8, tag: bool, filler: usize },
    Join(u8, MemberSettings),
    Leave(u8, bool),
    Pause(u8, bool),
    PauseGroup(bool),
    Credit(u8, u32, usize),
    Revoke(u8),
    Read(usize),
    AskLoads,
    AnswerLoads(bool),
    Deliver(usize),
    Pump,
    Ack(usize),
    AckDelivered(usize),
    Nack(u8, usize, bool, Option<u64>),
    Modack(u8, usize, u64),
    GiveBack(u8, usize),
    Pass(u64),
    Remove(usize),
    Expire(usize),
    Seek(usize),
    Settings(GroupSettings),
    TakeChanges,
    AnswerSave { written: bool, told: bool },
    Restart { written: bool },
}

/// What a store would have.
#[derive(Debug, Default)]
struct Stored {
    cursors: Vec<PartitionCursor>,
    retries: BTreeMap<u64, Retry>,
    dead: BTreeSet<u64>,
}

struct World {
    group: Group,
    model: Model,
    stored: Stored,
    saving: Option<Changes>,
    loads: Vec<Vec<u64>>,
    first: u64,
    anything_removed: bool,
}

impl World {
    fn new(settings: GroupSettings, dead_letters: bool) -> World {
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

    fn publish(&mut self, key: u8, tag: bool, filler: usize) {
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
    fn read(&mut self, most: usize) -> bool {
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
            let left_out = filter.is_some_and(|filter| !filter.matches(&item.event)) && item.attempts == 0;
            item.acked |= item.removed || left_out;
        }
        self.group.tick(self.model.now_ms);
        self.settle_down();
        true
    }

    fn ask_loads(&mut self) -> bool {
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

    fn answer_loads(&mut self, fails: bool) {
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

    fn deliver(&mut self, most: usize) -> usize {
        let deliveries = self.group.deliver(self.model.now_ms, most);
        assert!(deliveries.len() <= most);
        for delivery in &deliveries {
            self.model.deliver(delivery);
        }
        deliveries.len()
    }

    fn grant_wants(&mut self) -> bool {
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
    fn pump(&mut self) {
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
    fn forget_named(&mut self) {
        for (&id, member) in &mut self.model.members {
            member.named = false;
            self.group.credit(id, 0, 0);
        }
    }

    fn settle_down(&mut self) {
        self.model.settle_down();
    }

    fn ack(&mut self, seq: u64) {
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

    fn take_changes(&mut self) {
        let (dirty, busy) = (self.group.is_dirty(), self.saving.is_some());
        let Some(changes) = self.group.take_changes() else {
            assert!(busy || !dirty);
            return;
        };
        assert!(dirty && !busy);
        assert_eq!(changes.dropped_dead, self.model.dropped_dead);
        self.model.dropped_dead = 0;
        for letter in &changes.dead {
            let item = self.model.item(letter.event.seq);
            assert!(item.handed || (item.dying && item.is_open()), "{item:?}");
            assert_eq!(
                (letter.attempts, &*letter.reason),
                (item.attempts, item.reason.as_str())
            );
            (item.handed, item.acked) = (true, true);
        }
        let handed = self.model.items.iter().filter(|item| item.handed).count();
        assert_eq!(handed, changes.dead.len(), "a dead letter did not come again");
        let cursors = self.group.cursors();
        for update in &changes.updates {
            assert_eq!(update.cursor, cursors[update.partition as usize]);
            for retry in &update.retries {
                let item = self.model.item(retry.seq);
                assert!(item.is_open() && item.event.partition == update.partition);
                let found = (retry.attempts, retry.due_ms, &*retry.reason);
                assert_eq!(found, (item.attempts, item.due_ms, item.reason.as_str()));
            }
            for &seq in &update.settled {
                assert!(self.model.item(seq).acked);
            }
        }
        self.saving = Some(changes);
    }

    fn write(&mut self, changes: &Changes) {
        for update in &changes.updates {
            let before = std::mem::replace(
                &mut self.stored.cursors[update.partition as usize],
                update.cursor.clone(),
            );
            assert!(before.floor <= update.cursor.floor, "a floor went down");
            for retry in &update.retries {
                self.stored.retries.insert(retry.seq, retry.clone());
            }
            for seq in &update.settled {
                self.stored.retries.remove(seq);
            }
        }
        self.stored
            .dead
            .extend(changes.dead.iter().map(|letter| letter.event.seq));
    }

    fn answer_save(&mut self, written: bool, told: bool) {
        let Some(changes) = self.saving.take() else {
            return;
        };
        if written {
            self.write(&changes);
        }
        if written && told {
            for letter in &changes.dead {
                self.model.item(letter.event.seq).handed = false;
            }
            self.group.saved();
        } else {
            self.model.dropped_dead += changes.dropped_dead;
            self.group.save_failed();
        }
    }

    fn restart(&mut self, written: bool) {
        if let Some(changes) = self.saving.take().filter(|_| written) {
            self.write(&changes);
        }
        self.loads.clear();
        self.model.members.clear();
        self.model.group_paused = false;
        let retries = self.stored.retries.values().cloned().collect();
        let (settings, cursors) = (self.model.settings.clone(), self.stored.cursors.clone());
        self.group = Group::with_limits(LIMITS, settings, cursors, retries, self.model.dead_letters);
        self.model.begin(&self.stored.cursors, &self.stored.retries);
        self.expire(self.first);
    }

    fn expire(&mut self, first: u64) {
        self.first = first;
        let mut expected = 0;
        for seq in 1..first {
            let item = self.model.item(seq);
            expected += u64::from(item.is_open());
            (item.removed, item.acked, item.holder) = (true, true, None);
        }
        assert_eq!(self.group.expire_below(first), expected);
    }

    fn seek(&mut self, floor: u64) {
        let mut cursors = vec![
            PartitionCursor {
                floor,
                ..PartitionCursor::default()
            };
            PARTITIONS as usize
        ];
        for item in self.model.items.iter().filter(|item| item.event.seq <= floor) {
            cursors[item.event.partition as usize].floor_ordinal += 1;
        }
        self.group.seek(cursors.clone());
        self.stored.cursors = cursors;
        self.stored.retries.clear();
        self.saving = self.saving.take().map(|_| Changes::default());
        self.model.begin(&self.stored.cursors, &self.stored.retries);
        self.expire(self.first);
    }

    fn some_seq(&self, at: usize) -> Option<u64> {
        (!self.model.items.is_empty()).then(|| (at % self.model.items.len()) as u64 + 1)
    }

    /// An event that is with a member, where there is one.
    fn some_held(&self, at: usize) -> Option<u64> {
        let held: Vec<&Item> = self.model.items.iter().filter(|item| item.holder.is_some()).collect();
        (!held.is_empty()).then(|| held[at % held.len()].event.seq)
    }

    fn take(&mut self, step: Step) {
        let now_ms = self.model.now_ms;
        match step {
            Step::Publish { key, tag, filler } => self.publish(key, tag, filler),
            Step::Join(id, settings) => {
                let id = MemberId::from(id);
                if !self.model.members.contains_key(&id) {
                    let member = ModelMember {
                        settings,
                        paused: false,
                        events: 0,
                        bytes: 0,
                        named: false,
                    };
                    self.model.members.insert(id, member);
                    self.group.join(id, settings);
                }
            }
            Step::Leave(id, counted) => self.leave(id.into(), counted),
            Step::Pause(id, paused) => {
                if let Some(member) = self.model.members.get_mut(&id.into()) {
                    (member.paused, member.named) = (paused, false);
                }
                self.group.set_paused(id.into(), paused);
            }
            Step::PauseGroup(paused) => {
                self.model.group_paused = paused;
                self.group.set_group_paused(paused);
            }
            Step::Credit(id, events, bytes) => {
                if let Some(member) = self.model.members.get_mut(&id.into()) {
                    member.events += events;
                    member.bytes += bytes;
                    member.named = false;
                }
                self.group.credit(id.into(), events, bytes);
            }
            Step::Revoke(id) => {
                let mut expected = (0, 0);
                if let Some(member) = self.model.members.get_mut(&id.into()) {
                    expected = (member.events, member.bytes);
                    (member.events, member.bytes, member.named) = (0, 0, false);
                }
                assert_eq!(self.group.revoke_credit(id.into()), expected);
            }
            Step::Read(most) => drop(self.read(most)),
            Step::AskLoads => drop(self.ask_loads()),
            Step::AnswerLoads(fails) => self.answer_loads(fails),
            Step::Deliver(most) => {
                self.deliver(most);
                for want in self.group.wants() {
                    let member = self.model.members.get_mut(&want.member).unwrap();
                    assert!(!std::mem::replace(&mut member.named, true), "named twice: {want:?}");
                }
            }
            Step::Pump => self.pump(),
            Step::Ack(at) => self.some_seq(at).into_iter().for_each(|seq| self.ack(seq)),
            Step::AckDelivered(at) => self.some_held(at).into_iter().for_each(|seq| self.ack(seq)),
            Step::Nack(id, at, by_holder, delay_ms) => {
                let Some(seq) = self.some_held(at).or(self.some_seq(at)) else {
                    return;
                };
                let item = self.model.item(seq).clone();
                let id = item
                    .holder
                    .filter(|_| by_holder)
                    .map_or(id.into(), |(holder, _)| holder);
                let holds = item.holder.is_some_and(|(holder, _)| holder == id);
                assert_eq!(self.group.nack(id, &item.event.id, Some("no"), delay_ms, now_ms), holds);
                if holds {
                    self.model.fail(seq, "no", |backoff, _| delay_ms.unwrap_or(backoff));
                }
            }
            Step::Modack(id, at, extend_ms) => {
                let Some(seq) = self.some_held(at) else {
                    return;
                };
                let item = self.model.item(seq);
                let expected = item.holder.is_some_and(|(holder, _)| holder == u64::from(id));
                let length = extend_ms.max(1_000);
                if expected {
                    item.holder = Some((id.into(), now_ms + length));
                }
                let found = self.group.modack(id.into(), &item.event.id, extend_ms, now_ms);
                assert_eq!(found, expected.then_some(length));
            }
            Step::GiveBack(id, at) => {
                if let Some(seq) = self.some_held(at) {
                    self.group.give_back(id.into(), seq);
                    let item = self.model.item(seq);
                    item.holder = item.holder.filter(|&(holder, _)| holder != u64::from(id));
                }
            }
            Step::Pass(ms) => {
                self.model.now_ms += ms;
                self.model.tick();
                self.group.tick(self.model.now_ms);
            }
            Step::Remove(at) => {
                if let Some(seq) = self.some_seq(at) {
                    self.anything_removed = true;
                    self.model.item(seq).removed = true;
                }
            }
            Step::Expire(at) => {
                if let Some(seq) = self.some_seq(at) {
                    self.anything_removed = true;
                    self.expire(self.first.max(seq));
                }
            }
            Step::Seek(at) => self.seek((at as u64) % (self.model.tail() + 1)),
            Step::Settings(settings) => {
                self.group.apply_settings(settings.clone());
                assert_eq!(self.group.settings(), &settings);
                self.model.settings = settings;
            }
            Step::TakeChanges => self.take_changes(),
            Step::AnswerSave { written, told } => self.answer_save(written, told),
            Step::Restart { written } => self.restart(written),
        }
    }

    fn leave(&mut self, id: MemberId, counted: bool) {
        let how = if counted {
            Departure::Counted
        } else {
            Departure::Uncounted
        };
        self.group.leave(id, how, self.model.now_ms);
        self.model.members.remove(&id);
        for seq in 1..=self.model.tail() {
            if self.model.item(seq).holder.is_none_or(|(holder, _)| holder != id) {
                continue;
            }
            if counted {
                self.model.fail(
                    seq,
                    "member left",
                    |backoff, failed| if failed == 1 { 0 } else { backoff },
                );
            } else {
                self.model.item(seq).holder = None;
            }
        }
    }

    fn check(&self) {
        self.group.window.assert_sound();
        let items = &self.model.items;
        let open: Vec<u64> = items
            .iter()
            .filter(|item| item.is_open())
            .map(|item| item.event.seq)
            .collect();
        assert_eq!(self.group.window.seqs(), open);
        let lowest_floor = open.first().map_or(self.group.read_position(), |lowest| lowest - 1);
        assert!(self.group.read_position() <= lowest_floor + LIMITS.window);
        assert_eq!(self.group.member_count(), self.model.members.len());
        let stats = self.group.stats();
        let count = |test: &dyn Fn(&Item) -> bool| items.iter().filter(|item| test(item)).count();
        assert_eq!(stats.inflight, count(&|item| item.holder.is_some()));
        assert_eq!(stats.dying, count(&|item| item.is_open() && item.dying));
        assert_eq!(stats.ready, count(&|item| self.model.is_deliverable(item)));
        assert_eq!(
            stats.held,
            count(&|item| self.model.is_ready(item) && self.model.is_held(item))
        );
        assert_eq!(stats.oldest_unacked, open.first().copied());
        assert!(self.group.next_deadline().is_none_or(|at| at > self.model.now_ms));
        for (partition, cursor) in (0..).zip(self.group.cursors()) {
            if let Some(expected) = self.model.cursor(partition, self.group.read_position()) {
                assert_eq!(cursor, expected, "partition {partition}");
            }
            let mine = || items.iter().filter(|item| item.event.partition == partition);
            for item in mine().filter(|item| !item.removed) {
                assert_eq!(cursor.is_acked(item.event.seq), item.acked, "{item:?} {cursor:?}");
            }
            if !self.anything_removed {
                let unacked = mine().filter(|item| !item.acked).count() as u64;
                assert_eq!(
                    mine().count() as u64 - cursor.floor_ordinal - cursor.acked_count,
                    unacked
                );
            }
        }
        if !self.group.is_dirty() && self.saving.is_none() && open.is_empty() {
            let left = self
                .stored
                .retries
                .keys()
                .find(|&&seq| seq <= self.group.read_position());
            assert_eq!(left, None, "a stored retry was forgotten");
        }
    }

    /// Everybody leaves, one member that acks all it gets comes, and the store works: then nothing may be left.
    fn come_to_rest(&mut self) {
        for id in self.model.members.keys().copied().collect::<Vec<_>>() {
            self.leave(id, false);
        }
        self.take(Step::PauseGroup(false));
        self.take(Step::Join(
            9,
            MemberSettings {
                max_in_flight: 2,
                ..MemberSettings::default()
            },
        ));
        self.settle_down();
        for round in 0.. {
            assert!(
                round < 1_000,
                "the group does not come to its end: {:?}",
                self.group.stats()
            );
            self.pump();
            while let Some(seq) = self.some_held(0) {
                self.ack(seq);
            }
            self.settle_down();
            self.answer_save(true, true);
            self.take_changes();
            self.answer_save(true, true);
            self.take(Step::Pass(30_000));
            self.settle_down();
            self.check();
            if !self.group.is_dirty()
                && self.group.stats().oldest_unacked.is_none()
                && self.group.read_position() == self.model.tail()
            {
                break;
            }
        }
        let lost = self.model.items.iter().find(|item| !item.acked);
        assert!(lost.is_none(), "lost: {lost:?}");
        assert!(self.stored.retries.is_empty(), "left over: {:?}", self.stored.retries);
    }
}

fn settings() -> impl Strategy<Value = GroupSettings> {
    let filter = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Filter { key_prefix: Some("k1".into()), ..Filter::default() })),
        1 => Just(Some(Filter { tags: Some(vec!["t".into()]), ..Filter::default() })),
    ];
    (1_u32..4, prop_oneof![Just(0_u64), Just(100)], any::<bool>(), filter).prop_map(
        |(max_attempts, backoff_ms, ordered, filter)| GroupSettings {
            max_attempts,
            backoff_ms,
            ordered,
            filter,
        },
    )
}

fn member_settings() -> impl Strategy<Value = MemberSettings> {
    (1_u32..6, 1_000_u64..3_000, 1_u32..8).prop_map(|(max_in_flight, ack_timeout_ms, batch_size)| MemberSettings {
        max_in_flight,
        ack_timeout_ms,
        batch_size,
        auto_ack: false,
    })
}

fn step(removals: bool) -> impl Strategy<Value = Step> {
    let member = 1_u8..4;
    let at = 0_usize..200;
    let removing = u32::from(removals);
    let delay = proptest::option::of(prop_oneof![Just(0_u64), 1_u64..500]);
    let everyday = prop_oneof![
        8 => (0_u8..4, any::<bool>(), prop_oneof![9 => 0_usize..200, 1 => Just(1_500)])
            .prop_map(|(key, tag, filler)| Step::Publish { key, tag, filler }),
        3 => (member.clone(), member_settings()).prop_map(|(id, settings)| Step::Join(id, settings)),
        1 => (member.clone(), any::<bool>()).prop_map(|(id, counted)| Step::Leave(id, counted)),
        2 => (member.clone(), any::<bool>()).prop_map(|(id, paused)| Step::Pause(id, paused)),
        1 => any::<bool>().prop_map(Step::PauseGroup),
        3 => (member.clone(), 0_u32..5, 0_usize..1_000).prop_map(|(id, events, bytes)| Step::Credit(id, events, bytes)),
        1 => member.clone().prop_map(Step::Revoke),
        4 => (1_usize..8).prop_map(Step::Read),
        2 => Just(Step::AskLoads),
        2 => any::<bool>().prop_map(Step::AnswerLoads),
        4 => (0_usize..5).prop_map(Step::Deliver),
        4 => Just(Step::Pump),
    ];
    let ends = prop_oneof![
        2 => at.clone().prop_map(Step::Ack),
        6 => at.clone().prop_map(Step::AckDelivered),
        5 => (member.clone(), at.clone(), any::<bool>(), delay)
            .prop_map(|(id, at, by_holder, delay)| Step::Nack(id, at, by_holder, delay)),
        1 => (member.clone(), at.clone(), 0_u64..5_000).prop_map(|(id, at, ms)| Step::Modack(id, at, ms)),
        1 => (member.clone(), at.clone()).prop_map(|(id, at)| Step::GiveBack(id, at)),
        3 => prop_oneof![1_u64..200, 500_u64..3_000].prop_map(Step::Pass),
    ];
    let rare = prop_oneof![
        removing => at.clone().prop_map(Step::Remove),
        removing => at.clone().prop_map(Step::Expire),
        1 => at.prop_map(Step::Seek),
        2 => settings().prop_map(Step::Settings),
        5 => Just(Step::TakeChanges),
        5 => (any::<bool>(), any::<bool>()).prop_map(|(written, told)| Step::AnswerSave { written, told }),
        2 => any::<bool>().prop_map(|written| Step::Restart { written }),
    ];
    prop_oneof![5 => everyday, 3 => ends, 2 => rare]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    any::<bool>().prop_flat_map(|removals| proptest::collection::vec(step(removals), 1..150))
}

proptest! {
    #[test]
    fn a_group_does_what_the_model_does(first in settings(), dead_letters in any::<bool>(), steps in history()) {
        let mut world = World::new(first, dead_letters);
        for step in steps {
            world.take(step);
            world.settle_down();
            world.check();
        }
        world.come_to_rest();
    }
}
