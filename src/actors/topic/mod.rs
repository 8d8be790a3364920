//! TopicActor: one for each topic that is in use. Its limiter, its tail, its groups, its ephemeral subscriptions.

mod admin;
mod feed;
mod publish;
mod subscribe;
mod tail;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::admin::Deletion;
use self::feed::{Feed, Next};
pub(super) use self::publish::over_capacity;
pub use self::tail::{Tail, TailRead};
use super::handle::{Admitted, Bounds, Gate, Handle};
use super::limiter::Limiter;
use super::messages::{Drain, DrainGroups, EventsAppended, GroupIdle, LogTrimmed, Stop, TailMoved, TopicLost};
use super::meter::Meter;
use super::registry::Absent;
use super::shared::Shared;
use super::store::TOPIC_SHARE;
use super::subscription::SubscriptionActor;
use crate::config::Limit;
use crate::domain::group::MemberId;
use crate::domain::{Event, GroupName, TopicName};
use crate::store::{StoreError, TopicState};
use crate::telemetry::TopicMetrics;

/// What may wait for a topic. A message carries up to 16 frames of one connection.
const BOUNDS: Bounds = Bounds {
    messages: 4_096,
    bytes: 32 << 20,
};
/// A topic that nobody used for so long leaves memory.
const IDLE: Duration = Duration::from_secs(60);
/// How many messages an actor handles before it lets its arbiter turn to others. A message may carry 16 publishes.
pub(super) const SLICE: u32 = 16;

/// A group that runs.
struct RunningGroup {
    handle: Handle<SubscriptionActor>,
    /// Whether a [`TailMoved`] is on its way: there is never more than one.
    woken: Arc<AtomicBool>,
}

/// One topic. See the [module](self).
pub struct TopicActor {
    name: TopicName,
    shared: Arc<Shared>,
    /// None until it has events: a name alone takes no label.
    metrics: Option<TopicMetrics>,
    /// Set while the topic does not exist.
    absent: Option<Absent>,
    /// Set in `started`, before any message.
    handle: Option<Handle<TopicActor>>,
    gate: Arc<Gate>,
    limiter: Limiter,
    /// What the limiter was made of, and of which version of the configuration.
    limit: (u64, Limit),
    tail: Arc<Tail>,
    groups: HashMap<GroupName, RunningGroup>,
    feeds: HashMap<MemberId, Feed>,
    /// Appends that the store has not answered.
    appends: usize,
    published: Arc<Meter>,
    deletion: Deletion,
    /// Whether the topic was deleted in this actor's life: then what others say of its end may be of the time before.
    was_deleted: bool,
    used: Instant,
    /// Messages since it last let others have their turn.
    handled: u32,
    /// What it may have waiting at the store.
    store_share: Arc<Gate>,
}

impl TopicActor {
    /// Starts the actor. Until its state is loaded its messages wait.
    pub fn start_on(
        arbiter: &ArbiterHandle,
        name: TopicName,
        shared: Arc<Shared>,
        published: Arc<Meter>,
    ) -> Handle<TopicActor> {
        let gate = Gate::new(BOUNDS);
        let inner = gate.clone();
        let addr = TopicActor::start_in_arbiter(arbiter, move |_| {
            let version = shared.live.version();
            let limit = shared.live.topic_limit(&name);
            TopicActor {
                limiter: Limiter::new(&limit, shared.clock.clone()),
                limit: (version, limit),
                metrics: None,
                absent: None,
                name,
                shared,
                handle: None,
                gate: inner,
                tail: Arc::new(Tail::new(0)),
                groups: HashMap::new(),
                feeds: HashMap::new(),
                appends: 0,
                published,
                deletion: Deletion::None,
                was_deleted: false,
                used: Instant::now(),
                handled: 0,
                store_share: Gate::new(TOPIC_SHARE),
            }
        });
        Handle::new(addr, gate)
    }

    fn loaded(&mut self, state: Result<Option<TopicState>, StoreError>, ctx: &mut Context<Self>) {
        match state {
            Ok(state) => {
                self.absent = state.is_none().then(|| self.shared.topics.note_absent());
                self.tail = Arc::new(Tail::new(state.map_or(0, |state| state.tail)));
                self.note_published();
            }
            Err(error) => {
                // Everyone who waits gets an error that can be retried; the next request starts the topic anew.
                tracing::error!(topic = %self.name, %error, "a topic could not be loaded");
                self.gate.close();
                ctx.stop();
            }
        }
    }

