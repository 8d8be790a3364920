//! What a connection tells whoever feeds one of its subscriptions: a group, or a topic where there is no group.

use actix::Message;

use crate::actors::handle::{Handle, Rejected};
use crate::actors::reply::Reply;
use crate::actors::subscription::SubscriptionActor;
use crate::actors::topic::TopicActor;
use crate::domain::group::{Departure, MemberId};

/// The way to whoever feeds a subscription.
#[derive(Debug, Clone)]
pub enum FeedHandle {
    /// A member of a group.
    Group(Handle<SubscriptionActor>),
    /// An ephemeral subscription.
    Topic(Handle<TopicActor>),
}

/// The subscription may be given so much more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct GrantCredit {
    /// Which subscription.
    pub member: MemberId,
    /// Events; 0 says that there is room again.
    pub events: u32,
}

/// The subscription is over.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Leave {
    /// Which subscription.
    pub member: MemberId,
    /// Whether its leases count as attempts.
    pub departure: Departure,
    /// For an UNSUBSCRIBE.
    pub reply: Option<Reply>,
}

/// PAUSE or RESUME.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SetPaused {
    /// Which subscription.
    pub member: MemberId,
    /// From now on.
    pub paused: bool,
    /// Where `OK` goes.
    pub reply: Reply,
}

impl FeedHandle {
    /// Grants credit. Bounded: credit is granted for what was handed out before.
    pub fn grant(&self, credit: GrantCredit) {
        match self {
            FeedHandle::Group(group) => group.post(credit),
            FeedHandle::Topic(topic) => topic.post(credit),
        }
    }

    /// Leaves. Bounded: once for each subscription.
    pub fn leave(&self, leave: Leave) {
        match self {
            FeedHandle::Group(group) => group.post(leave),
            FeedHandle::Topic(topic) => topic.post(leave),
        }
    }

    /// Pauses or resumes.
    pub fn set_paused(&self, request: SetPaused) -> Result<(), (Rejected, SetPaused)> {
        match self {
            FeedHandle::Group(group) => group.offer(request, 0),
            FeedHandle::Topic(topic) => topic.offer(request, 0),
        }
    }
}
