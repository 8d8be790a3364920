//! StoreActor: the only writer.
//!
//! What piles up while a commit runs is the next commit: so the cost of an fsync is shared by more events as the load
//! rises, and an idle gateway answers at once. One commit runs at a time. The store gets a deadline from outside: when it
//! is over, clients are told so at once, and nothing new is taken until the store comes back.

mod completion;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::completion::Completion;
pub(crate) use self::completion::store_unavailable;
use self::queue::Queue;
use super::handle::{Admitted, Bounds, Gate, Handle, Permit};
use super::messages::{AppendEvents, Flush, Perform, SaveCursors};
use super::supervision::{Faults, Supervision};
use crate::clock::Clock;
use crate::domain::NewEvent;
use crate::store::{CommitResult, Store, StoreError, Write};
use crate::telemetry::Metrics;

/// What may wait for the store: 64 MiB, and as many messages as a few hundred busy connections have on their way.
const BOUNDS: Bounds = Bounds {
    messages: 65_536,
    bytes: 64 << 20,
};
/// How much of that one topic may have waiting: a flooded one leaves room for others.
pub(super) const TOPIC_SHARE: Bounds = Bounds {
    messages: BOUNDS.messages / 4,
    bytes: BOUNDS.bytes / 4,
};
/// How long a commit may take before its clients are told that the store is unavailable.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// The name under which the store's actor is supervised; no topic's, for the colon.
pub const STORE: &str = "store:";

/// A write that waits for its commit.
struct Pending {
    write: Write,
    bytes: usize,
    completion: Completion,
    /// Keep the places behind the gates taken until the write is in a commit's hands: the store's, and its topic's share.
    _permits: Option<Arc<[Permit]>>,
}

impl Pending {
    /// How many events it appends.
    fn events(&self) -> usize {
        match &self.write {
            Write::Append { events, .. } => events.len(),
            _ => 0,
        }
    }
}

/// The only writer. See the [module](self).
pub struct StoreActor {
    store: Arc<dyn Store>,
    clock: Clock,
    metrics: Metrics,
    supervision: Arc<Supervision>,
    faults: Faults,
    queue: Queue,
    /// The running commit's completions, in the order of its writes.
    in_flight: Option<Vec<Completion>>,
    /// When the running commit is over its deadline.
    deadline: Option<Instant>,
    /// Set while a commit is over its deadline; shared with `/readyz`.
    stalled: Arc<AtomicBool>,
    flushes: Vec<oneshot::Sender<()>>,
}

impl StoreActor {
    /// Starts the actor on an arbiter of its own.
    pub fn start_on(
        arbiter: &ArbiterHandle,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: Metrics,
        stalled: Arc<AtomicBool>,
        supervision: Arc<Supervision>,
        faults: Faults,
    ) -> Handle<StoreActor> {
        // What the one before it waited for is not this one's to wait for.
        stalled.store(false, Ordering::Relaxed);
        let addr = StoreActor::start_in_arbiter(arbiter, move |_| StoreActor {
            store,
            clock,
            metrics,
            supervision,
            faults,
            queue: Queue::default(),
            in_flight: None,
            deadline: None,
            stalled,
            flushes: Vec::new(),
        });
        Handle::new(addr, Gate::new(BOUNDS))
    }

    fn enqueue(&mut self, pending: Pending) {
        if self.stalled.load(Ordering::Relaxed) {
            pending.completion.finish(Err(stalled_error()));
            return;
        }
        self.queue.push(pending);
    }

