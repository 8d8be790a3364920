//! A gateway for tests: many lives, one store.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::{Actor, Context};
use serde::de::DeserializeOwned;

use super::faults::{Crash, FaultyStore, Plan, lock};
use crate::clock::Clock;
use crate::domain::{GroupName, TopicName};
use crate::operations::place_of;
use crate::server::ServeError;
use crate::store::{MemoryStore, Store, StoreOptions};
use crate::{Builder, Consume, Consumer, Error, Event, Gateway, Handle, Message, Published, Restarts};

/// How often something that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long something may take, by the test's clock, before a test that waits for it fails.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Builds a [`TestGateway`]: consumers, actors and faults.
#[must_use = "a builder does nothing until it is started"]
pub struct TestBuilder {
    builder: Builder,
    plan: Plan,
}

/// A gateway in memory for a test, inside [`run`](super::run). It survives its crashes: what it has in its store is all that is
/// left, then its consumers and actors are started anew.
pub struct TestGateway {
    world: Rc<World>,
}

struct World {
    builder: Builder,
    store: Arc<dyn Store>,
    plan: Arc<Plan>,
    clock: Clock,
    life: RefCell<Option<Life>>,
    lives: Cell<u32>,
}

struct Life {
    gateway: Gateway,
    alive: Arc<AtomicBool>,
}

