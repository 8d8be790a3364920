//! Who is told what when a commit is done.

use tokio::sync::oneshot;

use crate::actors::handle::Handle;
use crate::actors::messages::{AppendPart, AppendResult, AppendsDone, CursorsSaved, PerformResult, SaveStalled};
use crate::actors::subscription::SubscriptionActor;
use crate::actors::topic::TopicActor;
use crate::protocol::{ErrorCode, Failure};
use crate::store::{Refused, StoreError, Written};

/// Who waits for one write.
pub(super) enum Completion {
    Append {
        owner: Handle<TopicActor>,
        parts: Vec<AppendPart>,
    },
    Cursors {
        owner: Handle<SubscriptionActor>,
    },
    Caller(Option<oneshot::Sender<PerformResult>>),
}

impl Completion {
    /// Tells the one who waits.
    pub(super) fn finish(self, result: PerformResult) {
        match self {
            Completion::Append { owner, parts } => owner.post(AppendsDone {
                results: vec![(appended(result), parts)],
            }),
            Completion::Cursors { owner } => owner.post(CursorsSaved(appended(result))),
            Completion::Caller(sender) => {
                if let Some(sender) = sender {
                    let _ = sender.send(result);
                }
            }
        }
    }

    /// The deadline is over, the write still under way: clients are told now, actors when it is done.
    pub(super) fn stalled(&mut self) {
        match self {
            Completion::Append { parts, .. } => {
                for reply in parts.iter_mut().filter_map(|part| part.reply.take()) {
                    reply.fail(store_unavailable(&super::stalled_error()));
                }
            }
            Completion::Cursors { owner } => owner.post(SaveStalled),
            Completion::Caller(sender) => {
                if let Some(sender) = sender.take() {
                    let _ = sender.send(Err(super::stalled_error()));
                }
            }
        }
    }
}

/// Hands out a commit's results; a topic gets all of its own in one message.
pub(super) fn finish_all(completions: Vec<Completion>, results: Vec<Result<Written, Refused>>) {
    let mut by_topic: Vec<(Handle<TopicActor>, AppendsDone)> = Vec::new();
    for (completion, result) in completions.into_iter().zip(results) {
        match completion {
            Completion::Append { owner, parts } => {
                let entry = (appended(Ok(result)), parts);
                match by_topic
                    .iter_mut()
                    .rev()
                    .take(8)
                    .find(|(known, _)| known.is_same(&owner))
                {
                    Some((_, done)) => done.results.push(entry),
                    None => by_topic.push((owner, AppendsDone { results: vec![entry] })),
                }
            }
            other => other.finish(Ok(result)),
        }
    }
    for (owner, done) in by_topic {
        owner.post(done);
    }
}

fn appended(result: PerformResult) -> AppendResult {
    result.map(|written| {
        written.map(|written| match written {
            Written::Appended(events) | Written::CursorsSaved(events) => events,
            Written::Epoch(_) | Written::Trimmed { .. } | Written::Done => Vec::new(),
        })
    })
}

/// What a client is told of a store that failed.
pub fn store_unavailable(error: &StoreError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, error.to_string()).retry_after(1_000)
}
