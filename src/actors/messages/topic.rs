//! What a topic receives.

use std::sync::Arc;

use actix::Message;
use tokio::sync::oneshot;

use super::store::AppendPart;
use super::subscription::GroupChange;
use crate::actors::connection::ConnectionHandle;
use crate::actors::reply::Reply;
use crate::actors::subscription::GroupView;
use crate::domain::group::MemberId;
use crate::domain::{Event, GroupName};
use crate::protocol::{Draft, SubscribeOpts};
use crate::store::{Appended, Refused, StoreError};

/// What a connection has to publish: all that came in together.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Publish(pub Vec<PublishRequest>);

/// One PUBLISH or PUBLISH_BATCH.
#[derive(Debug)]
pub struct PublishRequest {
    /// The events: all or none.
    pub drafts: Vec<Draft>,
    /// Whether it was a PUBLISH_BATCH.
    pub batch: bool,
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// SUBSCRIBE.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    /// The new member's number, unique in the process.
    pub member: MemberId,
    /// None for an ephemeral subscription.
    pub group: Option<GroupName>,
    /// For an ephemeral subscription that was lost: the last seq that it had, instead of `opts.from`.
    pub position: Option<u64>,
    /// What the client asked for.
    pub opts: SubscribeOpts,
    /// Where its events go.
    pub connection: ConnectionHandle,
    /// Where `OK` goes.
    pub reply: Reply,
}

/// The answer to [`super::AppendEvents`].
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AppendsDone {
    /// Each append with its publishes, in commit order.
    pub results: Vec<(AppendResult, Vec<AppendPart>)>,
}

/// What became of one append.
pub type AppendResult = Result<Result<Vec<Appended>, Refused>, StoreError>;

/// Events that came into the topic by another way than its publishers: dead letters.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct EventsAppended(pub Vec<Arc<Event>>);

/// Retention moved the beginning of the topic's log; the topic passes it on to its groups. One for each sweep at most.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct LogTrimmed {
    /// The lowest seq that is kept.
    pub first: u64,
    /// Each partition's newest ordinal below it.
    pub ordinals: Arc<[u64]>,
    /// How many topics had been deleted when the trimming began: where it is another number now, this may be of a
    /// topic that is gone.
    pub deletions: u64,
}

/// An operator's wish for one group.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ChangeGroup {
    /// Which group.
    pub group: GroupName,
    /// What to do.
    pub change: GroupChange,
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// Asks how the groups that run stand. Starts none.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct InspectGroups {
    /// One of them, or all.
    pub group: Option<GroupName>,
    /// Gets a place for the answer of each that runs.
    pub views: oneshot::Sender<Vec<oneshot::Receiver<GroupView>>>,
}

/// Removes the topic with its events and groups; refused while somebody is subscribed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct DeleteTopic {
    /// Where `OK` goes, once durable.
    pub reply: Reply,
}

/// A group has had nobody and nothing to do for a while.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct GroupIdle(pub GroupName);

/// Shutdown: tells when all that the groups know is durable.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct DrainGroups(pub oneshot::Sender<()>);
