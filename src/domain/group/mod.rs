//! The rules of a consumer group as a plain state machine: which event goes to which member, when it comes again, what is
//! acked and what the store has to know. It has no clock, no I/O and no actor: whoever drives it says what time it is,
//! reads what it asks for, and saves what it gives out.
//!
//! The driver's round: [`Group::next_read`] and [`Group::take_loads`] say what to read, [`Group::offer`] and
//! [`Group::loaded`] take it; [`Group::wants`] says which members need credit, [`Group::deliver`] gives out events
//! against it; [`Group::take_changes`] says what to save; [`Group::next_deadline`] says when to call [`Group::tick`].

mod changes;
mod delivery;
mod entry;
mod estate;
mod members;
mod progress;
mod reading;
mod snapshot;
mod types;
mod window;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use estate::Estate;
pub use snapshot::{BlockedKey, MemberSnapshot, Snapshot, Unacked, UnackedState};
pub use types::{AckOutcome, Changes, DeadLetter, Delivery, Departure, MemberId, ReadPlan, Stats, Want};

use super::{GroupSettings, MemberSettings, PartitionCursor, Retry};
use changes::Unsaved;
use entry::State;
use estate::Held;
use members::Members;
use progress::Progress;
use window::{Limits, Window};

/// One consumer group. See the [module](self).
#[derive(Debug)]
pub struct Group {
    limits: Limits,
    settings: GroupSettings,
    paused: bool,
    /// Whether the topic has dead letters.
    dead_letters: bool,
    members: Members,
    window: Window,
    partitions: BTreeMap<u32, Progress>,
    read_position: u64,
    /// Up to where to read whatever the demand.
    read_goal: u64,
    /// Retries of an earlier life whose events were not read again yet.
    stored_retries: BTreeMap<u64, Retry>,
    /// Leases of an earlier life whose events were not read again yet.
    inherited: BTreeMap<u64, Held>,
    /// Seqs whose bodies are being read.
    loading: BTreeSet<u64>,
    unsaved: Unsaved,
    /// What is with the store.
    saving: Option<Unsaved>,
}

impl Group {
    /// A group as the store has it. Reading begins above the lowest floor; where the log begins later than that, call
    /// [`Group::expire_below`] first. `dead_letters`: false for a `dlq.` topic, whose events are acked after their last
    /// attempt.
    pub fn new(
        settings: GroupSettings,
        cursors: Vec<PartitionCursor>,
        retries: Vec<Retry>,
        dead_letters: bool,
    ) -> Group {
        Group::with_limits(Limits::default(), settings, cursors, retries, dead_letters)
    }

    fn with_limits(
        limits: Limits,
        settings: GroupSettings,
        cursors: Vec<PartitionCursor>,
        retries: Vec<Retry>,
        dead_letters: bool,
    ) -> Group {
        let mut group = Group {
            window: Window::new(limits, settings.ordered),
            limits,
            settings,
            paused: false,
            dead_letters,
            members: Members::default(),
            partitions: BTreeMap::new(),
            read_position: 0,
            read_goal: 0,
            stored_retries: retries.into_iter().map(|retry| (retry.seq, retry)).collect(),
            inherited: BTreeMap::new(),
            loading: BTreeSet::new(),
            unsaved: Unsaved::default(),
            saving: None,
        };
        group.start_from(cursors);
        group
    }

    fn start_from(&mut self, cursors: Vec<PartitionCursor>) {
        self.partitions = (0..).zip(cursors.into_iter().map(Progress::new)).collect();
        let floors = self.partitions.values().map(Progress::stored_floor);
        self.read_position = floors.min().unwrap_or_default();
    }

    /// What the group has in common.
    pub fn settings(&self) -> &GroupSettings {
        &self.settings
    }

    /// Changes the settings. A new filter holds from the read position on; events that failed more often than is allowed
    /// now are not delivered again.
    pub fn apply_settings(&mut self, settings: GroupSettings) {
        self.settings = settings;
        for seq in self.window.seqs() {
            if self.window.get(seq).is_some_and(|entry| entry.state == State::Ready) {
                self.make_ready(seq);
            }
        }
        let dead = self.unsaved_dead();
        let leaving = dead.filter_map(|dead| Some((dead.key.clone()?, dead.seq))).collect();
        self.window.set_ordered(self.settings.ordered, leaving);
    }

    /// Pauses the whole group or lets it go on: nothing is delivered while it is paused; leases and acks go on.
    pub fn set_group_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Adds a member, without credit.
    pub fn join(&mut self, member: MemberId, settings: MemberSettings) {
        self.members.join(member, settings);
    }

    /// Removes a member; what it held goes back.
    pub fn leave(&mut self, member: MemberId, how: Departure, now_ms: u64) {
        self.disinherit(member);
        for seq in self.members.leave(member) {
            match how {
                Departure::Counted => self.end_by_departure(seq, now_ms),
                Departure::Uncounted => self.make_ready(seq),
            }
        }
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Pauses a member or lets it go on: nothing is delivered to it while it is paused; its leases go on.
    pub fn set_paused(&mut self, member: MemberId, paused: bool) {
        if let Some(member) = self.members.get_mut(member) {
            member.paused = paused;
            member.asked_for_credit = false;
        }
    }

    /// Adds to what a member may be given.
    pub fn credit(&mut self, member: MemberId, events: u32, bytes: usize) {
        if let Some(member) = self.members.get_mut(member) {
            member.credit_events = member.credit_events.saturating_add(events);
            member.credit_bytes = member.credit_bytes.saturating_add(bytes);
            member.asked_for_credit = false;
        }
    }

    /// Takes a member's unused credit in bytes back: room that it does not need is for others.
    pub fn take_back_bytes(&mut self, member: MemberId) -> usize {
        let member = self.members.get_mut(member);
        member.map_or(0, |member| std::mem::take(&mut member.credit_bytes))
    }

    /// Goes on from other cursors: ends all leases uncounted, forgets retries, the window and what was not saved. Members
    /// and credits stay; the filter holds from there on. The caller stores the cursors, which makes the store forget
    /// the retries too.
    pub fn seek(&mut self, cursors: Vec<PartitionCursor>) {
        for (_, member) in self.members.iter_mut() {
            member.leases.clear();
        }
        self.settings.filter_since = 0;
        self.window = Window::new(self.limits, self.settings.ordered);
        self.stored_retries.clear();
        self.inherited.clear();
        self.read_goal = 0;
        self.unsaved = Unsaved::default();
        self.saving = self.saving.take().map(|_| Unsaved::default());
        self.start_from(cursors);
    }

    /// The cursors of all partitions, as they would be stored now.
    pub fn cursors(&self) -> Vec<PartitionCursor> {
        self.partitions
            .values()
            .map(|progress| progress.cursor(self.read_position))
            .collect()
    }

    /// Counts of what the group holds.
    pub fn stats(&self) -> Stats {
        let inflight = self.members.iter().map(|member| member.leases.len()).sum();
        let (timed, ready, dying) = (
            self.window.timed_len(),
            self.window.ready_len(),
            self.window.dying_len(),
        );
        Stats {
            inflight,
            waiting: timed.saturating_sub(inflight),
            ready,
            held: self.window.len().saturating_sub(timed + ready + dying),
            dying,
            oldest_unacked: self.window.lowest(),
            oldest_unacked_at: self.window.lowest().and_then(|seq| Some(self.window.get(seq)?.at)),
        }
    }

    /// Whether a member could be given an event, had it the credit.
    fn has_room(&self) -> bool {
        !self.paused && self.members.iter().any(|member| member.room() > 0)
    }
}
