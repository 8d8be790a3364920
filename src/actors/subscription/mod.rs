//! SubscriptionActor: one for each consumer group that has members. It drives the rules in [`crate::domain::group`]: it
//! brings them events and time, carries out what they decide, and makes it durable before it is answered.

mod acks;
mod admin;
mod dead_letter;
mod estate;
mod inspect;
mod load;
mod members;
mod pump;
mod save;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::acks::{DeferredAck, UnresolvedAck};
pub use self::estate::Estates;
pub use self::inspect::{GroupView, MemberView, Trouble};
use super::connection::ConnectionHandle;
use super::handle::{Bounds, Gate, Handle};
use super::messages::{Drain, FeedLost, GroupIdle, LogTrimmed, Stop, TailMoved, TopicLost};
use super::meter::Meter;
use super::reply::Reply;
use super::shared::Shared;
use super::topic::{SLICE, Tail, TopicActor};
use crate::domain::group::{Delivery, Group, MemberId};
use crate::domain::{GroupName, TopicName};
use crate::store::Pause;
use crate::telemetry::GroupMetrics;

/// What may wait for a group.
const BOUNDS: Bounds = Bounds {
    messages: 4_096,
    bytes: 16 << 20,
};
/// A group without members leaves memory after this.
const IDLE: Duration = Duration::from_secs(30);
/// How often it looks for members whose connections are gone without a word.
const SWEEP: Duration = Duration::from_secs(5);

/// A member, as far as the rules do not know it.
#[derive(Clone)]
struct Member {
    connection: ConnectionHandle,
    auto_ack: bool,
}

/// What the store knows the group by.
struct Claim {
    epoch: u64,
    seeks: u64,
}

/// One consumer group. See the [module](self).
pub struct SubscriptionActor {
    topic: TopicName,
    name: GroupName,
    shared: Arc<Shared>,
    metrics: GroupMetrics,
    owner: Handle<TopicActor>,
    gate: Arc<Gate>,
    /// Set in `started`, before any message.
    handle: Option<Handle<SubscriptionActor>>,
    tail: Arc<Tail>,
    woken: Arc<AtomicBool>,
    /// None until the group exists: its first member makes it.
    state: Option<(Group, Claim)>,
    /// Set while the whole group is paused.
    paused: Option<Pause>,
    members: HashMap<MemberId, Member>,
    /// Members of its predecessor that have yet to join again, and until when they may.
    awaited: HashMap<MemberId, Instant>,
    /// Deliveries that are not with their connections yet.
    handing_over: Vec<(MemberId, Vec<Delivery>)>,
    /// Members for which room was taken in this turn.
    roomy: Vec<MemberId>,
    /// Requests that are answered with the next save.
    waiting: Vec<Reply>,
    /// Requests that are answered with the save under way.
    saving: Option<Vec<Reply>>,
    /// No save before this, after one that failed.
    save_after: Option<Instant>,
    /// Acks of ids that only the store can tell of.
    unresolved: Vec<UnresolvedAck>,
    /// Whether it is being asked.
    looking_up: bool,
    /// Acks of events that the group has not looked at yet.
    deferred: Vec<DeferredAck>,
    /// A read of the log is under way.
    reading: bool,
    /// A read of single events, for redelivery, is under way.
    loading: bool,
    /// How fast events are settled.
    settled: Meter,
    /// Since when the store fails the group, and how.
    trouble: Option<Trouble>,
    /// When the armed timer goes off.
    timer: Option<(SpawnHandle, u64)>,
    drains: Vec<oneshot::Sender<()>>,
    used: Instant,
    handled: u32,
}

