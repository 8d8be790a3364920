//! A store that one gateway can be cut off from, while the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tidegate::domain::{Event, GroupName, TopicName};
use tidegate::store::{
    Cluster, CommitResult, GroupState, Holder, MemoryStore, OwnerId, Store, StoreError, TopicMoved, TopicState, Write,
};

type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

/// The store as one gateway sees it.
#[derive(Clone)]
pub struct CutStore {
    inner: MemoryStore,
    cut: Arc<AtomicBool>,
}

impl CutStore {
    pub fn new(inner: MemoryStore) -> CutStore {
        CutStore {
            inner,
            cut: Arc::default(),
        }
    }

    /// From now on nothing gets through.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }

    fn unless_cut<T: Send + 'static>(&self, ask: impl FnOnce() -> Answer<T>) -> Answer<T> {
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Unavailable("it is cut off".into())) });
        }
        ask()
    }
}

impl Store for CutStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        self.unless_cut(|| self.inner.commit(batch, now_ms))
    }

    fn topics(&self) -> Answer<Vec<(TopicName, TopicState)>> {
        self.unless_cut(|| self.inner.topics())
    }

    fn topic(&self, topic: &TopicName) -> Answer<Option<TopicState>> {
        self.unless_cut(|| self.inner.topic(topic))
    }

    fn read(&self, topic: &TopicName, from: u64, max_events: usize, max_bytes: usize) -> Answer<Vec<Arc<Event>>> {
        self.unless_cut(|| self.inner.read(topic, from, max_events, max_bytes))
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> Answer<Vec<Arc<Event>>> {
        self.unless_cut(|| self.inner.read_seqs(topic, seqs))
    }

    fn seqs_of_ids(&self, topic: &TopicName, ids: Vec<Box<str>>) -> Answer<Vec<Option<u64>>> {
        self.unless_cut(|| self.inner.seqs_of_ids(topic, ids))
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> Answer<u64> {
        self.unless_cut(|| self.inner.seq_at_ts(topic, ts))
    }

    fn newest_by_key(&self, topic: &TopicName, key: &str) -> Answer<Option<Arc<Event>>> {
        self.unless_cut(|| self.inner.newest_by_key(topic, key))
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> Answer<Vec<u64>> {
        self.unless_cut(|| self.inner.ordinals_at(topic, seq))
    }

    fn groups(&self, topic: &TopicName) -> Answer<Vec<GroupName>> {
        self.unless_cut(|| self.inner.groups(topic))
    }

    fn group(&self, topic: &TopicName, group: &GroupName) -> Answer<Option<GroupState>> {
        self.unless_cut(|| self.inner.group(topic, group))
    }

    fn seen(&self, topic: &TopicName, group: &GroupName, id: &str, now_ms: u64) -> Answer<bool> {
        self.unless_cut(|| self.inner.seen(topic, group, id, now_ms))
    }

    fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        Some(Arc::new(self.clone()))
    }

    fn ready(&self) -> Answer<()> {
        self.unless_cut(|| self.inner.ready())
    }

    fn close(&self) -> Answer<()> {
        self.inner.close()
    }
}

impl Cluster for CutStore {
    fn begin_lease(&self, owner: &OwnerId, lasts: Duration) -> Answer<()> {
        self.unless_cut(|| self.inner.begin_lease(owner, lasts))
    }

    fn renew_lease(&self, owner: &OwnerId, lasts: Duration) -> Answer<bool> {
        self.unless_cut(|| self.inner.renew_lease(owner, lasts))
    }

    fn end_lease(&self, owner: &OwnerId) -> Answer<()> {
        self.unless_cut(|| self.inner.end_lease(owner))
    }

    fn holders(&self, groups: Vec<(TopicName, GroupName)>) -> Answer<Vec<Option<Holder>>> {
        self.unless_cut(|| self.inner.holders(groups))
    }

    fn tails(&self, topics: Vec<TopicName>) -> Answer<Vec<Option<u64>>> {
        self.unless_cut(|| self.inner.tails(topics))
    }

    fn watch(&self) -> Answer<Option<BoxStream<'static, TopicMoved>>> {
        self.unless_cut(|| self.inner.watch())
    }
}
