//! A store that fails when it is told to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::domain::{Event, GroupName, TopicName};
use crate::store::{CommitResult, GroupState, Store, StoreError, TopicState, Write};

/// Where the process dies. What a consumer in an [`ExactlyOnce`](crate::ExactlyOnce) does for an event is: claim, handle, mark, ack; one
/// without it does not claim or mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Crash {
    /// Before the event was claimed.
    BeforeClaim,
    /// Claimed, not handled.
    AfterClaim,
    /// Handled, not marked: the one place at which a handler without a transaction is called again.
    BeforeMark,
    /// Handled and marked, not acked.
    AfterMark,
    /// The same, when the ack was on its way.
    BeforeAck,
    /// Acked, and nobody was told.
    AfterAck,
}

impl Crash {
    /// All of them.
    pub const ALL: [Crash; 6] = [
        Crash::BeforeClaim,
        Crash::AfterClaim,
        Crash::BeforeMark,
        Crash::AfterMark,
        Crash::BeforeAck,
        Crash::AfterAck,
    ];

    fn is_about(self, write: &Write) -> bool {
        match self {
            Crash::BeforeClaim | Crash::AfterClaim => matches!(write, Write::ClaimEvent { .. }),
            Crash::BeforeMark | Crash::AfterMark => matches!(write, Write::MarkSeen { .. }),
            Crash::BeforeAck | Crash::AfterAck => matches!(write, Write::SaveCursors { .. }),
        }
    }

    fn is_before(self) -> bool {
        matches!(self, Crash::BeforeClaim | Crash::BeforeMark | Crash::BeforeAck)
    }
}

/// What is to go wrong, over all lives.
#[derive(Default)]
pub(super) struct Plan {
    pub crash: Mutex<Option<Crash>>,
    /// Numbers of commits that fail, from 1.
    pub failing: Mutex<BTreeSet<u64>>,
    commits: AtomicU64,
    /// Told when the process is to die.
    pub crashed: Notify,
}

impl Plan {
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    fn takes_crash(&self, batch: &[Write], before: bool) -> bool {
        let mut crash = lock(&self.crash);
        let hits =
            crash.is_some_and(|crash| crash.is_before() == before && batch.iter().any(|write| crash.is_about(write)));
        if hits {
            *crash = None;
        }
        hits
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The store as one life of the gateway sees it: it goes on without it.
#[derive(Clone)]
pub(super) struct FaultyStore {
    pub inner: Arc<dyn Store>,
    pub plan: Arc<Plan>,
    /// Cleared when this life ends: nothing that it does from then on reaches the store.
    pub alive: Arc<AtomicBool>,
}

impl FaultyStore {
    fn die<T>(&self) -> impl Future<Output = T> + Send + use<T> {
        self.alive.store(false, Ordering::SeqCst);
        self.plan.crashed.notify_one();
        std::future::pending()
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.alive.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(StoreError::Closed)
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> BoxFuture<'static, Result<T, StoreError>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        match self.check() {
            Ok(()) => read(self.inner.as_ref()),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Store for FaultyStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        let this = self.clone();
        Box::pin(async move {
            this.check()?;
            let number = this.plan.commits.fetch_add(1, Ordering::SeqCst) + 1;
            if lock(&this.plan.failing).remove(&number) {
                return Err(StoreError::Unavailable("a fault of the test kit".into()));
            }
            if this.plan.takes_crash(&batch, true) {
                return this.die().await;
            }
            let dies_after = this.plan.takes_crash(&batch, false);
            let result = this.inner.commit(batch, now_ms).await;
            if dies_after {
                return this.die().await;
            }
            result
        })
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>> {
        self.ask(|store| store.topics())
    }

    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>> {
        self.ask(|store| store.topic(topic))
    }

    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.ask(|store| store.read(topic, from_seq, max_events, max_bytes))
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.ask(|store| store.read_seqs(topic, seqs))
    }

    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.ask(|store| store.seqs_of_ids(topic, ids))
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.ask(|store| store.seq_at_ts(topic, ts))
    }

    fn newest_by_key(
        &self,
        topic: &TopicName,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>> {
        self.ask(|store| store.newest_by_key(topic, key))
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>> {
        self.ask(|store| store.ordinals_at(topic, seq))
    }

    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>> {
        self.ask(|store| store.groups(topic))
    }

    fn group(
        &self,
        topic: &TopicName,
        group: &GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupState>, StoreError>> {
        self.ask(|store| store.group(topic, group))
    }

    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.ask(|store| store.seen(topic, group, id, now_ms))
    }

    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(|store| store.ready())
    }

    /// The life ends, its store does not.
    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.alive.store(false, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(())))
    }
}
