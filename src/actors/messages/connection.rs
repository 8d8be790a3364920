//! What a connection receives.

use std::sync::Arc;

use actix::Message;

use crate::actors::connection::Operation;
use crate::actors::node::Lease;
use crate::actors::reply::{Answered, Reply};
use crate::domain::Event;
use crate::domain::group::MemberId;
use crate::protocol::{self, CloseCode, Failure};

/// Answers to requests of this connection, from whoever was done with them.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Answers(pub Vec<Answered>);

/// Events for one of the connection's subscriptions, handed out against its credit: they are written at once.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// Which subscription.
    pub member: MemberId,
    /// In the order in which they are to be written.
    pub pushes: Vec<Push>,
    /// Nothing is written once this is over: another gateway may deliver the group's events then.
    pub lease: Option<Arc<Lease>>,
    /// How often the group was put somewhere else so far; 0 without a group.
    pub seeks: u64,
}

/// One event to write.
#[derive(Debug)]
pub struct Push {
    /// The event.
    pub event: Arc<Event>,
    /// How often the group was given it, this time included.
    pub attempt: u32,
    /// None where it is not to be acked.
    pub lease: Option<protocol::Lease>,
}

/// A group or topic has events for a subscription, but not the credit or the room to hand them out. Sent once until a
/// [`super::GrantCredit`] comes.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WantCredit {
    /// Which subscription.
    pub member: MemberId,
    /// How many events are ready.
    pub events: u32,
    /// How many bytes the next one takes: less room than that is of no use.
    pub bytes: usize,
}

/// A subscription ended without the client's doing.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct EndSubscription {
    /// Which subscription.
    pub member: MemberId,
    /// Why.
    pub failure: Failure,
}

/// Whoever fed a subscription died: the connection subscribes anew by itself.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct FeedLost {
    /// Which subscription.
    pub member: MemberId,
    /// For an ephemeral one, the last seq that it was handed or that was left out.
    pub position: Option<u64>,
}

/// Keys or secrets were exchanged: what let the client in may have been taken back.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct CheckRights;

/// The gateway closes the connection.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct GoAway(pub CloseCode);

/// Something in this process asks something of its subscription.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Operate {
    /// What.
    pub operation: Operation,
    /// Where the answer goes.
    pub reply: Reply,
}

/// Whoever holds a subscription in this process took events, after room had been asked for.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct RoomFreed;
