//! What all actors of one gateway have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::connection::Connections;
use super::messages::{Perform, PerformResult};
use super::node::Node;
use super::registry::Registry;
use super::subscription::Estates;
use super::supervision::{Faults, Supervision};
use super::writer::Writer;
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::config::{Config, Live};
use crate::domain::TopicName;
use crate::store::{Store, StoreError, Write};
use crate::telemetry::Metrics;

/// Times that are not the operator's to choose; tests choose shorter ones.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How often a peer is pinged.
    pub ping: Duration,
    /// How long the head of a request may take.
    pub request_head: Duration,
    /// How often a gateway looks what others on its store did.
    pub poll: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            ping: Duration::from_secs(15),
            request_head: Duration::from_secs(10),
            poll: Duration::from_secs(1),
        }
    }
}

/// What all actors of one gateway have in common. Nothing in it is a queue; what changes in it is counted or locked for
/// a moment only.
pub struct Shared {
    /// As it was at the start. What can change since is in [`Shared::live`], and is to be asked there.
    pub config: Config,
    /// What can change while the gateway runs.
    pub live: Live,
    /// As it was at the start.
    pub timing: Timing,
    /// The one clock.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Metrics,
    /// For reading. Writes go through [`Shared::writer`].
    pub store: Arc<dyn Store>,
    /// This gateway among others; none where the store is this process's own.
    pub node: Option<Arc<Node>>,
    /// The only writer.
    pub writer: Writer,
    /// Who died lately.
    pub supervision: Arc<Supervision>,
    /// Nothing, but in tests.
    pub faults: Faults,
    /// The topics that run.
    pub topics: Registry,
    /// What groups that died left to those that follow.
    pub estates: Estates,
    /// The connections that are open.
    pub connections: Connections,
    /// The subscriptions of what runs in this process.
    pub locals: Connections,
    /// Who may do what.
    pub auth: Authenticator,
    /// Set while the store is over its deadline.
    pub store_stalled: Arc<AtomicBool>,
    /// Set once the gateway takes no new work.
    pub draining: AtomicBool,
    /// Held while dead letters are published again.
    pub replays: tokio::sync::Mutex<()>,
    /// The last number that was given out.
    pub numbers: AtomicU64,
}

impl Shared {
    /// A number that nothing else in this process has: for connections and members.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the gateway takes no new work.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Where other gateways may claim the groups of this topic: this one among them.
    pub fn node_of(&self, topic: &TopicName) -> Option<&Arc<Node>> {
        self.node.as_ref().filter(|_| self.store.shares(topic))
    }

    /// Writes one thing and waits for it to be durable. The store's actor keeps the deadline.
    pub async fn perform(&self, write: Write) -> PerformResult {
        let (sender, receiver) = oneshot::channel();
        let perform = Perform { write, result: sender };
        if self.writer.offer(perform, 0).is_err() {
            return Err(StoreError::Unavailable("too much waits to be written".into()));
        }
        receiver
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("its actor ended".into())))
    }
}
