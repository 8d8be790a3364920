//! What a connection has to publish, gathered by topic: frames that came in together travel together.

use std::sync::Arc;

use crate::actors::messages::{Publish, PublishRequest};
use crate::actors::shared::Shared;
use crate::domain::TopicName;
use crate::protocol::Draft;

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
            if let Err((failure, message)) = shared.topics.offer(&topic, shared, Publish(requests), bytes) {
                for request in message.0 {
                    request.reply.fail(failure.clone());
                }
            }
        }
    }
}
