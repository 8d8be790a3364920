//! One unacked event of the window.

use std::sync::Arc;

use super::MemberId;
use crate::domain::{Event, Retry};

/// Where an event stands between being read and being acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// To be delivered as soon as its key, its body and a member allow.
    Ready,
    /// With a member.
    Leased { member: MemberId, until_ms: u64 },
    /// To be delivered again, not before `due_ms`.
    Waiting,
    /// Failed too often: never delivered again, on its way to the dead letters.
    Dying,
}

/// In which of the window's lists an entry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Spot {
    /// In none.
    #[default]
    Nowhere,
    /// Ready, with its body.
    Deliverable,
    /// Ready but for its body. `others_may_pass`: later events need not wait for it.
    Hungry { others_may_pass: bool },
    /// Leased or waiting: something happens at this time.
    Timed(u64),
    /// Dying, without its body.
    Dying,
    /// Dying, with its body: a dead letter as soon as it is saved.
    Doomed,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Entry {
    pub id: Arc<str>,
    pub key: Option<Arc<str>>,
    pub partition: u32,
    /// When the event came.
    pub at: u64,
    /// Of its JSON, in bytes.
    pub size: usize,
    /// How many deliveries of it failed.
    pub attempts: u32,
    pub due_ms: u64,
    /// When its last delivery was.
    pub delivered_ms: u64,
    pub reason: Box<str>,
    /// Whether the store has, or may have, a retry of it.
    pub has_row: bool,
    pub state: State,
    /// Kept only while it is needed: see [`Spot::Deliverable`] and [`Spot::Doomed`].
    pub body: Option<Arc<Event>>,
    /// Whether it had to wait for an earlier event of its key: others have passed it then, and may go on to.
    pub was_held: bool,
    pub spot: Spot,
}

impl Entry {
    /// An event that was just read, with what an earlier life of the group remembers of it.
    pub fn new(event: Arc<Event>, retry: Option<Retry>) -> Entry {
        let mut entry = Entry {
            id: event.id.as_ref().into(),
            key: event.key.as_deref().map(Arc::from),
            partition: event.partition,
            at: event.at,
            size: event.json.len(),
            attempts: 0,
            due_ms: 0,
            delivered_ms: 0,
            reason: Box::default(),
            has_row: false,
            state: State::Ready,
            body: Some(event),
            was_held: false,
            spot: Spot::Nowhere,
        };
        if let Some(retry) = retry {
            entry.attempts = retry.attempts;
            entry.due_ms = retry.due_ms;
            entry.reason = retry.reason;
            entry.has_row = true;
            entry.state = State::Waiting;
        }
        entry
    }

    /// Whether this member holds it.
    pub fn is_with(&self, holder: MemberId) -> bool {
        matches!(self.state, State::Leased { member, .. } if member == holder)
    }

    /// What the store is to remember of it.
    pub fn retry(&self, seq: u64) -> Retry {
        Retry {
            seq,
            attempts: self.attempts,
            due_ms: self.due_ms,
            reason: self.reason.clone(),
        }
    }
}
