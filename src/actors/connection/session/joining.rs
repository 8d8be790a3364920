//! Joining a group or a topic: at a client's wish, and again where whoever fed the subscription died.

use super::super::subscriptions::Key;
use super::Session;
use crate::actors::messages::{FeedLost, Subscribe};
use crate::actors::reply::Ticket;
use crate::domain::group::MemberId;
use crate::protocol::{ErrorCode, SubscribeOpts};

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
        if let Err((failure, message)) = self.shared.topics.offer(&topic, &self.shared, message, 0) {
            message.reply.fail(failure);
        }
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
