//! Ephemeral subscriptions of a topic: each gets every event from its place on, against its connection's credit.

use std::sync::Arc;

use super::tail::{Tail, TailRead};
use crate::actors::connection::ConnectionHandle;
use crate::actors::messages::{Deliver, FeedLost, Push, WantCredit};
use crate::domain::group::MemberId;
use crate::domain::{Event, Filter};

/// The most events that one step takes from the tail or the store.
pub(super) const READ_EVENTS: usize = 512;
/// The most bytes that one step takes.
pub(super) const READ_BYTES: usize = 1 << 20;

/// One ephemeral subscription.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) member: MemberId,
    pub(super) connection: ConnectionHandle,
    filter: Option<Filter>,
    /// All up to this seq were handed out or left out.
    position: u64,
    events: u32,
    pub(super) paused: bool,
    /// Whether the connection was told that there is something, and has not granted credit since.
    asked: bool,
    /// Whether a read of the store is under way.
    pub(super) reading: bool,
}

/// What a feed needs next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it is at the tail, paused, or waits for credit.
    Rest,
    /// To be called again: a slice of work is done.
    Again,
    /// Events from this seq on, from the store.
    ReadStore(u64),
}

impl Feed {
    pub(super) fn new(member: MemberId, connection: ConnectionHandle, filter: Option<Filter>, position: u64) -> Feed {
        Feed {
            member,
            connection,
            filter,
            position,
            events: 0,
            paused: false,
            asked: false,
            reading: false,
        }
    }

    /// The topic's actor dies: the connection goes on from here with the next one.
    pub(super) fn lose(&self) {
        self.connection.feed_lost(FeedLost {
            member: self.member,
            position: Some(self.position),
        });
    }

    pub(super) fn grant(&mut self, events: u32) {
        self.events = self.events.saturating_add(events);
        self.asked = false;
    }

    /// Hands out what the tail has, as far as the credit goes.
    pub(super) fn pump(&mut self, tail: &Tail) -> Next {
        if self.paused || self.reading || self.asked {
            return Next::Rest;
        }
        match tail.read(self.position + 1, READ_EVENTS, READ_BYTES) {
            TailRead::Nothing => Next::Rest,
            TailRead::Behind => Next::ReadStore(self.position + 1),
            TailRead::Events { events, upto } => {
                self.hand_out(&events, upto);
                if self.asked { Next::Rest } else { Next::Again }
            }
        }
    }

    /// Hands out events that follow the position, as far as the credit goes; asks for more where it does not suffice.
    pub(super) fn hand_out(&mut self, events: &[Arc<Event>], upto: u64) {
        if self.paused {
            return;
        }
        let mut pushes = Vec::new();
        let mut rest = events.iter();
        let mut stuck = false;
        for event in rest.by_ref() {
            if self.filter.as_ref().is_none_or(|filter| filter.matches(event)) {
                if self.events == 0 || !self.connection.room().take(event.json.len()) {
                    self.connection.want(WantCredit {
                        member: self.member,
                        events: u32::try_from(rest.len() + 1).unwrap_or(u32::MAX),
                        bytes: event.json.len(),
                    });
                    self.asked = true;
                    stuck = true;
                    break;
                }
                self.events -= 1;
                pushes.push(Push {
                    event: event.clone(),
                    attempt: 1,
                    lease: None,
                });
            }
            self.position = event.seq;
        }
        if !stuck {
            self.position = self.position.max(upto);
        }
        if !pushes.is_empty() {
            self.connection.deliver(Deliver {
                member: self.member,
                pushes,
                seeks: 0,
            });
        }
    }
}
