//! Joining a group or a topic: at a client's wish, and again where whoever fed the subscription died.

use std::sync::Arc;

use super::super::subscriptions::Key;
use super::Session;
use crate::actors::handle::Rejected;
use crate::actors::messages::{FeedLost, Subscribe};
use crate::actors::reply::Ticket;
use crate::actors::shared::Shared;
use crate::domain::TopicName;
use crate::domain::group::MemberId;
use crate::protocol::{ErrorCode, Failure, SubscribeOpts};

/// Sends a SUBSCRIBE to a topic that may just be leaving memory: then its successor gets it.
pub(in super::super) fn offer_subscribe(shared: &Arc<Shared>, topic: &TopicName, subscribe: Subscribe) {
    let mut message = subscribe;
    for _ in 0..2 {
        let handle = match shared.topics.topic(topic, shared) {
            Ok(handle) => handle,
            Err(failure) => return message.reply.fail(failure),
        };
        match handle.offer(message, 0) {
            Ok(()) => return,
            Err((Rejected::Closed, returned)) => message = returned,
            Err((Rejected::Full, returned)) => {
                message = returned;
                break;
            }
        }
    }
    let failure = Failure::new(ErrorCode::Overloaded, "too much waits for this topic").retry_after(100);
    message.reply.fail(failure);
}

impl Session {
    /// Sends a SUBSCRIBE on its way, the first one or another.
    pub(super) fn send_subscribe(
        &mut self,
        member: MemberId,
        ticket: Ticket,
        (topic, group): Key,
        opts: SubscribeOpts,
        position: Option<u64>,
    ) {
        let reply = self.reply(ticket, ErrorCode::StoreUnavailable);
        let connection = self.handle.clone();
        let message = Subscribe {
            member,
            group,
            position,
            opts,
            connection,
            reply,
        };
        offer_subscribe(&self.shared, &topic, message);
    }

    /// Whoever fed a subscription died: it is joined again, and its client does not notice.
    pub(in super::super) fn on_feed_lost(&mut self, lost: FeedLost) {
        if self.subscriptions.lost(lost) {
            self.credit.close(lost.member);
            self.rejoin(lost.member);
        }
    }

    /// Joins a lost subscription again.
    pub(in super::super) fn rejoin(&mut self, member: MemberId) {
        if let Some((key, opts, position)) = self.subscriptions.next_rejoin(member) {
            let ticket = self.lanes.open_single(None, Some(member));
            self.send_subscribe(member, ticket, key, opts, position);
        }
    }
}
