//! What goes into a group and comes out of it, in the words of whoever drives it.

use std::sync::Arc;

use crate::domain::{CursorUpdate, Event};

/// A member's number, chosen by the caller: one for each subscription of a connection.
pub type MemberId = u64;

/// An event that is with a member from now on: its lease has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whom it goes to.
    pub member: MemberId,
    /// What.
    pub event: Arc<Event>,
    /// The how-manieth delivery that counts this one is, from 1.
    pub attempt: u32,
    /// How long the lease lasts from now.
    pub ack_timeout_ms: u64,
}

/// An event that failed as often as the group allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// What.
    pub event: Arc<Event>,
    /// How many deliveries of it failed.
    pub attempts: u32,
    /// Why the last one did.
    pub reason: Box<str>,
}

/// What the store has to write, in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The partitions that changed.
    pub updates: Vec<CursorUpdate>,
    /// What goes to the dead letters; `updates` has it acked.
    pub dead: Vec<DeadLetter>,
    /// How many events were acked after their last attempt because the topic has no dead letters.
    pub dropped_dead: u64,
}

/// How a member's leases end when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// As a failed attempt: the connection broke.
    Counted,
    /// As if they had not been: it left on purpose, or the gateway sent it away.
    Uncounted,
}

/// What became of an ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckOutcome {
    /// The event is acked; durable once the next changes are saved.
    Done,
    /// The id is not in the window: acked before (perhaps not saved yet), removed from the log, not read yet or beyond
    /// the window. The store knows its seq.
    Lookup,
}

/// A member that could be given events but has no credit for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Who.
    pub member: MemberId,
    /// How many events it could be given.
    pub events: u32,
    /// The bytes of their JSON.
    pub bytes: usize,
    /// The bytes of the first of them: credit for less is of no use.
    pub next_bytes: usize,
    /// Whether it has credit for events and lacks that for bytes only.
    pub lacks_bytes_only: bool,
}

/// What to read from the log next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPlan {
    /// The first seq.
    pub from: u64,
    /// At most so many events.
    pub max_events: usize,
    /// At most so many bytes of JSON (one event is fine, however large).
    pub max_bytes: usize,
}

/// Counts of what a group holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// With members.
    pub inflight: usize,
    /// Waiting until their redelivery is due.
    pub waiting: usize,
    /// Could be delivered now.
    pub ready: usize,
    /// Waiting for an earlier event of their key.
    pub held: usize,
    /// On their way to the dead letters.
    pub dying: usize,
    /// The lowest seq that is not acked, of those read.
    pub oldest_unacked: Option<u64>,
    /// When that one came, in epoch milliseconds.
    pub oldest_unacked_at: Option<u64>,
}