    /// Lets the arbiter turn to others after a slice of work.
    fn breathe(&mut self, ctx: &mut Context<Self>) {
        self.used = Instant::now();
        self.handled += 1;
        if self.handled >= SLICE {
            self.handled = 0;
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
    }

    /// New events are durable: everyone who follows the topic is told.
    fn tail_moved(&mut self, events: Vec<Arc<Event>>, ctx: &mut Context<Self>) {
        if events.is_empty() {
            return;
        }
        self.absent = None;
        self.tail.extend(events);
        self.note_published();
        self.wake_all(ctx);
    }

    fn note_published(&self) {
        self.published.note(self.tail.seq(), self.shared.clock.now_ms());
    }

    fn wake_all(&mut self, ctx: &mut Context<Self>) {
        for group in self.groups.values() {
            if !group.woken.swap(true, Ordering::AcqRel) {
                group.handle.post(TailMoved);
            }
        }
        let members: Vec<MemberId> = self.feeds.keys().copied().collect();
        for member in members {
            self.pump_feed(member, ctx);
        }
    }

    fn pump_feed(&mut self, member: MemberId, ctx: &mut Context<Self>) {
        let Some(feed) = self.feeds.get_mut(&member) else {
            return;
        };
        let next = loop {
            match feed.pump(&self.tail) {
                Next::Again => {}
                next => break next,
            }
        };
        let Next::ReadStore(from) = next else { return };
        feed.reading = true;
        let tail = self.tail.seq();
        let read = self
            .shared
            .store
            .read(&self.name, from, feed::READ_EVENTS, feed::READ_BYTES);
        ctx.spawn(read.into_actor(self).map(move |result, actor, ctx| {
            let Some(feed) = actor.feeds.get_mut(&member) else {
                return;
            };
            feed.reading = false;
            match result {
                Ok(events) => {
                    // Nothing left: what was in between is gone, and the tail as it was before the read is reached.
                    let upto = events.last().map_or(tail, |last| last.seq);
                    feed.hand_out(&events, upto);
                    actor.pump_feed(member, ctx);
                }
                Err(error) => {
                    tracing::warn!(topic = %actor.name, %error, "reading for a subscription failed, trying again");
                    ctx.run_later(Duration::from_secs(1), move |actor, ctx| actor.pump_feed(member, ctx));
                }
            }
        }));
    }

    /// Leaves memory when nobody needs the topic.
    fn leave_when_idle(&mut self, ctx: &mut Context<Self>) {
        // A connection that ended before it knew of its subscription cannot leave by itself.
        self.feeds.retain(|_, feed| feed.connection.is_open());
        let deleting = !matches!(self.deletion, Deletion::None);
        let busy = !self.groups.is_empty() || !self.feeds.is_empty() || self.appends > 0 || deleting;
        // One that does not exist is of no use to anybody.
        let recent = self.absent.is_none() && self.used.elapsed() < IDLE;
        if busy || recent {
            return;
        }
        let Some(handle) = &self.handle else { return };
        if self.shared.topics.retire(&self.name, handle) {
            ctx.stop();
        }
    }
}

impl Actor for TopicActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.handle = Some(Handle::new(ctx.address(), self.gate.clone()));
        let load = self.shared.store.topic(&self.name);
        let load = tokio::time::timeout(super::store::COMMIT_DEADLINE, load);
        ctx.wait(load.into_actor(self).map(|state, actor, ctx| {
            let late = |_| Err(StoreError::Unavailable("it did not answer in time".into()));
            actor.loaded(state.unwrap_or_else(late), ctx);
        }));
        ctx.run_interval(IDLE / 2, |actor, ctx| actor.leave_when_idle(ctx));
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.gate.close();
        if self.shared.supervision.ended("topic", self.name.as_str()) {
            self.groups.values().for_each(|group| group.handle.post(TopicLost));
            self.feeds.values().for_each(Feed::lose);
        }
    }
}

impl Handler<EventsAppended> for TopicActor {
    type Result = ();

    fn handle(&mut self, message: EventsAppended, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        if self.was_deleted {
            return self.resync(ctx);
        }
        self.tail_moved(message.0, ctx);
    }
}

impl Handler<LogTrimmed> for TopicActor {
    type Result = ();

    fn handle(&mut self, message: LogTrimmed, _: &mut Context<Self>) {
        if message.deletions != self.shared.topics.deletions() {
            return;
        }
        for group in self.groups.values() {
            group.handle.post(message.clone());
        }
    }
}

impl Handler<GroupIdle> for TopicActor {
    type Result = ();

    fn handle(&mut self, message: GroupIdle, ctx: &mut Context<Self>) {
        let idle = |group: &RunningGroup| group.handle.gate().close_if_idle();
        if self.groups.get(&message.0).is_some_and(idle)
            && let Some(group) = self.groups.remove(&message.0)
        {
            group.handle.post(Stop);
        }
        if self.absent.is_some() {
            self.leave_when_idle(ctx);
        }
    }
}

impl Handler<DrainGroups> for TopicActor {
    type Result = ();

    fn handle(&mut self, message: DrainGroups, ctx: &mut Context<Self>) {
        let mut waits = Vec::new();
        for group in self.groups.values() {
            let (sender, receiver) = oneshot::channel();
            group.handle.post(Drain(sender));
            waits.push(receiver);
        }
        let all = async move {
            for wait in waits {
                let _ = wait.await;
            }
            let _ = message.0.send(());
        };
        ctx.spawn(all.into_actor(self));
    }
}

impl<M: Message<Result = ()>> Admitted<M> {
    /// Ends the message's stay behind the gate.
    pub(super) fn into_inner(self) -> M {
        self.message
    }
}
