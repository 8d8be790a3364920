//! What a store adds that several gateways may use at once: leases, news of what the others wrote.
//!
//! # The contract
//!
//! *Owners and leases.* A gateway claims groups under an [`OwnerId`] and keeps them for as long as its lease lasts: one
//! lease for all its groups, so that keeping a thousand of them costs one small write now and then. A lease begins once,
//! is renewed, and is over when the store's own clock says so, when its owner ends it, or when a claim found it over and
//! removed it. A lease that was removed never comes back: who finds its own gone begins another, under a new id, and
//! claims its groups anew.
//!
//! *Clocks.* Takers judge by the store's clock, in the same step in which they remove the lease. The owner judges by its
//! own, from before it sent the renewal: so it stops before another can begin, and two machines' clocks are never
//! compared. Whatever the clocks do, every write to a group is checked against its epoch.
//!
//! *News* are hints. One may be lost, late, doubled or early; the truth is what is read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::StoreError;
use crate::domain::{GroupName, TopicName};

/// Who claims groups: one gateway, for the time of one lease. Cloning it is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(Arc<str>);

impl OwnerId {
    /// An id that nobody had before.
    pub fn random() -> OwnerId {
        OwnerId(uuid::Uuid::now_v7().to_string().into())
    }

    /// An id as it was stored.
    pub fn from_stored(text: &str) -> OwnerId {
        OwnerId(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who holds a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub owner: OwnerId,
    /// How long its lease still lasts, by the store's clock.
    pub left_ms: u64,
}

/// How far a topic is, as another gateway's write left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMoved {
    /// Which.
    pub topic: TopicName,
    /// The highest seq that was given.
    pub tail: u64,
}

/// What a store adds that several gateways may use at once.
pub trait Cluster: Send + Sync + 'static {
    /// Begins a lease that lasts so long from now, by the store's clock.
    fn begin_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Lets a lease last so long from now, whether it was over or not. False: it is gone, and its groups with it.
    fn renew_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<bool, StoreError>>;

    /// Ends a lease: the owner's groups are free at once.
    fn end_lease(&self, owner: &OwnerId) -> BoxFuture<'static, Result<(), StoreError>>;

    /// For each group, in the order asked for, who holds it; `None` for one that is free or does not exist. A group whose
    /// owner's lease is over is free.
    fn holders(
        &self,
        groups: Vec<(TopicName, GroupName)>,
    ) -> BoxFuture<'static, Result<Vec<Option<Holder>>, StoreError>>;

    /// For each topic, in the order asked for, the highest seq that was given; `None` for one that does not exist.
    fn tails(&self, topics: Vec<TopicName>) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>>;

    /// News of all topics, from now on, as they come; this gateway's own writes may be among them. The stream ends when
    /// the store could not go on: then watch again. `None` where the store has no such thing: then ask for
    /// [`Cluster::tails`] now and then, which is to be done in any case.
    fn watch(&self) -> BoxFuture<'static, Result<Option<BoxStream<'static, TopicMoved>>, StoreError>>;
}
