//! A consumer at work: its instances, what becomes of each event, and what happens when an instance crashes.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::handle::{Handle, Inner};
use super::super::options::Consuming;
use super::super::restarts::{Crashes, Verdict};
use super::super::subscription::nack;
use super::super::{Error, Event};
use super::source::{Item, Source};
use super::{Consumer, Context};
use crate::actors::connection::Operation;
use crate::actors::messages::GroupChange;
use crate::actors::start::within_deadline;
use crate::operations::change_group;
use crate::telemetry::ConsumerMetrics;

/// The most acks of a consumer that are on their way.
const ACKS_MAX: usize = 256;
/// How often an ack that failed is tried; after that the event comes again.
const ACKS_TRIED: u32 = 3;
/// Who pauses a group whose consumer was given up; the reason follows.
const GIVEN_UP: &str = "supervisor: the consumer crashed too often, at last: ";
/// After a pause of the group that failed.
const PAUSE_AGAIN: Duration = Duration::from_secs(1);

/// Where a consumer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum State {
    Running,
    /// It crashed, and is started again after its back-off.
    Restarting {
        why: String,
    },
    /// It crashed too often: its group is paused. It goes on when the group does.
    Failed {
        why: String,
        since_ms: u64,
    },
}

/// What is known of a consumer from outside.
#[derive(Debug)]
pub(in super::super) struct Life {
    pub state: State,
    pub crashes: Crashes,
}

/// A consumer that was started.
pub(in super::super) struct ConsumerRun {
    inner: Arc<Inner>,
    pub options: Consuming,
    pub life: Mutex<Life>,
    pub handled: AtomicU64,
    pub failed: AtomicU64,
    metrics: ConsumerMetrics,
    stop: watch::Sender<bool>,
    acks: Arc<Semaphore>,
    instances: Mutex<Vec<JoinHandle<()>>>,
}

/// What became of an event.
enum Outcome {
    Done,
    Failed(String),
    Postponed(Duration),
    /// The instance is not to be used any more.
    Crashed(String),
}

impl ConsumerRun {
    /// Joins the group and starts the instances, on the runtime that the caller is in.
    pub async fn start<C: Consumer>(
        inner: Arc<Inner>,
        options: Consuming,
        make: Arc<dyn Fn() -> C + Send + Sync>,
    ) -> Result<(), Error> {
        let (stop, stopping) = watch::channel(false);
        let Consuming { topic, group, opts, .. } = options.clone();
        let metrics = inner.shared.metrics.consumer(&topic, &group);
        let source = Arc::new(Source::join(inner.clone(), topic, group, opts, stopping).await?);
        let run = Arc::new(ConsumerRun {
            inner: inner.clone(),
            life: Mutex::new(Life {
                state: State::Running,
                crashes: Crashes::default(),
            }),
            handled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            metrics,
            stop,
            acks: Arc::new(Semaphore::new(ACKS_MAX)),
            instances: Mutex::default(),
            options,
        });
        run.look_at_pause().await;
        let instance = |_| tokio::spawn(run.clone().work(source.clone(), make.clone()));
        *run.instances() = (0..run.options.concurrency).map(instance).collect();
        inner.consumers().push(run);
        Ok(())
    }

