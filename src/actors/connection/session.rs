//! What a connection does with its frames, without the socket: frames go in as text, frames to write come out.

mod joining;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::ConnectionHandle;
use super::credit::Credit;
use super::lanes::{LaneKey, Lanes, Ready};
use super::publish::Outbox;
use super::rights::WaitingAuth;
use super::subscriptions::{Operation, Subscriptions};
use crate::actors::limiter::{Denied, Limiter, retry_after_ms};
use crate::actors::messages::{Answers, AutoAck, Deliver, EndSubscription, FeedHandle, PublishRequest, WantCredit};
use crate::actors::reply::{Outcome, Reply, Ticket};
use crate::actors::shared::Shared;
use crate::actors::topic::over_capacity;
use crate::auth::{Action, Identity};
use crate::config::{Limits, PushLimit};
use crate::domain::group::{Departure, MemberId};
use crate::domain::{GroupName, TopicName};
use crate::protocol::{
    Answer, Corr, Draft, ErrorCode, Failure, Request, SubscribeOpts, encode_err, encode_event, encode_ok, parse,
};

/// The most requests of a connection without an answer; one more is `overloaded`.
const OPEN_REQUESTS_MAX: usize = 8_192;

/// One connection, without its socket.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    handle: ConnectionHandle,
    pub(super) client: IpAddr,
    pub(super) identity: Option<Identity>,
    /// Whether there are new rights since the socket last asked.
    pub(super) renewed: bool,
    /// An AUTH whose token names a key that is being fetched: frames wait for it.
    pub(super) waiting_auth: Option<WaitingAuth>,
    /// Taken by AUTHs, from the first one on.
    pub(super) auths: Option<Box<Limiter>>,
    /// Taken by publishes, and by pushes too unless they have their own.
    limiter: Limiter,
    push_limiter: Option<Limiter>,
    /// What the limiters were made of, and of which version of the configuration.
    limits: (u64, Limits),
    lanes: Lanes,
    pub(super) subscriptions: Subscriptions,
    pub(super) credit: Credit,
    outbox: Outbox,
    /// Lost subscriptions that are to be tried again after a while.
    pub(super) rejoin_later: Vec<MemberId>,
    /// Frames to write.
    pub(super) out: Vec<String>,
    /// What those frames are to the backlog.
    pub(super) counted: Counted,
}

/// The limiter of pushes, where they have their own.
fn push_limiter(limits: &Limits, shared: &Shared) -> Option<Limiter> {
    match &limits.push {
        PushLimit::Shared => None,
        PushLimit::Own(limit) => Some(Limiter::new(limit, shared.clock.clone())),
    }
}

