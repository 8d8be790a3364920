//! Which topics run, and where. The only place that starts and ends them, so that no message dies in between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::dev::ToEnvelope;
use actix::{ArbiterHandle, Context, Handler, Message};
use xxhash_rust::xxh3::xxh3_64;

use super::handle::{Admitted, Handle, Rejected};
use super::meter::Meter;
use super::shared::Shared;
use super::topic::TopicActor;
use crate::domain::TopicName;
use crate::protocol::{ErrorCode, Failure};

/// The topics that run.
pub struct Registry {
    running: Mutex<HashMap<TopicName, RunningTopic>>,
    arbiters: Vec<ArbiterHandle>,
    /// How many of them have no event and never had one.
    absent: Arc<AtomicUsize>,
    /// How many topics were deleted.
    deletions: AtomicU64,
}

/// A topic that runs.
struct RunningTopic {
    handle: Handle<TopicActor>,
    published: Arc<Meter>,
}

/// Counts a topic that runs without existing, for as long as it is kept: a name alone starts an actor, so clients decide
/// how many of these there are.
pub struct Absent(Arc<AtomicUsize>);

impl Drop for Absent {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registry {
    /// No topics yet. They will run on these arbiters (at least one), each on the one its name hashes to.
    pub fn new(arbiters: Vec<ArbiterHandle>) -> Registry {
        Registry {
            running: Mutex::new(HashMap::new()),
            arbiters,
            absent: Arc::default(),
            deletions: AtomicU64::new(0),
        }
    }

    /// The topic's actor, started where it does not run. One that has left or died is replaced, unless it dies too often.
    pub fn topic(&self, topic: &TopicName, shared: &Arc<Shared>) -> Result<Handle<TopicActor>, Failure> {
        let mut running = self.lock();
        if let Some(topic) = running.get(topic).filter(|topic| topic.handle.is_open()) {
            return Ok(topic.handle.clone());
        }
        shared.supervision.may_start(topic.as_str())?;
        let at = usize::try_from(xxh3_64(topic.as_str().as_bytes())).unwrap_or(0);
        let arbiter = at.checked_rem(self.arbiters.len()).and_then(|at| self.arbiters.get(at));
        let none = || Failure::new(ErrorCode::StoreUnavailable, "topics have no thread to run on");
        let arbiter = arbiter.ok_or_else(none)?;
        let published = Arc::new(Meter::default());
        let handle = TopicActor::start_on(arbiter, topic.clone(), shared.clone(), published.clone());
        let new = RunningTopic {
            handle: handle.clone(),
            published,
        };
        if running.insert(topic.clone(), new).is_some() {
            tracing::warn!(%topic, "a topic's actor had ended and is started again");
        }
        Ok(handle)
    }

    /// Sends a topic what a client drives. Where its actor is just leaving memory, the next one gets it.
    pub fn offer<M>(
        &self,
        topic: &TopicName,
        shared: &Arc<Shared>,
        mut message: M,
        bytes: usize,
    ) -> Result<(), (Failure, M)>
    where
        M: Message<Result = ()> + Send + 'static,
        TopicActor: Handler<Admitted<M>>,
        Context<TopicActor>: ToEnvelope<TopicActor, Admitted<M>>,
    {
        let overloaded = |msg: &'static str| Failure::new(ErrorCode::Overloaded, msg).retry_after(100);
        for _ in 0..2 {
            let handle = match self.topic(topic, shared) {
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

    /// A topic that runs does not exist.
    pub fn note_absent(&self) -> Absent {
        self.absent.fetch_add(1, Ordering::Relaxed);
        Absent(self.absent.clone())
    }

    /// How many topics run without existing.
    pub fn absent(&self) -> usize {
        self.absent.load(Ordering::Relaxed)
    }

    /// The topic's actor where it runs.
    pub fn running(&self, topic: &TopicName) -> Option<Handle<TopicActor>> {
        let running = self.lock();
        let topic = running.get(topic).filter(|topic| topic.handle.is_open())?;
        Some(topic.handle.clone())
    }

    /// All that run.
    pub fn all(&self) -> Vec<Handle<TopicActor>> {
        self.lock().values().map(|topic| topic.handle.clone()).collect()
    }

    /// The names of all that run.
    pub fn names(&self) -> Vec<TopicName> {
        self.lock().keys().cloned().collect()
    }

    /// How many events are published to a topic in a second, lately.
    pub fn publish_rate(&self, topic: &TopicName, now_ms: u64) -> f64 {
        let meter = self.lock().get(topic).map(|topic| topic.published.clone());
        meter.map_or(0.0, |meter| meter.per_second(now_ms))
    }

    /// A topic was deleted.
    pub fn note_deletion(&self) {
        self.deletions.fetch_add(1, Ordering::AcqRel);
    }

    /// How many topics were deleted since the gateway began.
    pub fn deletions(&self) -> u64 {
        self.deletions.load(Ordering::Acquire)
    }

    /// Takes an idle topic's actor off the list, unless something is on its way to it. True: it may stop.
    pub fn retire(&self, topic: &TopicName, handle: &Handle<TopicActor>) -> bool {
        let mut running = self.lock();
        if !handle.gate().close_if_idle() {
            return false;
        }
        if running.get(topic).is_some_and(|known| known.handle.is_same(handle)) {
            running.remove(topic);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TopicName, RunningTopic>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