    /// Starts a commit with what waits, unless one runs.
    fn commit_next(&mut self, ctx: &mut Context<Self>) {
        if self.in_flight.is_some() {
            return;
        }
        if self.queue.is_empty() {
            for flushed in self.flushes.drain(..) {
                let _ = flushed.send(());
            }
            return;
        }
        let (mut writes, mut completions, mut events) = (Vec::new(), Vec::new(), 0);
        for pending in self.queue.next_commit() {
            events += pending.events();
            writes.push(pending.write);
            completions.push(pending.completion);
        }
        self.in_flight = Some(completions);
        let began = Instant::now();
        self.deadline = Some(began + COMMIT_DEADLINE);
        let commit = self.store.commit(writes, self.clock.now_ms());
        ctx.spawn(commit.into_actor(self).map(move |result, actor, ctx| {
            actor.metrics.commit_took(began.elapsed(), events);
            actor.faults.at("store.committed");
            actor.committed(result);
            actor.commit_next(ctx);
        }));
    }

    fn committed(&mut self, result: CommitResult) {
        if self.stalled.swap(false, Ordering::Relaxed) {
            tracing::warn!("the store answers again");
        }
        self.deadline = None;
        let completions = self.in_flight.take().unwrap_or_default();
        match result {
            Ok(results) => completion::finish_all(completions, results),
            Err(error) => {
                tracing::error!(%error, "a commit failed");
                completions
                    .into_iter()
                    .for_each(|completion| completion.finish(Err(error.clone())));
            }
        }
    }

    /// Tells everyone who waits that the store does not answer. What it does later still counts.
    fn check_deadline(&mut self) {
        if self.deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return;
        }
        self.deadline = None;
        tracing::error!(
            seconds = COMMIT_DEADLINE.as_secs(),
            "the store has not answered a commit in time"
        );
        self.stalled.store(true, Ordering::Relaxed);
        self.in_flight.iter_mut().flatten().for_each(Completion::stalled);
        for pending in self.queue.drain() {
            pending.completion.finish(Err(stalled_error()));
        }
    }
}

fn stalled_error() -> StoreError {
    StoreError::Unavailable(format!("it has not answered for {} s", COMMIT_DEADLINE.as_secs()))
}

impl Actor for StoreActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // One timer for all commits: actix polls every future of an actor at every wake.
        ctx.run_interval(Duration::from_secs(1), |actor, _| actor.check_deadline());
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.supervision.ended("store", STORE);
    }
}

impl Handler<Admitted<AppendEvents>> for StoreActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<AppendEvents>, ctx: &mut Context<Self>) {
        self.faults.at("store.append");
        let AppendEvents { topic, appends, share } = admitted.message;
        let permits: Arc<[Permit]> = Arc::new([admitted.permit, share]);
        for (events, completion) in appends {
            self.enqueue(Pending {
                bytes: events.iter().map(NewEvent::size).sum(),
                write: Write::Append {
                    topic: topic.clone(),
                    events,
                },
                completion,
                _permits: Some(permits.clone()),
            });
        }
        self.commit_next(ctx);
    }
}

impl Handler<SaveCursors> for StoreActor {
    type Result = ();

    fn handle(&mut self, message: SaveCursors, ctx: &mut Context<Self>) {
        let SaveCursors {
            topic,
            group,
            epoch,
            updates,
            dead_letters,
            done,
        } = message;
        self.faults.at("store.cursors");
        self.enqueue(Pending {
            bytes: dead_letters.iter().map(NewEvent::size).sum(),
            write: Write::SaveCursors {
                topic,
                group,
                epoch,
                updates,
                dead_letters,
            },
            completion: done,
            _permits: None,
        });
        self.commit_next(ctx);
    }
}

impl Handler<Admitted<Perform>> for StoreActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Perform>, ctx: &mut Context<Self>) {
        let Perform { write, result } = admitted.message;
        self.enqueue(Pending {
            bytes: 0,
            write,
            completion: Completion::caller(result),
            _permits: Some(Arc::new([admitted.permit])),
        });
        self.commit_next(ctx);
    }
}

impl Handler<Flush> for StoreActor {
    type Result = ();

    fn handle(&mut self, message: Flush, ctx: &mut Context<Self>) {
        self.flushes.push(message.0);
        self.commit_next(ctx);
    }
}
