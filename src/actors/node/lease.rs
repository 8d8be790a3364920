//! The gateway's lease: for as long as it lasts, no other gateway takes its groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Node, lock};
use crate::actors::shared::Shared;
use crate::store::{OwnerId, StoreError};

/// One lease of this gateway. The gateway counts it from before it sent the renewal and takes a twentieth off, for clocks
/// that do not run alike: so it stops before the store lets another begin.
#[derive(Debug)]
pub struct Lease {
    owner: OwnerId,
    /// By the gateway's clock; 0 before it began and once it was lost.
    until_ms: AtomicU64,
    begun: AtomicBool,
}

impl Lease {
    pub(super) fn new() -> Lease {
        Lease {
            owner: OwnerId::random(),
            until_ms: AtomicU64::new(0),
            begun: AtomicBool::new(false),
        }
    }

    /// Who it makes this gateway.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Whether it certainly lasts at this time of the gateway's clock.
    pub fn lasts_at(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.load(Ordering::Acquire)
    }
}

/// Begins the lease and keeps it for as long as the gateway runs.
pub(crate) async fn keep(shared: Arc<Shared>, node: Arc<Node>) {
    loop {
        let wait = node.renew(&shared).await;
        tokio::time::sleep(wait).await;
        shared.faults.at("node.renew");
    }
}

impl Node {
    /// Begins the lease or lets it last longer; says when to do it again.
    pub(crate) async fn renew(&self, shared: &Shared) -> Duration {
        let lasts = shared.config.cluster.lease;
        let (lease, sent_ms) = (self.lease(), shared.clock.now_ms());
        let lasted = lease.lasts_at(sent_ms);
        let begun = lease.begun.load(Ordering::Relaxed);
        let ask = async {
            match begun {
                true => self.store.renew_lease(&lease.owner, lasts).await,
                false => self.store.begin_lease(&lease.owner, lasts).await.map(|()| true),
            }
        };
        let late = |_| Err(StoreError::Unavailable("it did not answer in time".into()));
        match tokio::time::timeout(lasts / 2, ask).await.unwrap_or_else(late) {
            Ok(true) => {
                let certain = u64::try_from((lasts - lasts / 20).as_millis()).unwrap_or(u64::MAX / 2);
                lease.until_ms.store(sent_ms + certain, Ordering::Release);
                lease.begun.store(true, Ordering::Relaxed);
                if !lasted {
                    tracing::info!(owner = %lease.owner, "this gateway may own groups");
                    self.wake_groups();
                }
                lasts / 3
            }
            Ok(false) => {
                lease.until_ms.store(0, Ordering::Release);
                tracing::warn!(owner = %lease.owner, "the lease is gone: other gateways may have taken over this one's groups");
                *lock(&self.lease) = Arc::new(Lease::new());
                self.wake_groups();
                Duration::ZERO
            }
            Err(error) => {
                if begun && lasted && !lease.lasts_at(shared.clock.now_ms()) {
                    tracing::error!(%error, "the lease could not be renewed in time: this gateway's groups stand by");
                    self.wake_groups();
                }
                (lasts / 10).min(Duration::from_secs(1))
            }
        }
    }

    /// Ends the lease: other gateways may take over at once.
    pub(crate) async fn end(&self, within: Duration) {
        let lease = self.lease();
        lease.until_ms.store(0, Ordering::Release);
        let ended = tokio::time::timeout(within, self.store.end_lease(&lease.owner)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the lease could not be ended: other gateways take over when it is over by itself");
        }
    }
}