impl TestBuilder {
    /// See [`Builder::consumer`].
    pub fn consumer<C: Consumer>(
        mut self,
        consume: impl Into<Consume>,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> TestBuilder {
        self.builder = self.builder.consumer(consume, make);
        self
    }

    /// See [`Builder::actor`].
    pub fn actor<A: Actor<Context = Context<A>>>(
        self,
        name: impl Into<String>,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> TestBuilder {
        self.actor_with(name, Restarts::default(), make)
    }

    /// See [`Builder::actor_with`].
    pub fn actor_with<A: Actor<Context = Context<A>>>(
        mut self,
        name: impl Into<String>,
        restarts: Restarts,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> TestBuilder {
        self.builder = self.builder.actor_with(name, restarts, make);
        self
    }

    /// Every event is handed to each consumer twice, as if its first ack had been lost: one after the other with one instance, at
    /// the same time with several.
    pub fn deliver_twice(mut self) -> TestBuilder {
        self.builder.inside.twice = true;
        self
    }

    /// The process dies here, once, and is started again.
    pub fn crash_at(self, crash: Crash) -> TestBuilder {
        *lock(&self.plan.crash) = Some(crash);
        self
    }

    /// The n-th commit of the store fails, from 1 and from the start on. May be given several times.
    pub fn fail_commit(self, nth: u64) -> TestBuilder {
        lock(&self.plan.failing).insert(nth);
        self
    }

    /// Starts it.
    pub async fn start(self) -> Result<TestGateway, ServeError> {
        let world = Rc::new(World {
            builder: self.builder,
            store: Arc::new(MemoryStore::new(StoreOptions::default())),
            plan: Arc::new(self.plan),
            clock: Clock::new(),
            life: RefCell::new(None),
            lives: Cell::new(0),
        });
        world.begin().await?;
        let weak = Rc::downgrade(&world);
        let plan = world.plan.clone();
        actix::spawn(async move {
            loop {
                plan.crashed.notified().await;
                let Some(world) = weak.upgrade() else { return };
                world.restart().await;
            }
        });
        Ok(TestGateway { world })
    }
}

impl World {
    async fn begin(&self) -> Result<(), ServeError> {
        let alive = Arc::new(AtomicBool::new(true));
        let mut builder = self.builder.clone();
        builder.inside.clock = Some(self.clock.clone());
        builder.inside.store = Some(Arc::new(FaultyStore {
            inner: self.store.clone(),
            plan: self.plan.clone(),
            alive: alive.clone(),
        }));
        let gateway = builder.start_here().await?;
        self.lives.set(self.lives.get() + 1);
        *self.life.borrow_mut() = Some(Life { gateway, alive });
        Ok(())
    }

    /// Everything but the store is gone, and is started anew.
    async fn restart(&self) {
        if let Some(life) = self.life.borrow_mut().as_mut() {
            life.alive.store(false, Ordering::SeqCst);
            life.gateway.kill();
        }
        let mut tries = 0;
        // A fault may hit the start as well: a supervisor outside would try again.
        while let Err(error) = self.begin().await {
            tries += 1;
            assert!(tries < 10, "the gateway does not start again: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

impl TestGateway {
    /// A gateway that is to be.
    pub fn builder() -> TestBuilder {
        TestBuilder {
            builder: Gateway::builder().in_memory(),
            plan: Plan::default(),
        }
    }

    /// One without consumers, actors and faults.
    pub async fn start() -> Result<TestGateway, ServeError> {
        TestGateway::builder().start().await
    }

    /// The way to the gateway as it lives now. After a crash it is [`Error::Stopped`], and there is a new one.
    pub fn handle(&self) -> Handle {
        let life = self.world.life.borrow();
        let life = life.as_ref().map(|life| life.gateway.handle());
        #[expect(
            clippy::expect_used,
            reason = "there is a life from the start on, and each is replaced by the next"
        )]
        life.expect("a gateway that was started")
    }

    /// Publishes as a careful client does: again where it failed in a way that passes, with an id that makes that safe.
    pub async fn publish(&self, topic: &str, message: Message) -> Result<Published, Error> {
        let message = message.with_own_id();
        self.patiently(async || match self.handle().publish(topic, message.clone()).await {
            Err(error) if error.is_retryable() || error == Error::Stopped => None,
            result => Some(result),
        })
        .await
        .unwrap_or_else(|| Err(Error::Failed(format!("{topic}: nothing could be published"))))
    }

    /// Waits until everything that was published to the topic is acked for the group, or a dead letter: as its store has it.
    pub async fn settled(&self, topic: &str, group: &str) -> Result<(), Error> {
        let bad_name = |why: crate::domain::BadName| Error::Failed(why.to_string());
        let (topic, group): (TopicName, GroupName) =
            (topic.parse().map_err(bad_name)?, group.parse().map_err(bad_name)?);
        let waited = self
            .patiently(async || (self.lag(&topic, &group).await == Some(0)).then_some(()))
            .await;
        if waited.is_some() {
            return Ok(());
        }
        let health = self.handle().health().await;
        Err(Error::Failed(format!(
            "{topic}::{group} is not settled after an hour: {health:?}"
        )))
    }

    async fn lag(&self, topic: &TopicName, group: &GroupName) -> Option<u64> {
        let store = &self.world.store;
        let state = store.group(topic, group).await.ok().flatten()?;
        let log = store.topic(topic).await.ok().flatten()?;
        Some(place_of(store.as_ref(), topic, &log, &state.cursors).await.ok()?.lag)
    }

    /// Waits until something holds, for an hour by the test's clock at most. True: it does.
    pub async fn until(&self, mut holds: impl FnMut() -> bool) -> bool {
        self.patiently(async || holds().then_some(())).await.is_some()
    }

    async fn patiently<T>(&self, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < deadline {
            if let Some(found) = look().await {
                return Some(found);
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    /// Lets time pass: everything that is due meanwhile happens, at its time.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// All events of a topic that are kept, dead letters (`dlq.<topic>`) included.
    pub async fn events<T: DeserializeOwned>(&self, topic: &str) -> Result<Vec<Event<T>>, Error> {
        let topic: TopicName = topic.parse().map_err(|why| Error::Failed(format!("topic: {why}")))?;
        let events = self.world.store.read(&topic, 1, usize::MAX, usize::MAX).await;
        let events = events.map_err(|error| Error::Failed(error.to_string()))?;
        events.iter().map(|event| Event::read(event)).collect()
    }

    /// The process dies at this point, once, and is started again.
    pub fn crash_at(&self, crash: Crash) {
        *lock(&self.world.plan.crash) = Some(crash);
    }

    /// The n-th commit from now on fails.
    pub fn fail_commit(&self, nth: u64) {
        let plan = &self.world.plan;
        lock(&plan.failing).insert(plan.commits() + nth);
    }

    /// The process dies now, and is started again.
    pub async fn crash(&self) {
        self.world.restart().await;
    }

    /// How often it was started: 1 before the first crash.
    pub fn lives(&self) -> u32 {
        self.world.lives.get()
    }

    /// Stops it as a program does that ends well.
    pub async fn stop(&self) {
        let _ = self.handle().stop().await;
    }
}
