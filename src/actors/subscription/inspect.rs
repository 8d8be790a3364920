//! How a group stands, for those who ask.

use actix::prelude::*;

use super::SubscriptionActor;
use crate::actors::connection::Condition;
use crate::actors::messages::Inspect;
use crate::domain::GroupName;
use crate::domain::group::{MemberSnapshot, Snapshot};
use crate::store::Pause;

/// A group that runs, as it stands at a moment.
#[derive(Debug, Clone)]
pub struct GroupView {
    /// Which.
    pub name: GroupName,
    /// What its rules know.
    pub rules: Snapshot,
    /// Its members, with what is known of their connections.
    pub members: Vec<MemberView>,
    /// Set while the whole group is paused.
    pub paused: Option<Pause>,
    /// How many events are settled in a second, lately.
    pub settled_per_second: f64,
    /// When an event was settled last, in epoch milliseconds, in this life of the group's actor.
    pub settled_ms: Option<u64>,
    /// Set while the store fails the group.
    pub trouble: Option<Trouble>,
    /// How far the topic was when it answered.
    pub tail: u64,
    /// How many messages wait for it.
    pub waiting: usize,
}

/// One member.
#[derive(Debug, Clone)]
pub struct MemberView {
    /// What the rules know.
    pub rules: MemberSnapshot,
    /// How it stands with its connection.
    pub connection: Condition,
}

/// The store fails a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Since when, in epoch milliseconds.
    pub since_ms: u64,
    /// What it said.
    pub why: String,
}

impl Handler<Inspect> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, message: Inspect, _: &mut Context<Self>) {
        if let Some(view) = self.view() {
            let _ = message.0.send(view);
        }
    }
}

impl SubscriptionActor {
    fn view(&self) -> Option<GroupView> {
        let (group, _) = self.state.as_ref()?;
        let (now_ms, tail) = (self.now_ms(), self.tail.seq());
        let mut rules = group.snapshot(tail);
        let members = std::mem::take(&mut rules.members).into_iter();
        let members = members.filter_map(|rules| {
            let connection = &self.members.get(&rules.id)?.connection;
            let connection = connection.is_open().then(|| connection.condition())?;
            Some(MemberView { rules, connection })
        });
        Some(GroupView {
            name: self.name.clone(),
            members: members.collect(),
            rules,
            paused: self.paused.clone(),
            settled_per_second: self.settled.per_second(now_ms),
            settled_ms: self.settled.rose_ms(),
            trouble: self.trouble.clone(),
            tail,
            waiting: self.gate.depth(),
        })
    }

    /// The store failed: since when is kept until it answers again.
    pub(super) fn note_trouble(&mut self, why: &dyn std::fmt::Display) {
        let since_ms = self.trouble.as_ref().map_or(self.now_ms(), |trouble| trouble.since_ms);
        let why = why.to_string();
        self.trouble = Some(Trouble { since_ms, why });
    }
}
