//! Requests: what a client asks for in one frame.

use super::draft::Draft;
use super::opts::SubscribeOpts;
use super::reply::{Corr, Failure};
use crate::domain::{GroupName, TopicName};

/// A frame as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// To be repeated on the answer. Here even if the rest is wrong, where it could be read.
    pub corr: Option<Corr>,
    /// What is asked for, or what to answer instead.
    pub request: Result<Request, Failure>,
}

/// Declares [`Op`] with the list of all of them, so that none can be left out.
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The `op` of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$doc])* $name),+
        }

        impl Op {
            /// Every one that there is.
            pub const ALL: &[Op] = &[$(Op::$name),+];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Op::$name => $text),+
                }
            }
        }
    };
}

ops! {
    /// [`Request::Auth`]
    Auth = "AUTH",
    /// [`Request::Publish`]
    Publish = "PUBLISH",
    /// [`Request::PublishBatch`]
    PublishBatch = "PUBLISH_BATCH",
    /// [`Request::Subscribe`]
    Subscribe = "SUBSCRIBE",
    /// [`Request::Unsubscribe`]
    Unsubscribe = "UNSUBSCRIBE",
    /// [`Request::Ack`]
    Ack = "ACK",
    /// [`Request::Nack`]
    Nack = "NACK",
    /// [`Request::Modack`]
    Modack = "MODACK",
    /// [`Request::Pause`]
    Pause = "PAUSE",
    /// [`Request::Resume`]
    Resume = "RESUME",
}

/// What a client asks for, all bounds of the frame checked. What needs more than the frame (rights, limits, whether
/// there is such a subscription) is left to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Says who the client is.
    Auth {
        /// None where the gateway asks for none.
        token: Option<Box<str>>,
    },
    /// Puts one event at the end of a topic.
    Publish {
        /// Where to.
        topic: TopicName,
        /// What.
        draft: Draft,
    },
    /// Puts several events at the end of a topic, all or none.
    PublishBatch {
        /// Where to.
        topic: TopicName,
        /// At least one; no given id twice.
        drafts: Vec<Draft>,
    },
    /// Asks for events, as a member of a group or alone.
    Subscribe {
        /// Whose events.
        topic: TopicName,
        /// None: an ephemeral subscription.
        group: Option<GroupName>,
        /// How.
        opts: SubscribeOpts,
    },
    /// Asks for no more events.
    Unsubscribe {
        /// Of which topic.
        topic: TopicName,
        /// None: the ephemeral subscription.
        group: Option<GroupName>,
    },
    /// Says that events are done with.
    Ack {
        /// Of which topic.
        topic: TopicName,
        /// For which group.
        group: GroupName,
        /// At least one.
        ids: Vec<Box<str>>,
    },
    /// Gives events back, to be delivered again.
    Nack {
        /// Of which topic.
        topic: TopicName,
        /// In which group.
        group: GroupName,
        /// At least one.
        ids: Vec<Box<str>>,
        /// Why, for the dead letter it may become.
        reason: Option<Box<str>>,
        /// Instead of the group's back-off.
        delay_ms: Option<u64>,
    },
    /// Moves the end of a lease.
    Modack {
        /// Of which topic.
        topic: TopicName,
        /// In which group.
        group: GroupName,
        /// The event.
        id: Box<str>,
        /// From now.
        extend_ms: u64,
    },
    /// Asks to get nothing for a while.
    Pause {
        /// Of which topic.
        topic: TopicName,
        /// None: the ephemeral subscription.
        group: Option<GroupName>,
    },
    /// Ends a pause.
    Resume {
        /// Of which topic.
        topic: TopicName,
        /// None: the ephemeral subscription.
        group: Option<GroupName>,
    },
}
