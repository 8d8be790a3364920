//! The store in MongoDB: for production, and for several gateways on one database. A replica set; transactions give the
//! store's contract.
//!
//! *Several writers.* Nothing is remembered here that another gateway may change: every write finds what it needs in its
//! own transaction ([`append`]), or is met by an epoch ([`group_writes`]). Reads are at read concern majority.
//!
//! *Deadlines.* The driver has none of its own, and its futures must not be dropped while they hold a session. So every
//! operation is a task on the store's own runtime; who waits for it waits for a bounded time, and then is told that it may
//! have happened. The task goes on to its end, which comes: servers are told how long they may work, and connections to a
//! server that is silent are given up.
//!
//! *Documents.* `events`, `topics`, `groups`, `cursors`, `retries`, `dedupe`, `leases`; their `_id`s are in [`keys`], what is
//! in them in [`event_row`], [`topic_row`] and [`group_row`].

mod append;
mod cluster;
mod commit;
mod database;
mod document;
mod event_row;
mod group_row;
mod group_writes;
mod indexes;
mod keys;
mod log;
mod marks;
mod open;
mod orphans;
mod payload;
mod reader;
mod removal;
mod topic_row;
mod transaction;

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mongodb::bson::doc;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::database::{Database, unavailable};
pub use self::open::MongoError;
use super::{Cluster, CommitResult, GroupState, Store, StoreError, StoreOptions, TopicState, Write};
use crate::domain::{Event, GroupName, TopicName};

/// How long a batch is tried.
const COMMIT_DEADLINE: Duration = Duration::from_secs(12);
/// What a try that was begun may take longer.
const GRACE: Duration = Duration::from_secs(5);
/// How long a read may take, waiting for its turn included.
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// How long connecting may take.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);
/// How long `/readyz` waits.
const READY_DEADLINE: Duration = Duration::from_secs(2);
/// How many topics are written to at the same time, and how many reads are under way: together fewer than there are
/// connections, so that neither waits for the other.
const WRITES_MAX: usize = 40;
const READS_MAX: usize = 20;

/// A store in a MongoDB database.
pub struct MongoStore {
    /// `None` once it is closed.
    open: RwLock<Option<Arc<Shared>>>,
    /// Where the driver lives: nothing that an actor does holds it up, and nothing that it does holds up an actor.
    runtime: Mutex<Option<Runtime>>,
}

/// What reads and commits need.
struct Shared {
    database: Database,
    options: StoreOptions,
    handle: tokio::runtime::Handle,
    writes: Semaphore,
    reads: Arc<Semaphore>,
    /// Questions whether the database is there that have no answer yet.
    pings: AtomicU32,
    /// Topics whose removed events are being deleted.
    sweeping: Mutex<HashSet<TopicName>>,
    myself: Weak<Shared>,
}

impl MongoStore {
    /// Connects to a replica set, and makes the indexes where the database is empty.
    pub async fn open(url: &str, database: &str, options: StoreOptions) -> Result<MongoStore, MongoError> {
        let failed = |error: std::io::Error| MongoError::Unavailable(format!("no threads for its driver: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("mongodb")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (url, name) = (url.to_owned(), database.to_owned());
        let opening = runtime.spawn(async move { open::open(&url, &name).await });
        let store = MongoStore {
            open: RwLock::new(None),
            runtime: Mutex::new(Some(runtime)),
        };
        let late = |_| MongoError::Unavailable(format!("it has not answered for {} s", OPEN_DEADLINE.as_secs()));
        let opened = tokio::time::timeout(OPEN_DEADLINE, opening).await.map_err(late)?;
        let database = opened.map_err(|_| MongoError::Unavailable("connecting broke down".into()))??;
        let handle = store
            .handle()
            .ok_or_else(|| MongoError::Unavailable("no threads".into()))?;
        let shared = Arc::new_cyclic(|myself| Shared {
            database,
            options,
            handle,
            writes: Semaphore::new(WRITES_MAX),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            pings: AtomicU32::new(0),
            sweeping: Mutex::default(),
            myself: Weak::clone(myself),
        });
        *store.open.write().unwrap_or_else(PoisonError::into_inner) = Some(shared);
        Ok(store)
    }

    fn handle(&self) -> Option<tokio::runtime::Handle> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }

    fn shared(&self) -> Result<Arc<Shared>, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or(StoreError::Closed)
    }