    fn instances(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> String {
        format!("consumer {}::{}", self.options.topic, self.options.group)
    }

    /// Takes no new events, and waits for the handlers that run and for their acks.
    pub async fn finish(&self) {
        self.stop.send_replace(true);
        let instances = std::mem::take(&mut *self.instances());
        for instance in instances {
            let _ = instance.await;
        }
        let _ = self
            .acks
            .acquire_many(u32::try_from(ACKS_MAX).unwrap_or(u32::MAX))
            .await;
    }

    /// Ends all that runs, at once.
    pub fn abort(&self) {
        self.stop.send_replace(true);
        self.instances().iter().for_each(JoinHandle::abort);
    }

    async fn work<C: Consumer>(self: Arc<Self>, source: Arc<Source>, make: Arc<dyn Fn() -> C + Send + Sync>) {
        let mut first = None;
        loop {
            let end = match self.make_instance(&make).await {
                Ok(mut instance) => self.serve(&mut instance, &source, first.take()).await,
                Err(why) => Some(why),
            };
            let Some(why) = end else { return };
            match self.crashed(&why) {
                Verdict::RestartAfter(wait) => {
                    let mut stop = self.stop.subscribe();
                    tokio::select! {
                        _ = stop.wait_for(|stop| *stop) => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                Verdict::GiveUp => {
                    self.give_up(&why, &source).await;
                    // Nothing comes until somebody resumes the group: that is the word to try again.
                    first = source.next().await;
                    if first.is_none() {
                        return;
                    }
                }
            }
        }
    }

    async fn make_instance<C: Consumer>(&self, make: &Arc<dyn Fn() -> C + Send + Sync>) -> Result<C, String> {
        let make = AssertUnwindSafe(async {
            let mut instance = make();
            let started = instance.started().await;
            started
                .map(|()| instance)
                .map_err(|error| format!("did not start: {error}"))
        });
        match tokio::time::timeout(self.options.timeout, make.catch_unwind()).await {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => Err(format!("did not start: panicked: {}", panic_text(panic.as_ref()))),
            Err(_) => Err(format!("did not start within {:?}", self.options.timeout)),
        }
    }

    /// Handles events until the consumer is to end (None) or the instance crashed.
    async fn serve<C: Consumer>(&self, instance: &mut C, source: &Arc<Source>, first: Option<Item>) -> Option<String> {
        let mut first = first;
        loop {
            let item = match first.take() {
                Some(item) => item,
                None => source.next().await?,
            };
            if item.is_over() {
                continue;
            }
            self.works_again();
            let outcome = self.handle(instance, &item).await;
            match outcome {
                Outcome::Done => self.ack(source, item).await,
                Outcome::Failed(reason) => self.give_back(source, &item, &reason).await,
                Outcome::Postponed(by) => source.postpone(item, by),
                Outcome::Crashed(why) => {
                    self.give_back(source, &item, &why).await;
                    return Some(why);
                }
            }
        }
    }

    async fn handle<C: Consumer>(&self, instance: &mut C, item: &Item) -> Outcome {
        let event = match Event::read(&item.event) {
            Ok(event) => event,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let ctx = Context {
            gateway: Handle(self.inner.clone()),
            group: self.options.group.as_str().into(),
            attempt: item.attempt,
            max_attempts: item.max_attempts,
            timeout: self.options.timeout,
            postponed: Arc::default(),
            duplicates: self.metrics.deduplicated.clone(),
        };
        // A call that panics before its first await is inside as well.
        let work = AssertUnwindSafe(async { instance.handle(event, &ctx).await });
        match tokio::time::timeout(self.options.timeout, work.catch_unwind()).await {
            Ok(Ok(result)) => match (ctx.take_postponed(), result) {
                (Some(by), _) => Outcome::Postponed(by),
                (None, Ok(())) => Outcome::Done,
                (None, Err(error)) => Outcome::Failed(error.to_string()),
            },
            Ok(Err(panic)) => Outcome::Crashed(format!("panicked: {}", panic_text(panic.as_ref()))),
            Err(_) => Outcome::Crashed(format!("took longer than {:?}", self.options.timeout)),
        }
    }

    /// Acks without waiting for it: the group has room at once, and the next event need not wait for the disk.
    async fn ack(&self, source: &Arc<Source>, item: Item) {
        self.handled.fetch_add(1, Ordering::Relaxed);
        let Ok(permit) = self.acks.clone().acquire_owned().await else {
            return;
        };
        let (member, id) = (source.member(), item.event.id.clone());
        let (topic, group) = (self.options.topic.clone(), self.options.group.clone());
        tokio::spawn(async move {
            let _permit = permit;
            for _ in 0..ACKS_TRIED {
                let ids = vec![id.clone()];
                let failure = match member.operate(Operation::Ack { ids }).await {
                    Ok(_) => return,
                    Err(failure) => failure,
                };
                let Some(wait_ms) = failure.retry_after_ms else { break };
                tracing::warn!(%topic, %group, %id, reason = %failure.msg, "an ack failed, trying again");
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
            tracing::warn!(%topic, %group, %id, "an ack failed: the event will come again");
        });
    }

    async fn give_back(&self, source: &Arc<Source>, item: &Item, reason: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let (topic, group, id) = (&self.options.topic, &self.options.group, &item.event.id);
        let (attempt, max) = (item.attempt, item.max_attempts);
        tracing::warn!(%topic, %group, %id, attempt, max, reason, "an event could not be handled");
        // Where this fails the lease ends by itself.
        let _ = source.member().operate(nack(id, reason, None)).await;
    }

    fn crashed(&self, why: &str) -> Verdict {
        self.inner.shared.metrics.actor_restarted("consumer");
        self.metrics.restarts.inc();
        let mut life = self.life();
        let verdict = life.crashes.add(&self.options.restarts, Instant::now());
        if let Verdict::RestartAfter(wait) = verdict {
            let (topic, group) = (&self.options.topic, &self.options.group);
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            tracing::error!(%topic, %group, why, wait_ms, "a consumer crashed and is started again");
            if !matches!(life.state, State::Failed { .. }) {
                life.state = State::Restarting { why: why.to_owned() };
            }
        }
        verdict
    }

    /// A group that an earlier life paused for its consumer's crashes is still paused: that is to be seen.
    async fn look_at_pause(&self) {
        let (topic, group) = (&self.options.topic, &self.options.group);
        let stored = within_deadline(self.inner.shared.store.group(topic, group)).await;
        let Some(pause) = stored.ok().flatten().and_then(|group| group.paused) else {
            return;
        };
        tracing::warn!(%topic, %group, by = %pause.by, "a consumer's group is paused: nothing comes before it is resumed");
        if let Some(why) = pause.by.strip_prefix(GIVEN_UP) {
            self.fail(why, pause.since_ms);
        }
    }

    fn fail(&self, why: &str, since_ms: u64) {
        let why = why.to_owned();
        self.metrics.failed.set(1);
        self.inner.shared.supervision.fail(&self.name(), &why);
        self.life().state = State::Failed { why, since_ms };
    }

    /// Too many crashes: the group is paused, with the reason, and what is held goes back.
    async fn give_up(&self, why: &str, source: &Arc<Source>) {
        let (topic, group) = (&self.options.topic, &self.options.group);
        let reason = format!("{GIVEN_UP}{why}");
        if matches!(self.life().state, State::Failed { .. }) {
            return;
        }
        self.fail(why, self.inner.shared.clock.now_ms());
        tracing::error!(%topic, %group, why, "a consumer crashed too often: its group is paused");
        let mut stop = self.stop.subscribe();
        loop {
            let by: Box<str> = reason.as_str().into();
            match change_group(&self.inner.shared, topic, group, GroupChange::Pause { by }).await {
                Ok(()) => break,
                Err(failure) => {
                    tracing::error!(%topic, %group, reason = %failure.msg, "the group could not be paused, trying again");
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(PAUSE_AGAIN) => {}
            }
        }
        source.give_all_back();
    }

    /// An event came: whoever paused the group for its failures has resumed it.
    fn works_again(&self) {
        let mut life = self.life();
        match life.state {
            State::Running => {}
            State::Restarting { .. } => life.state = State::Running,
            State::Failed { .. } => {
                life.state = State::Running;
                life.crashes.forgive();
                self.metrics.failed.set(0);
                self.inner.shared.supervision.recover(&self.name());
                let (topic, group) = (&self.options.topic, &self.options.group);
                tracing::info!(%topic, %group, "a consumer that had been given up works again");
            }
        }
    }
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
