//! The steps that histories are made of.

use std::collections::btree_map::Entry;

use proptest::prelude::*;

use super::model::ModelMember;
use super::world::World;
use crate::domain::group::{Departure, MemberId};
use crate::domain::{Filter, GroupSettings, MemberSettings};

#[derive(Debug, Clone)]
pub(super) enum Step {
    Publish {
        key: u8,
        tag: bool,
        filler: usize,
    },
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
    /// The actor dies, and the next one takes over what its members hold.
    Bequeath,
    Pass(u64),
    Remove(usize),
    Expire(usize),
    Seek(usize),
    Settings(GroupSettings),
    TakeChanges,
    AnswerSave {
        written: bool,
        told: bool,
    },
    Restart {
        written: bool,
    },
}

impl World {
    pub fn take(&mut self, step: Step) {
        let now_ms = self.model.now_ms;
        match step {
            Step::Publish { key, tag, filler } => self.publish(key, tag, filler),
            Step::Join(id, settings) => {
                if let Entry::Vacant(place) = self.model.members.entry(id.into()) {
                    place.insert(ModelMember {
                        settings,
                        paused: false,
                        events: 0,
                        bytes: 0,
                        named: false,
                    });
                    self.group.join(id.into(), settings);
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
                let mut expected = 0;
                if let Some(member) = self.model.members.get_mut(&id.into()) {
                    expected = std::mem::take(&mut member.bytes);
                }
                assert_eq!(self.group.take_back_bytes(id.into()), expected);
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
            Step::Bequeath => self.bequeath(),
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

    pub fn leave(&mut self, id: MemberId, counted: bool) {
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
}

pub(super) fn settings() -> impl Strategy<Value = GroupSettings> {
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
            filter_since: 0,
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

fn publish() -> impl Strategy<Value = Step> {
    let filler = prop_oneof![9 => 0_usize..200, 1 => Just(1_500)];
    (0_u8..4, any::<bool>(), filler).prop_map(|(key, tag, filler)| Step::Publish { key, tag, filler })
}

/// Some events and two members.
pub(super) fn opening() -> impl Strategy<Value = Vec<Step>> {
    let events = proptest::collection::vec(publish(), 5..30);
    (events, member_settings(), member_settings()).prop_map(|(mut steps, one, two)| {
        steps.extend([Step::Join(1, one), Step::Join(2, two), Step::Pump]);
        steps
    })
}

pub(super) fn step(removals: bool) -> impl Strategy<Value = Step> {
    let member = 1_u8..4;
    let at = 0_usize..200;
    let removing = u32::from(removals);
    let delay = proptest::option::of(prop_oneof![Just(0_u64), 1_u64..500]);
    let everyday = prop_oneof![
        8 => publish(),
        3 => (member.clone(), member_settings()).prop_map(|(id, settings)| Step::Join(id, settings)),
        1 => (member.clone(), any::<bool>()).prop_map(|(id, counted)| Step::Leave(id, counted)),
        2 => (member.clone(), any::<bool>()).prop_map(|(id, paused)| Step::Pause(id, paused)),
        1 => any::<bool>().prop_map(Step::PauseGroup),
        3 => (member.clone(), 0_u32..10, 0_usize..3_000).prop_map(|(id, events, bytes)| Step::Credit(id, events, bytes)),
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
        1 => Just(Step::Bequeath),
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
