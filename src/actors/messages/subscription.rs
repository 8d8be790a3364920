//! What a group receives.

use actix::Message;
use tokio::sync::oneshot;

use super::topic::AppendResult;

use crate::actors::connection::ConnectionHandle;
use crate::actors::reply::Reply;
use crate::actors::subscription::GroupView;
use crate::domain::group::MemberId;
use crate::domain::{GroupSettingsPatch, MemberSettings, StartFrom};

/// SUBSCRIBE, passed on by the topic.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Join {
    /// The new member.
    pub member: MemberId,
    /// Where its events go.
    pub connection: ConnectionHandle,
    /// Where the group begins if it is new.
    pub from: StartFrom,
    /// What it asks of the group.
    pub group: GroupSettingsPatch,
    /// What it asks for itself.
    pub settings: MemberSettings,
    /// Where `OK` goes.
    pub reply: Reply,
}

/// ACK.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ack {
    /// The events.
    pub ids: Vec<Box<str>>,
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// What was written to the socket of a member with `autoAck`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AutoAck {
    /// The events.
    pub seqs: Vec<u64>,
    /// As it was in their [`super::Deliver`]: what was handed out before a seek acks nothing after it.
    pub seeks: u64,
}

/// NACK.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Nack {
    /// Who.
    pub member: MemberId,
    /// The events.
    pub ids: Vec<Box<str>>,
    /// What the client said.
    pub reason: Option<Box<str>>,
    /// Instead of the back-off.
    pub delay_ms: Option<u64>,
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// MODACK.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Modack {
    /// Who.
    pub member: MemberId,
    /// The event.
    pub id: Box<str>,
    /// How long the lease lasts from now on.
    pub extend_ms: u64,
    /// Where `OK` goes.
    pub reply: Reply,
}

/// What an operator can do to a whole group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupChange {
    /// Nothing is delivered from now on, over restarts too.
    Pause {
        /// Who asked for it.
        by: Box<str>,
    },
    /// Deliveries go on.
    Resume,
    /// All leases end, and the group goes on from there.
    Seek(StartFrom),
    /// The group and all that is known of it goes; refused while it has members.
    Delete,
}

/// An operator's wish, passed on by the topic.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Change {
    /// What to do.
    pub change: GroupChange,
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// Asks how the group stands, passed on by the topic. A group that does not exist answers nothing.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Inspect(pub oneshot::Sender<GroupView>);

/// The topic has new events. Coalesced: a group has one of these on its way at most.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TailMoved;

/// The answer to a [`super::SaveCursors`]: what became of the dead letters.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct CursorsSaved(pub AppendResult);

/// The store has not answered a [`super::SaveCursors`] in time; the answer may still come.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SaveStalled;

/// The topic let the group go: nobody can reach it any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Stop;

/// The topic's actor died: the group ends, and its members subscribe anew.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TopicLost;

/// Shutdown: tells when all that the group knows is durable.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain(pub oneshot::Sender<()>);
