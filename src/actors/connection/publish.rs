//! What a connection has to publish, gathered by topic: frames that came in together travel together.

use std::sync::Arc;

use crate::actors::handle::Rejected;
use crate::actors::messages::{Publish, PublishRequest};
use crate::actors::shared::Shared;
use crate::domain::TopicName;
use crate::protocol::{Draft, ErrorCode, Failure};

/// Publishes that wait for the end of the turn.
#[derive(Default)]
pub(super) struct Outbox {
    by_topic: Vec<(TopicName, Vec<PublishRequest>, usize)>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    pub(super) fn push(&mut self, topic: TopicName, request: PublishRequest) {
        let bytes: usize = request.drafts.iter().map(Draft::size).sum();
        match self.by_topic.iter_mut().rev().find(|(known, _, _)| *known == topic) {
            Some((_, requests, total)) => {
                requests.push(request);
                *total += bytes;
            }
            None => self.by_topic.push((topic, vec![request], bytes)),
        }
    }

    /// Sends everything to its topic.
    pub(super) fn flush(&mut self, shared: &Arc<Shared>) {
        for (topic, requests, bytes) in self.by_topic.drain(..) {
            if let Err((failure, message)) = send(shared, &topic, Publish(requests), bytes) {
                for request in message.0 {
                    request.reply.fail(failure.clone());
                }
            }
        }
    }
}

/// Sends to a topic that may just be leaving memory: then its successor gets it.
pub(crate) fn send(
    shared: &Arc<Shared>,
    topic: &TopicName,
    message: Publish,
    bytes: usize,
) -> Result<(), (Failure, Publish)> {
    let overloaded = |msg: &'static str| Failure::new(ErrorCode::Overloaded, msg).retry_after(100);
    let mut message = message;
    for _ in 0..2 {
        let handle = match shared.topics.topic(topic, shared) {
            Ok(handle) => handle,
            Err(failure) => return Err((failure, message)),
        };
        match handle.offer(message, bytes) {
            Ok(()) => return Ok(()),
            Err((Rejected::Full, returned)) => return Err((overloaded("too much waits for this topic"), returned)),
            Err((Rejected::Closed, returned)) => message = returned,
        }
    }
    Err((overloaded("the topic is being started again"), message))
}
