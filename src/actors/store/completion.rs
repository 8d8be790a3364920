//! Who is told what when a commit is done.

use tokio::sync::oneshot;

use crate::actors::handle::Handle;
use crate::actors::messages::{AppendPart, AppendResult, AppendsDone, CursorsSaved, PerformResult, SaveStalled};
use crate::actors::subscription::SubscriptionActor;
use crate::actors::topic::TopicActor;
use crate::protocol::{ErrorCode, Failure};
use crate::store::{Refused, StoreError, Written};

/// Who waits for one write. One that is dropped, because an actor died with it, tells them that the write is lost: so
/// nobody waits for ever.
#[derive(Debug)]
pub struct Completion(Option<Waiting>);

#[derive(Debug)]
enum Waiting {
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
    /// A topic waits for an append.
    pub(in crate::actors) fn append(owner: Handle<TopicActor>, parts: Vec<AppendPart>) -> Completion {
        Completion(Some(Waiting::Append { owner, parts }))
    }

    /// A group waits for its cursors.
    pub(in crate::actors) fn cursors(owner: Handle<SubscriptionActor>) -> Completion {
        Completion(Some(Waiting::Cursors { owner }))
    }

    pub(super) fn caller(sender: oneshot::Sender<PerformResult>) -> Completion {
        Completion(Some(Waiting::Caller(Some(sender))))
    }

    /// The write was never taken: its parts go back.
    pub(in crate::actors) fn take_back(mut self) -> Vec<AppendPart> {
        match self.0.take() {
            Some(Waiting::Append { parts, .. }) => parts,
            _ => Vec::new(),
        }
    }

    /// Tells the one who waits.
    pub(super) fn finish(mut self, result: PerformResult) {
        self.tell(result);
    }

    fn tell(&mut self, result: PerformResult) {
        match self.0.take() {
            Some(Waiting::Append { owner, parts }) => owner.post(AppendsDone {
                results: vec![(appended(result), parts)],
            }),
            Some(Waiting::Cursors { owner }) => owner.post(CursorsSaved(appended(result))),
            Some(Waiting::Caller(Some(sender))) => drop(sender.send(result)),
            Some(Waiting::Caller(None)) | None => {}
        }
    }

    /// The deadline is over, the write still under way: clients are told now, actors when it is done.
    pub(super) fn stalled(&mut self) {
        match &mut self.0 {
            Some(Waiting::Append { parts, .. }) => {
                for reply in parts.iter_mut().filter_map(|part| part.reply.take()) {
                    reply.fail(store_unavailable(&super::stalled_error()));
                }
            }
            Some(Waiting::Cursors { owner }) => owner.post(SaveStalled),
            Some(Waiting::Caller(sender)) => {
                if let Some(sender) = sender.take() {
                    let _ = sender.send(Err(super::stalled_error()));
                }
            }
            None => {}
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.tell(Err(StoreError::Unavailable(
                "its actor failed with this write in its hands".into(),
            )));
        }
    }
}

/// Hands out a commit's results; a topic gets all of its own in one message.
pub(super) fn finish_all(completions: Vec<Completion>, results: Vec<Result<Written, Refused>>) {
    let mut by_topic: Vec<(Handle<TopicActor>, AppendsDone)> = Vec::new();
    for (mut completion, result) in completions.into_iter().zip(results) {
        match completion.0.take() {
            Some(Waiting::Append { owner, parts }) => {
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
            other => Completion(other).finish(Ok(result)),
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
            Written::Epoch(_) | Written::Trimmed { .. } | Written::Claim(_) | Written::Done => Vec::new(),
        })
    })
}

/// What a client is told of a store that failed.
pub fn store_unavailable(error: &StoreError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, error.to_string()).retry_after(1_000)
}