/// Bytes as the backlog counts them.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Answers, as they were counted when they were sent to the connection.
    pub(super) answers_sent: usize,
    /// Events, as they were counted when they were handed out.
    pub(super) events: usize,
    /// The events' frames.
    pub(super) event_frames: usize,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, handle: ConnectionHandle, client: IpAddr) -> Session {
        let version = shared.live.version();
        let limits = shared.live.limits();
        Session {
            limiter: Limiter::new(&limits.connection, shared.clock.clone()),
            push_limiter: push_limiter(&limits, &shared),
            limits: (version, limits),
            identity: shared.auth.anonymous(),
            client,
            renewed: false,
            waiting_auth: None,
            auths: None,
            credit: Credit::default(),
            lanes: Lanes::new(),
            subscriptions: Subscriptions::new(),
            outbox: Outbox::default(),
            rejoin_later: Vec::new(),
            out: Vec::new(),
            counted: Counted::default(),
            shared,
            handle,
        }
    }

    /// Takes limits over that were changed; those that were not keep their tokens.
    fn renew_limits(&mut self) {
        let version = self.shared.live.version();
        if version == self.limits.0 {
            return;
        }
        let limits = self.shared.live.limits();
        if limits.connection != self.limits.1.connection {
            self.limiter = Limiter::new(&limits.connection, self.shared.clock.clone());
        }
        if limits.push != self.limits.1.push {
            self.push_limiter = push_limiter(&limits, &self.shared);
        }
        self.limits = (version, limits);
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.identity.is_some()
    }

    /// The leases of a connection that the gateway itself ends do not count as attempts.
    pub(super) fn end_uncounted(&mut self) {
        self.subscriptions.departure = Departure::Uncounted;
    }

    /// A text frame came.
    pub(super) fn on_text(&mut self, text: &str) {
        self.shared.faults.at("connection.text");
        let frame = parse(text);
        match frame.request {
            Ok(request) => self.on_request(request, frame.corr),
            Err(failure) => self.write_err(frame.corr.as_ref(), &failure),
        }
    }

    /// A frame that is not text came.
    pub(super) fn on_binary(&mut self) {
        self.write_err(
            None,
            &Failure::new(ErrorCode::BadFrame, "frames are text, this one is binary"),
        );
    }

    fn on_request(&mut self, request: Request, corr: Option<Corr>) {
        if self.shared.is_draining() {
            let failure = Failure::new(ErrorCode::ShuttingDown, "the gateway is going down").retry_after(1_000);
            return self.write_err(corr.as_ref(), &failure);
        }
        if let Request::Auth { token } = request {
            return self.authenticate(token, corr);
        }
        let Some(identity) = self.identity.clone().filter(|_| !self.is_expired()) else {
            return self.write_err(
                corr.as_ref(),
                &Failure::new(ErrorCode::Unauthorized, "Call AUTH first."),
            );
        };
        if self.lanes.open() >= OPEN_REQUESTS_MAX {
            let msg = format!("this connection has {OPEN_REQUESTS_MAX} requests without an answer");
            let failure = Failure::new(ErrorCode::Overloaded, msg).retry_after(100);
            return self.write_err(corr.as_ref(), &failure);
        }
        match request {
            Request::Auth { .. } => {}
            Request::Publish { topic, draft } => self.publish(&identity, topic, vec![draft], false, corr),
            Request::PublishBatch { topic, drafts } => self.publish(&identity, topic, drafts, true, corr),
            Request::Subscribe { topic, group, opts } => self.subscribe(&identity, topic, group, opts, corr),
            Request::Unsubscribe { topic, group } => self.operate(&identity, topic, group, Operation::Leave, corr),
            Request::Pause { topic, group } => self.operate(&identity, topic, group, Operation::SetPaused(true), corr),
            Request::Resume { topic, group } => {
                self.operate(&identity, topic, group, Operation::SetPaused(false), corr)
            }
            Request::Ack { topic, group, ids } => {
                self.operate(&identity, topic, Some(group), Operation::Ack { ids }, corr)
            }
            Request::Nack {
                topic,
                group,
                ids,
                reason,
                delay_ms,
            } => {
                self.operate(
                    &identity,
                    topic,
                    Some(group),
                    Operation::Nack { ids, reason, delay_ms },
                    corr,
                );
            }
            Request::Modack {
                topic,
                group,
                id,
                extend_ms,
            } => {
                self.operate(&identity, topic, Some(group), Operation::Modack { id, extend_ms }, corr);
            }
        }
    }

    fn publish(&mut self, identity: &Identity, topic: TopicName, drafts: Vec<Draft>, batch: bool, corr: Option<Corr>) {
        self.renew_limits();
        let ticket = self.lanes.open_ordered(LaneKey::Publishes(topic.clone()), corr);
        let allowed = identity
            .check(Action::Publish, &topic, None)
            .and_then(|()| self.take_tokens(drafts.len()));
        match allowed {
            Ok(()) => {
                let reply = self.reply(ticket, ErrorCode::PublishFailed);
                self.outbox.push(topic, PublishRequest { drafts, batch, reply });
            }
            Err(failure) => self.answer(ticket, failure),
        }
    }

    fn take_tokens(&self, events: usize) -> Result<(), Failure> {
        let count = u32::try_from(events).unwrap_or(u32::MAX);
        self.limiter.take(count).map_err(|denied| match denied {
            Denied::Wait(wait) => {
                self.shared.metrics.rate_limited("connection").inc();
                Failure::new(ErrorCode::RateLimited, "conn publish rate exceeded").retry_after(retry_after_ms(wait))
            }
            Denied::OverCapacity(capacity) => over_capacity("the connection's", capacity),
        })
    }

    fn subscribe(
        &mut self,
        identity: &Identity,
        topic: TopicName,
        group: Option<GroupName>,
        opts: SubscribeOpts,
        corr: Option<Corr>,
    ) {
        let key = (topic.clone(), group.clone());
        let allowed = identity
            .check(Action::Subscribe, &topic, group.as_ref())
            .and_then(|()| self.subscriptions.check_new(&key));
        if let Err(failure) = allowed {
            return self.write_err(corr.as_ref(), &failure);
        }
        let member = self.shared.next_number();
        self.subscriptions.add(key.clone(), member, opts.clone());
        let ticket = self.lanes.open_single(corr, Some(member));
        self.send_subscribe(member, ticket, key, opts, None);
    }

    fn operate(
        &mut self,
        identity: &Identity,
        topic: TopicName,
        group: Option<GroupName>,
        operation: Operation,
        corr: Option<Corr>,
    ) {
        let lane = match (&operation, &group) {
            (Operation::Ack { .. }, Some(group)) => Some(LaneKey::Acks(topic.clone(), group.clone())),
            _ => None,
        };
        let ticket = match lane {
            Some(lane) => self.lanes.open_ordered(lane, corr),
            None => self.lanes.open_single(corr, None),
        };
        let member = identity
            .check(Action::Subscribe, &topic, group.as_ref())
            .and_then(|()| self.subscriptions.find(&(topic, group)));
        let member = match member {
            Ok(member) => member,
            Err(failure) => return self.answer(ticket, failure),
        };
        let reply = self.reply(ticket, ErrorCode::AckFailed);
        let leaves = matches!(operation, Operation::Leave);
        self.subscriptions.operate(member, operation, reply);
        if leaves && self.subscriptions.get(member).is_none() {
            self.credit.close(member);
        }
    }

    fn reply(&self, ticket: Ticket, lost: ErrorCode) -> Reply {
        Reply::to_connection(self.handle.clone(), ticket, lost)
    }

    /// A refusal by the connection itself; in its lane's order.
    fn answer(&mut self, ticket: Ticket, failure: Failure) {
        let mut ready = Vec::new();
        self.lanes.answer(ticket, Err(failure), &mut ready);
        self.write_ready(ready);
    }

    /// Whether publishes wait for [`Session::flush`].
    pub(super) fn has_publishes(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends the publishes that came in together.
    pub(super) fn flush(&mut self) {
        self.outbox.flush(&self.shared);
    }

    pub(super) fn on_answers(&mut self, answers: Answers) {
        let mut ready = Vec::with_capacity(answers.0.len());
        for answered in answers.0 {
            self.counted.answers_sent += answered.size();
            self.lanes.answer(answered.ticket, answered.result, &mut ready);
        }
        self.write_ready(ready);
    }

    fn write_ready(&mut self, ready: Vec<Ready>) {
        for Ready { corr, member, result } in ready {
            match (result, member) {
                (Ok(Outcome::Answer(answer)), _) => self.out.push(encode_ok(corr.as_ref(), &answer)),
                (Ok(Outcome::Subscribed(feed)), Some(member)) if self.subscriptions.get(member).is_none() => {
                    // New rights ended it before it began.
                    self.subscriptions.joined(member, feed);
                    let failure = Failure::new(ErrorCode::Forbidden, "the rights to this subscription were lost");
                    self.write_err(corr.as_ref(), &failure);
                }
                (Ok(Outcome::Subscribed(feed)), Some(member)) => {
                    if !self.subscriptions.is_rejoining(member) {
                        self.out.push(encode_ok(corr.as_ref(), &Answer::Ok));
                    }
                    self.credit.open(member);
                    if !self.subscriptions.joined(member, feed) {
                        self.credit.close(member);
                    }
                }
                (Ok(Outcome::Subscribed(_)), None) => {}
                (Err(failure), Some(member)) if self.subscriptions.is_rejoining(member) => {
                    if self.subscriptions.may_rejoin(member, failure.code) {
                        self.rejoin_later.push(member);
                    } else {
                        self.on_end(&EndSubscription { member, failure });
                    }
                }
                (Err(failure), member) => {
                    if let Some(member) = member {
                        self.subscriptions.refused(member);
                    }
                    self.write_err(corr.as_ref(), &failure);
                }
            }
        }
    }

    /// Events for a subscription: written at once. Those for one that is gone go back with its leave.
    pub(super) fn on_deliver(&mut self, deliver: Deliver) {
        let bytes: usize = deliver.pushes.iter().map(|push| push.event.json.len()).sum();
        if self.is_expired() {
            // The connection is about to end, and the leases with it.
            self.handle.room().give_back(bytes);
            return;
        }
        let Some(subscription) = self.subscriptions.get(deliver.member) else {
            self.handle.room().give_back(bytes);
            return;
        };
        self.counted.events += bytes;
        self.credit.used(deliver.member, deliver.pushes.len());
        let mut auto_acked = Vec::new();
        for push in &deliver.pushes {
            let group = subscription.group.as_ref();
            let frame = encode_event(&subscription.topic, group, &push.event, push.attempt, push.lease);
            self.counted.event_frames += frame.len();
            self.out.push(frame);
            if subscription.auto_ack {
                auto_acked.push(push.event.seq);
            }
        }
        if !auto_acked.is_empty()
            && let Some(FeedHandle::Group(group)) = subscription.feed()
        {
            group.post(AutoAck {
                seqs: auto_acked,
                seeks: deliver.seeks,
            });
        }
    }

    pub(super) fn on_want(&mut self, want: WantCredit) {
        self.credit.wish(want.member, want.events, want.bytes);
    }

    /// A subscription ended without the client's doing.
    pub(super) fn on_end(&mut self, end: &EndSubscription) {
        self.credit.close(end.member);
        if let Some(subscription) = self.subscriptions.remove(end.member) {
            let whose = Some((&subscription.topic, subscription.group.as_ref()));
            self.out.push(encode_err(None, &end.failure, whose));
        }
    }

    /// Grants what credit there is; says how long the next token takes where one is missing.
    pub(super) fn grant_credit(&mut self) -> Option<Duration> {
        self.renew_limits();
        let pushes = self.push_limiter.as_ref().unwrap_or(&self.limiter);
        let (grants, wait) = self.credit.grant(pushes, self.handle.room());
        for grant in grants {
            if let Some(feed) = self
                .subscriptions
                .get(grant.member)
                .and_then(|subscription| subscription.feed())
            {
                feed.grant(grant);
            }
        }
        wait
    }

    pub(super) fn write_err(&mut self, corr: Option<&Corr>, failure: &Failure) {
        self.out.push(encode_err(corr, failure, None));
    }
}
