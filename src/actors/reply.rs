//! Where an answer goes. A request carries its [`Reply`] through all actors; whoever is done with it answers.
//!
//! A reply that is dropped unanswered, because an actor died with the request in its hands, answers by itself: so every
//! request is answered exactly once, whatever happens.

use tokio::sync::oneshot;

use super::connection::ConnectionHandle;
use super::messages::FeedHandle;
use crate::protocol::{Answer, ErrorCode, Failure};

/// What a request came to.
#[derive(Debug)]
pub enum Outcome {
    /// To be written as `OK`.
    Answer(Answer),
    /// A SUBSCRIBE that was done: the way to the group or topic that feeds it.
    Subscribed(FeedHandle),
}

/// The result that goes back.
pub type Replied = Result<Outcome, Failure>;

/// A connection's own number for a request: which queue of ordered answers it belongs to, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The queue.
    pub lane: usize,
    /// Counts up in the lane.
    pub number: u64,
}

/// One answer on its way to a connection.
#[derive(Debug)]
pub struct Answered {
    /// To which request.
    pub ticket: Ticket,
    /// What to write.
    pub result: Replied,
}

impl Answered {
    /// About how many bytes it takes, here and on the wire.
    pub fn size(&self) -> usize {
        const FRAME: usize = 160;
        match &self.result {
            Ok(Outcome::Answer(Answer::PublishedBatch { ids, seqs })) => {
                FRAME + ids.iter().map(|id| id.len() + 16).sum::<usize>() + seqs.len() * 8
            }
            Ok(_) => FRAME,
            Err(failure) => FRAME + failure.msg.len(),
        }
    }
}

#[derive(Debug)]
enum Target {
    Connection { handle: ConnectionHandle, ticket: Ticket },
    Caller(oneshot::Sender<Replied>),
}

/// Where one answer goes.
#[derive(Debug)]
pub struct Reply {
    target: Option<Target>,
    /// What to answer where the request was lost.
    lost: ErrorCode,
}

impl Reply {
    /// To a connection.
    pub fn to_connection(handle: ConnectionHandle, ticket: Ticket, lost: ErrorCode) -> Reply {
        Reply {
            target: Some(Target::Connection { handle, ticket }),
            lost,
        }
    }

    /// To someone in this process who waits.
    pub fn to_caller(lost: ErrorCode) -> (Reply, oneshot::Receiver<Replied>) {
        let (sender, receiver) = oneshot::channel();
        (
            Reply {
                target: Some(Target::Caller(sender)),
                lost,
            },
            receiver,
        )
    }

    /// Answers now.
    pub fn send(mut self, result: Replied) {
        self.answer(result);
    }

    /// Answers `OK` now.
    pub fn ok(self) {
        self.send(Ok(Outcome::Answer(Answer::Ok)));
    }

    /// Answers `ERR` now.
    pub fn fail(self, failure: Failure) {
        self.send(Err(failure));
    }

    fn answer(&mut self, result: Replied) {
        match self.target.take() {
            Some(Target::Connection { handle, ticket }) => handle.answer(vec![Answered { ticket, result }]),
            Some(Target::Caller(sender)) => drop(sender.send(result)),
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.target.is_some() {
            let failure = Failure::new(
                self.lost,
                "the gateway lost this request in a fault of its own: send it again",
            );
            self.answer(Err(failure.retry_after(100)));
        }
    }
}

/// Collects answers and hands each connection all of its own in one message.
#[derive(Default)]
pub struct ReplyBatch {
    by_connection: Vec<(ConnectionHandle, Vec<Answered>)>,
}

impl ReplyBatch {
    /// Answers with the batch.
    pub fn push(&mut self, mut reply: Reply, result: Replied) {
        match reply.target.take() {
            Some(Target::Connection { handle, ticket }) => {
                let answered = Answered { ticket, result };
                // A batch has few connections, and mostly the one that was last: a search from the end beats a map.
                match self
                    .by_connection
                    .iter_mut()
                    .rev()
                    .find(|(known, _)| known.is_same(&handle))
                {
                    Some((_, answers)) => answers.push(answered),
                    None => self.by_connection.push((handle, vec![answered])),
                }
            }
            target => {
                reply.target = target;
                reply.send(result);
            }
        }
    }

    /// Sends them all.
    pub fn flush(self) {
        for (handle, answers) in self.by_connection {
            handle.answer(answers);
        }
    }
}
