//! How a gateway and what runs in it is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Error;
use super::consumer::State;
use super::handle::Inner;

/// How long the store may take to say that it is there.
const READY_DEADLINE: Duration = Duration::from_secs(2);

/// How a gateway is at a moment, for a program's own health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether the store can take writes; else what is wrong.
    pub store: Result<(), String>,
    /// The consumers, in the order in which they were registered.
    pub consumers: Vec<ConsumerHealth>,
    /// The custom actors, by name.
    pub actors: Vec<ActorHealth>,
}

impl Health {
    /// Whether the store takes writes and nobody was given up.
    pub fn is_good(&self) -> bool {
        let failed = |condition: &Condition| matches!(condition, Condition::Failed { .. });
        self.store.is_ok()
            && !self.consumers.iter().any(|consumer| failed(&consumer.condition))
            && !self.actors.iter().any(|actor| failed(&actor.condition))
    }

    pub(super) async fn of(inner: &Inner) -> Health {
        let store = match inner.check_running() {
            Err(stopped) => Err(stopped.to_string()),
            Ok(()) if inner.shared.store_stalled.load(Ordering::Relaxed) => {
                Err("the store has not answered a commit in time".to_owned())
            }
            Ok(()) => is_ready(inner).await,
        };
        let runs = inner.consumers().clone();
        let consumers = runs.iter().map(|run| {
            let life = run.life();
            ConsumerHealth {
                topic: run.options.topic.to_string(),
                group: run.options.group.to_string(),
                condition: Condition::from(&life.state),
                restarts: life.crashes.total(),
                handled: run.handled.load(Ordering::Relaxed),
                failed: run.failed.load(Ordering::Relaxed),
            }
        });
        let consumers = consumers.collect();
        let mut actors: Vec<ActorHealth> = inner.actors().values().map(|entry| entry.supervised.health()).collect();
        actors.sort_by(|one, other| one.name.cmp(&other.name));
        Health {
            store,
            consumers,
            actors,
        }
    }
}

/// Asked on a thread of the gateway: whoever asks may have another runtime, or none.
async fn is_ready(inner: &Inner) -> Result<(), String> {
    let (sender, answer) = oneshot::channel();
    let ready = inner.shared.store.ready();
    inner.arbiter.spawn(async move {
        let _ = sender.send(tokio::time::timeout(READY_DEADLINE, ready).await);
    });
    match answer.await {
        Ok(Ok(ready)) => ready.map_err(|error| error.to_string()),
        Ok(Err(_)) => Err("the store does not answer".to_owned()),
        Err(_) => Err(Error::Stopped.to_string()),
    }
}

/// How a consumer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHealth {
    /// Its topic.
    pub topic: String,
    /// Its group.
    pub group: String,
    /// Whether it works.
    pub condition: Condition,
    /// How often an instance crashed: panicked, took too long or did not start.
    pub restarts: u64,
    /// How many events were handled well.
    pub handled: u64,
    /// How many deliveries failed.
    pub failed: u64,
}

/// How a custom actor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorHealth {
    /// The name that it was registered with.
    pub name: String,
    /// Whether it works.
    pub condition: Condition,
    /// How often it crashed.
    pub restarts: u64,
}

/// Whether something works.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// It does.
    Running,
    /// It crashed, and is started again in a moment.
    Restarting {
        /// What happened.
        why: String,
    },
    /// It crashed too often and was given up. A consumer's group is paused: it tries again when the group is resumed.
    Failed {
        /// What happened at last.
        why: String,
        /// When it was given up, in epoch milliseconds.
        since_ms: u64,
    },
    /// It ended by itself; actors only.
    Ended,
}

impl From<&State> for Condition {
    fn from(state: &State) -> Condition {
        match state {
            State::Running => Condition::Running,
            State::Restarting { why } => Condition::Restarting { why: why.clone() },
            State::Failed { why, since_ms } => Condition::Failed {
                why: why.clone(),
                since_ms: *since_ms,
            },
        }
    }
}
