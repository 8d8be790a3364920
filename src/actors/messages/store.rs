//! What the store's actor receives.

use actix::Message;
use tokio::sync::oneshot;

use crate::actors::handle::Permit;
use crate::actors::reply::Reply;
use crate::actors::store::Completion;
use crate::domain::{CursorUpdate, GroupName, NewEvent, TopicName};
use crate::store::{Refused, StoreError, Write, Written};

/// Puts events at the end of a topic: several publishes, each with its own answer.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AppendEvents {
    /// Which topic.
    pub topic: TopicName,
    /// The appends, in order, each with who gets [`super::AppendsDone`].
    pub appends: Vec<(Vec<NewEvent>, Completion)>,
    /// Their place in what the topic may have waiting.
    pub share: Permit,
}

/// One publish within an append.
#[derive(Debug)]
pub struct AppendPart {
    /// How many of the append's events are its.
    pub events: usize,
    /// Whether it was a PUBLISH_BATCH.
    pub batch: bool,
    /// All its ids, where its publisher chose one: the topic may know them, and then the store has no event to show.
    pub ids: Vec<Box<str>>,
    /// When it came to the topic.
    pub since: tokio::time::Instant,
    /// Where its answer goes; taken where it was answered already because the store did not.
    pub reply: Option<Reply>,
}

/// Makes a group's progress durable. Each group has one of these on its way at most.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SaveCursors {
    /// Of which topic.
    pub topic: TopicName,
    /// Which group.
    pub group: GroupName,
    /// Its claim.
    pub epoch: u64,
    /// The partitions that changed.
    pub updates: Vec<CursorUpdate>,
    /// What goes to `dlq.<topic>` in the same step.
    pub dead_letters: Vec<NewEvent>,
    /// Who gets [`super::CursorsSaved`].
    pub done: Completion,
}

/// Any other write, for someone who waits for it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Perform {
    /// What to write.
    pub write: Write,
    /// Where the result goes.
    pub result: oneshot::Sender<PerformResult>,
}

/// The result of a [`Perform`].
pub type PerformResult = Result<Result<Written, Refused>, StoreError>;

/// Tells when everything that was sent before it is done.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Flush(pub oneshot::Sender<()>);