    /// Reads, in a task of its own.
    fn look<T, F>(&self, read: impl FnOnce(Arc<Shared>) -> F) -> BoxFuture<'static, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let shared = match self.shared() {
            Ok(shared) => shared,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let (handle, reads) = (shared.handle.clone(), Arc::clone(&shared.reads));
        let reading = read(shared);
        Box::pin(async move {
            let read = async {
                let permit = reads.acquire_owned().await.map_err(|_| StoreError::Closed)?;
                // The place is taken until the task ends, however long somebody waits for it.
                let task = handle.spawn(async move {
                    let _permit = permit;
                    reading.await
                });
                task.await.unwrap_or_else(|_| Err(broke_down()))
            };
            tokio::time::timeout(READ_DEADLINE, read)
                .await
                .unwrap_or_else(|_| Err(too_slow(READ_DEADLINE)))
        })
    }
}

fn broke_down() -> StoreError {
    StoreError::Unavailable("an operation broke down".into())
}

fn too_slow(deadline: Duration) -> StoreError {
    StoreError::Unavailable(format!("MongoDB has not answered for {} s", deadline.as_secs()))
}

impl Drop for MongoStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // Waiting for it is not allowed where futures run.
            runtime.shutdown_background();
        }
    }
}

impl Store for MongoStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        let shared = self.shared();
        Box::pin(async move {
            let shared = shared?;
            if batch.is_empty() {
                return Ok(Vec::new());
            }
            let handle = shared.handle.clone();
            let until = Instant::now() + COMMIT_DEADLINE;
            let task = handle.spawn(commit::commit(shared, batch, now_ms, until));
            match tokio::time::timeout(COMMIT_DEADLINE + GRACE, task).await {
                Ok(done) => done.unwrap_or_else(|_| Err(broke_down())),
                Err(_) => Err(too_slow(COMMIT_DEADLINE + GRACE)),
            }
        })
    }

    /// A topic's transaction waits for nobody but other writers of that topic.
    fn commits_topics_apart(&self) -> bool {
        true
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>> {
        self.look(|shared| async move { shared.database.topics().await })
    }

    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>> {
        let topic = topic.clone();
        self.look(|shared| async move { Ok(shared.database.topic(&topic).await?.map(|row| row.state())) })
    }

    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| async move { shared.database.read(&topic, from_seq, max_events, max_bytes).await })
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        let topic = topic.clone();
        self.look(|shared| async move { shared.database.read_seqs(&topic, &seqs).await })
    }

    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        let topic = topic.clone();
        self.look(|shared| async move { shared.database.seqs_of_ids(&topic, &ids).await })
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| async move {
            match shared.database.topic(&topic).await? {
                Some(row) => shared.database.seq_at_ts(&topic, &row, ts).await,
                None => Ok(1),
            }
        })
    }

    fn newest_by_key(
        &self,
        topic: &TopicName,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>> {
        let (topic, key) = (topic.clone(), Box::<str>::from(key));
        self.look(|shared| async move { shared.database.newest_by_key(&topic, &key).await })
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| async move {
            match shared.database.topic(&topic).await? {
                Some(row) => shared.database.ordinals_at(&topic, &row, seq).await,
                None => Ok(vec![0; (shared.options.rules)(&topic).partitions.max(1) as usize]),
            }
        })
    }

    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>> {
        let topic = topic.clone();
        self.look(|shared| async move { shared.database.groups(&topic).await })
    }

    fn group(
        &self,
        topic: &TopicName,
        group: &GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupState>, StoreError>> {
        let (topic, group) = (topic.clone(), group.clone());
        self.look(|shared| async move { shared.database.group(&topic, &group).await })
    }

    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>> {
        let (topic, group, id) = (topic.clone(), group.clone(), Box::<str>::from(id));
        self.look(move |shared| async move { shared.database.seen(&topic, &group, &id, now_ms).await })
    }

    fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        let shared = self.shared().ok()?;
        Some(Arc::new(cluster::MongoCluster(shared)))
    }

    fn shares(&self, _: &TopicName) -> bool {
        true
    }

    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        /// More than so many questions without an answer are an answer.
        const PINGS_MAX: u32 = 4;
        let shared = self.shared();
        Box::pin(async move {
            let shared = shared?;
            if shared.pings.load(Ordering::Relaxed) >= PINGS_MAX {
                return Err(too_slow(READY_DEADLINE));
            }
            shared.pings.fetch_add(1, Ordering::Relaxed);
            let handle = shared.handle.clone();
            let ping = handle.spawn(async move {
                let answer = shared.database.all.run_command(doc! { "ping": 1 }).await;
                shared.pings.fetch_sub(1, Ordering::Relaxed);
                answer.map(drop).map_err(|error| unavailable(&error))
            });
            match tokio::time::timeout(READY_DEADLINE, ping).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(broke_down())),
                Err(_) => Err(too_slow(READY_DEADLINE)),
            }
        })
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        // What is under way has it too, and ends by itself.
        drop(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
        Box::pin(std::future::ready(Ok(())))
    }
}
