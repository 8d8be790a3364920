//! What a connection has to publish, gathered by topic: frames that came in together travel together.

use std::sync::Arc;

use crate::actors::handle::Rejected;
use crate::actors::messages::{Publish, PublishRequest};
use crate::actors::shared::Shared;
use crate::domain::TopicName;
use crate::protocol::{ErrorCode, Failure};

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
        let bytes: usize = request.drafts.iter().map(|draft| draft.payload.len() + 256).sum();
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
            if let Err((rejected, message)) = send(shared, &topic, Publish(requests), bytes) {
                let msg = match rejected {
                    Rejected::Full => "too much waits for this topic",
                    Rejected::Closed => "the topic is being started again",
                };
                for request in message.0 {
                    request
                        .reply
                        .fail(Failure::new(ErrorCode::Overloaded, msg).retry_after(100));
                }
            }
        }
    }
}

/// Sends to a topic that may just be leaving memory: then its successor gets it.
fn send(shared: &Arc<Shared>, topic: &TopicName, message: Publish, bytes: usize) -> Result<(), (Rejected, Publish)> {
    let mut message = message;
    for _ in 0..2 {
        let Some(handle) = shared.topics.topic(topic, shared) else {
            break;
        };
        match handle.offer(message, bytes) {
            Err((Rejected::Closed, returned)) => message = returned,
            result => return result,
        }
    }
    Err((Rejected::Closed, message))
}