impl SubscriptionActor {
    /// Starts the group on its topic's arbiter. Until its state is loaded its messages wait.
    pub(super) fn launch(
        topic: TopicName,
        name: GroupName,
        owner: Handle<TopicActor>,
        tail: Arc<Tail>,
        woken: Arc<AtomicBool>,
        shared: Arc<Shared>,
    ) -> Handle<SubscriptionActor> {
        let gate = Gate::new(BOUNDS);
        let actor = SubscriptionActor {
            metrics: shared.metrics.group(&topic, &name),
            topic,
            name,
            shared,
            owner,
            gate: gate.clone(),
            handle: None,
            tail,
            woken,
            state: None,
            paused: None,
            members: HashMap::new(),
            awaited: HashMap::new(),
            handing_over: Vec::new(),
            roomy: Vec::new(),
            waiting: Vec::new(),
            saving: None,
            save_after: None,
            unresolved: Vec::new(),
            looking_up: false,
            deferred: Vec::new(),
            reading: false,
            loading: false,
            settled: Meter::default(),
            trouble: None,
            timer: None,
            drains: Vec::new(),
            used: Instant::now(),
            handled: 0,
        };
        Handle::new(actor.start(), gate)
    }

    fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    /// Lets the arbiter turn to others after a slice of work.
    fn breathe(&mut self, ctx: &mut Context<Self>) {
        self.used = Instant::now();
        self.handled += 1;
        if self.handled.is_multiple_of(SLICE) {
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
    }

    /// Members whose connections are gone without a word leave; a group without members asks to go.
    fn sweep(&mut self, ctx: &mut Context<Self>) {
        self.dismiss_the_gone();
        self.dismiss_the_missing();
        self.pump(ctx);
        let clean = self.saving.is_none() && self.waiting.is_empty() && self.deferred.is_empty() && !self.looking_up;
        let dirty = self.state.as_ref().is_some_and(|(group, _)| group.is_dirty());
        if self.members.is_empty() && clean && !dirty && self.used.elapsed() > IDLE {
            self.owner.post(GroupIdle(self.name.clone()));
        }
    }

    /// The group ends without its doing: its members subscribe anew, to the actor that follows.
    fn lose_members(&mut self) {
        self.gate.close();
        self.bequeath();
        for (member, entry) in self.members.drain() {
            entry.connection.feed_lost(FeedLost { member, position: None });
        }
    }

    /// The group cannot go on: its members are told, and the next one starts it anew.
    fn give_up(&mut self, failure: &crate::protocol::Failure, ctx: &mut Context<Self>) {
        tracing::error!(topic = %self.topic, group = %self.name, reason = %failure.msg, "a group ends");
        self.gate.close();
        for (member, entry) in self.members.drain() {
            entry.connection.end(super::messages::EndSubscription {
                member,
                failure: failure.clone(),
            });
        }
        ctx.stop();
    }
}

impl Actor for SubscriptionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.handle = Some(Handle::new(ctx.address(), self.gate.clone()));
        self.load(ctx);
        ctx.run_interval(SWEEP, |actor, ctx| actor.sweep(ctx));
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.gate.close();
        let name = format!("{}::{}", self.topic, self.name);
        if self.shared.supervision.ended("subscription", &name) {
            self.give_room_back();
            self.lose_members();
        }
        self.metrics.inflight.set(0);
    }
}

impl Handler<TailMoved> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, _: TailMoved, ctx: &mut Context<Self>) {
        // Before the tail is read: news that come from here on send another one.
        self.woken.store(false, Ordering::Release);
        self.shared.faults.at("group.tail");
        self.breathe(ctx);
        self.pump(ctx);
    }
}

impl Handler<LogTrimmed> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, message: LogTrimmed, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        if let Some((group, _)) = &mut self.state {
            let expired = group.expire_below(message.first, &message.ordinals);
            self.metrics.expired_unacked.inc_by(expired);
        }
        self.pump(ctx);
    }
}

impl Handler<Drain> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, message: Drain, ctx: &mut Context<Self>) {
        self.drains.push(message.0);
        self.pump(ctx);
    }
}

impl Handler<TopicLost> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, _: TopicLost, ctx: &mut Context<Self>) {
        self.lose_members();
        ctx.stop();
    }
}

impl Handler<Stop> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}
