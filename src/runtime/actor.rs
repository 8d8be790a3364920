//! Custom actors: plain actix actors, each on a thread of its own, started anew after a panic.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, MailboxError, Message};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Error;
use super::health::{ActorHealth, Condition};
use super::restarts::{Crashes, Restarts, Verdict};
use crate::actors::shared::Shared;

/// An actor that was registered with [`Builder::actor`](crate::Builder::actor), by an address that stays good over its
/// restarts. Cloning it is cheap.
pub struct ActorRef<A: Actor>(Arc<Supervisor<A>>);

impl<A: Actor> Clone for ActorRef<A> {
    fn clone(&self) -> Self {
        ActorRef(self.0.clone())
    }
}

/// An actor as those see it who do not know its type.
pub(super) trait SupervisedActor: Send + Sync {
    fn health(&self) -> ActorHealth;
    /// Ends it; it is not started again.
    fn stop(&self);
}

/// Starts an actor, and again when it panicked.
struct Supervisor<A: Actor> {
    name: String,
    make: Box<dyn Fn() -> A + Send + Sync>,
    policy: Restarts,
    shared: Arc<Shared>,
    arbiter: ArbiterHandle,
    /// Kept so that its thread is: None where the actor has no thread of its own.
    thread: Mutex<Option<Arbiter>>,
    life: Mutex<Life<A>>,
}

struct Life<A: Actor> {
    /// One address for all: a mailbox bounds what comes through one address, not through its clones.
    addr: Option<Addr<A>>,
    condition: Condition,
    crashes: Crashes,
    stopped: bool,
}

impl<A: Actor<Context = Context<A>>> ActorRef<A> {
    pub(super) fn start(
        name: String,
        make: impl Fn() -> A + Send + Sync + 'static,
        policy: Restarts,
        shared: Arc<Shared>,
        here: bool,
    ) -> (ActorRef<A>, Arc<dyn SupervisedActor>, oneshot::Receiver<()>) {
        let thread = (!here).then(Arbiter::new);
        let supervisor = Arc::new(Supervisor {
            name,
            make: Box::new(make),
            policy,
            shared,
            arbiter: thread.as_ref().map_or_else(Arbiter::current, Arbiter::handle),
            thread: Mutex::new(thread),
            life: Mutex::new(Life {
                addr: None,
                condition: Condition::Running,
                crashes: Crashes::default(),
                stopped: false,
            }),
        });
        let (launched, is_launched) = oneshot::channel();
        supervisor.clone().launch(Some(launched));
        (ActorRef(supervisor.clone()), supervisor, is_launched)
    }

    /// Sends a message and waits for its result. Where the actor dies with the message in its hands that is an error which
    /// [can be retried](Error::is_retryable), unless the actor was given up.
    pub async fn send<M>(&self, message: M) -> Result<M::Result, Error>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        let request = self.0.life().addr.as_ref().map(|addr| addr.send(message));
        let Some(request) = request else {
            return Err(self.0.down());
        };
        request.await.map_err(|error| match error {
            MailboxError::Closed | MailboxError::Timeout => self.0.down(),
        })
    }

    /// Sends a message whose result nobody waits for. An error where as many wait as the actor's mailbox holds.
    pub fn tell<M>(&self, message: M) -> Result<(), Error>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        let sent = self.0.life().addr.as_ref().map(|addr| addr.try_send(message));
        match sent {
            Some(sent) => sent.map_err(|error| match error {
                actix::prelude::SendError::Full(_) => Error::ActorDown {
                    name: self.0.name.clone(),
                    why: "its mailbox is full".to_owned(),
                    restarts: true,
                },
                actix::prelude::SendError::Closed(_) => self.0.down_with("it has just ended".to_owned()),
            }),
            None => Err(self.0.down()),
        }
    }
}

impl<A: Actor> Supervisor<A> {
    fn life(&self) -> MutexGuard<'_, Life<A>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn down_with(&self, why: String) -> Error {
        Error::ActorDown {
            name: self.name.clone(),
            why,
            restarts: true,
        }
    }

    /// Why nobody answers.
    fn down(&self) -> Error {
        let life = self.life();
        let (why, restarts) = match &life.condition {
            _ if life.stopped => return Error::Stopped,
            Condition::Failed { why, .. } => (format!("it was given up: {why}"), false),
            Condition::Ended => ("it ended by itself".to_owned(), false),
            Condition::Restarting { why } => (why.clone(), true),
            Condition::Running => ("it ended with the message in its hands".to_owned(), true),
        };
        Error::ActorDown {
            name: self.name.clone(),
            why,
            restarts,
        }
    }
}

impl<A: Actor<Context = Context<A>>> Supervisor<A> {
    /// Starts the actor on its thread; `launched` is dropped when that is done.
    fn launch(self: Arc<Self>, launched: Option<oneshot::Sender<()>>) {
        let arbiter = self.arbiter.clone();
        arbiter.spawn_fn(move || {
            let _launched = launched;
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.make)()));
            let Ok(actor) = made else {
                return self.ended(true);
            };
            if self.life().stopped {
                return;
            }
            let supervisor = self.clone();
            let addr = A::create(move |ctx| {
                // Dropped with the actor, however it ends.
                let sentinel = Sentinel(Some(supervisor));
                ctx.spawn(actix::fut::wrap_future(async move {
                    let _sentinel = sentinel;
                    std::future::pending::<()>().await;
                }));
                actor
            });
            let mut life = self.life();
            life.addr = Some(addr);
            life.condition = Condition::Running;
        });
    }

    /// The actor ended.
    fn ended(self: Arc<Self>, panicked: bool) {
        let mut life = self.life();
        life.addr = None;
        if life.stopped {
            return;
        }
        let name = &self.name;
        if !panicked {
            life.condition = Condition::Ended;
            tracing::info!(name, "an actor ended by itself");
            return;
        }
        self.shared.metrics.actor_restarted("custom");
        match life.crashes.add(&self.policy, Instant::now()) {
            Verdict::RestartAfter(wait) => {
                let why = "it panicked".to_owned();
                life.condition = Condition::Restarting { why };
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                tracing::error!(name, wait_ms, "an actor panicked and is started again");
                let supervisor = self.clone();
                self.arbiter.spawn(async move {
                    tokio::time::sleep(wait).await;
                    supervisor.launch(None);
                });
            }
            Verdict::GiveUp => {
                let why = format!("it panicked {} times", life.crashes.total());
                let since_ms = self.shared.clock.now_ms();
                tracing::error!(name, why, "an actor panicked too often and is given up");
                self.shared.supervision.fail(&format!("actor {name}"), &why);
                life.condition = Condition::Failed { why, since_ms };
            }
        }
    }
}

impl<A: Actor<Context = Context<A>>> SupervisedActor for Supervisor<A> {
    fn health(&self) -> ActorHealth {
        let life = self.life();
        ActorHealth {
            name: self.name.clone(),
            condition: life.condition.clone(),
            restarts: life.crashes.total(),
        }
    }

    fn stop(&self) {
        let mut life = self.life();
        life.stopped = true;
        // Without an address an actor ends when its messages are done; its thread goes with it, or when it comes back.
        life.addr = None;
        drop(life);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            thread.stop();
        }
    }
}

/// Sits in an actor's context and sees its end.
struct Sentinel<A: Actor<Context = Context<A>>>(Option<Arc<Supervisor<A>>>);

impl<A: Actor<Context = Context<A>>> Drop for Sentinel<A> {
    fn drop(&mut self) {
        if let Some(supervisor) = self.0.take() {
            supervisor.ended(std::thread::panicking());
        }
    }
}
