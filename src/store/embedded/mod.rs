//! The store in a folder: the default. An embedded database (fjall, a log-structured merge tree) holds everything; this
//! module gives it the store's contract, and watches over it: no loss without a word.
//!
//! In the folder are `db` (the database), `MARK` (the newest commit that is on disk, [`mark`]), `FORMAT` and `LOCK`.
//!
//! *Who sees a loss.* Every value has a checksum ([`codec`]). Commits are numbered; the journal, which holds what is not
//! in tables yet, is read strictly before the database opens it ([`journal`]). The newest commit must reach the mark, and
//! each keyspace must end with the commit that wrote to it last ([`open`]). A kept event that is not found is an error,
//! not a shorter answer ([`log`]).

mod apply;
mod apply_group;
mod backup;
mod check;
mod codec;
mod folder;
mod journal;
mod keys;
mod log;
mod mark;
mod open;
mod reader;
mod repair;
mod repair_log;
mod rows;
mod staging;
mod survey;
mod sweep;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fjall::Database;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

pub use self::backup::Copied;
pub use self::check::{Findings, check_folder};
pub use self::folder::FolderError;
pub use self::open::OpenError;
use self::reader::View;
pub use self::repair::{Repaired, repair_folder};
use self::rows::TopicRow;
use self::staging::Spaces;
use self::sweep::{Hidden, Sweeper};
use self::writer::{COMMIT_DEADLINE, Health, Job, Writer, too_slow};
use super::claims::Claims;
use super::{CommitResult, GroupState, LineRange, Lines, Store, StoreError, StoreOptions, TopicState, Write};
use crate::domain::{Event, GroupName, TopicName};

/// Batches that wait for the writer. There is one committer, so one is enough; a few more cost nothing.
const QUEUE: usize = 8;
/// How long closing waits for reads that are under way.
const READERS_DEADLINE: Duration = Duration::from_secs(5);

/// A store in a folder.
pub struct EmbeddedStore {
    /// `None` once it is closed.
    open: RwLock<Option<Arc<Shared>>>,
    health: Arc<Health>,
    /// Ends when the folder is let go.
    held: watch::Receiver<()>,
}

/// What reads and commits need.
struct Shared {
    jobs: mpsc::Sender<Job>,
    database: Database,
    spaces: Spaces,
    sweeper: Arc<Sweeper>,
    hidden: Arc<Hidden>,
    options: StoreOptions,
    _hold: Arc<Hold>,
}

/// Keeps the folder locked for as long as somebody works with it. Last field of whatever has it: the lock must outlive
/// the database.
struct Hold {
    _lock: File,
    _alive: watch::Sender<()>,
}

impl EmbeddedStore {
    /// Opens a folder, and makes it where it is not there. It blocks: opening reads the journal.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<EmbeddedStore, OpenError> {
        let opened = open::open(path.as_ref())?;
        let (alive, held) = watch::channel(());
        let hold = Arc::new(Hold {
            _lock: opened.lock,
            _alive: alive,
        });
        let (jobs, queue) = mpsc::channel(QUEUE);
        let health = Arc::new(Health::default());
        let sweeper = Arc::new(Sweeper::default());
        let writer = Writer {
            database: opened.database.clone(),
            spaces: opened.spaces.clone(),
            options: options.clone(),
            hidden: Arc::clone(&opened.hidden),
            sweeper: Arc::clone(&sweeper),
            health: Arc::clone(&health),
            mark: opened.mark,
            last: opened.last,
            topics: opened.topics,
            claims: Claims::default(),
        };
        let writers_hold = Arc::clone(&hold);
        let thread = std::thread::Builder::new().name("store-writer".into());
        let spawned = thread.spawn(move || {
            writer.run(queue);
            drop(writers_hold);
        });
        spawned.map_err(|source| OpenError::Io {
            path: path.as_ref().to_path_buf(),
            source,
        })?;
        let shared = Shared {
            jobs,
            database: opened.database,
            spaces: opened.spaces,
            sweeper,
            hidden: opened.hidden,
            options,
            _hold: hold,
        };
        Ok(EmbeddedStore {
            open: RwLock::new(Some(Arc::new(shared))),
            health,
            held,
        })
    }

    fn shared(&self) -> Result<Arc<Shared>, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or(StoreError::Closed)
    }

    /// Reads on a thread that may block.
    fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let shared = self.shared();
        Box::pin(async move {
            let shared = shared?;
            let reading = tokio::task::spawn_blocking(move || read(&shared));
            reading
                .await
                .unwrap_or_else(|_| Err(StoreError::Corrupt("a read broke down".into())))
        })
    }

    fn look_at_topic<T: Send + 'static>(
        &self,
        topic: &TopicName,
        without: T,
        read: impl Fn(&View, &TopicRow) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| shared.read_topic(&topic, without, read))
    }
}

impl Shared {
    fn view(&self) -> View {
        View::new(&self.database, &self.spaces)
    }

    /// Reads from a topic. What is missing may have been removed since the snapshot was taken: then the topic begins
    /// later now, and the read is made again.
    fn read_topic<T>(
        &self,
        topic: &TopicName,
        without: T,
        read: impl Fn(&View, &TopicRow) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut view = self.view();
        let mut row = log::topic(&view, topic.as_str())?;
        loop {
            let Some(found) = row else {
                return Ok(without);
            };
            let result = read(&view, &found);
            if !matches!(result, Err(StoreError::Corrupt(_))) {
                return result;
            }
            view = self.view();
            row = log::topic(&view, topic.as_str())?;
            let removed = row
                .as_ref()
                .is_none_or(|row| row.number != found.number || row.first > found.first);
            if !removed {
                return result;
            }
        }
    }
}

/// Takes what is hidden off the disk, in the background.
fn sweep(shared: Arc<Shared>) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = shared.sweeper.run(&shared.spaces) {
            tracing::warn!(?error, "removed events could not be taken off the disk");
        }
    });
}

impl Store for EmbeddedStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        let shared = self.shared();
        Box::pin(async move {
            let shared = shared?;
            let trims = batch
                .iter()
                .any(|write| matches!(write, Write::Trim { .. } | Write::DeleteTopic { .. }));
            let (answer, answered) = oneshot::channel();
            let job = Job { batch, now_ms, answer };
            let stopped = || StoreError::Unavailable("the writer has stopped".into());
            let committing = async {
                shared.jobs.send(job).await.map_err(|_| stopped())?;
                answered.await.map_err(|_| stopped())?
            };
            let result = tokio::time::timeout(COMMIT_DEADLINE, committing).await;
            if trims {
                sweep(shared);
            }
            result.unwrap_or_else(|_| Err(too_slow()))
        })
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>> {
        self.look(|shared| shared.view().topics())
    }

    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>> {
        self.look_at_topic(topic, None, |_, row| Ok(Some(row.state())))
    }

    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.look_at_topic(topic, Vec::new(), move |view, row| {
            view.read(row, from_seq, max_events, max_bytes)
        })
    }

    fn read_lines(&self, topic: &TopicName, range: LineRange) -> BoxFuture<'static, Result<Lines, StoreError>> {
        self.look_at_topic(topic, Lines::default(), move |view, row| view.read_lines(row, &range))
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.look_at_topic(topic, Vec::new(), move |view, row| view.read_seqs(row, &seqs))
    }

    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.look_at_topic(topic, vec![None; ids.len()], move |view, row| {
            ids.iter().map(|id| log::seq_of_id(view, row, id)).collect()
        })
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.look_at_topic(topic, 1, move |view, row| log::seq_at_ts(view, row, ts))
    }

    fn newest_by_key(
        &self,
        topic: &TopicName,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>> {
        let key: Box<str> = key.into();
        self.look_at_topic(topic, None, move |view, row| {
            match log::newest_of_key(view, row, &key)? {
                Some(seq) => Ok(Some(Arc::new(log::event(view, row, seq)?.event))),
                None => Ok(None),
            }
        })
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| {
            let none = vec![0; (shared.options.rules)(&topic).partitions.max(1) as usize];
            shared.read_topic(&topic, none, |view, row| log::ordinals_at(view, row, seq))
        })
    }

    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>> {
        let topic = topic.clone();
        self.look(move |shared| shared.view().groups(&topic))
    }

    fn group(
        &self,
        topic: &TopicName,
        group: &GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupState>, StoreError>> {
        let (topic, group) = (topic.clone(), group.clone());
        self.look(move |shared| shared.view().group(&topic, &group))
    }

    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>> {
        let (topic, group, id) = (topic.clone(), group.clone(), Box::<str>::from(id));
        self.look(move |shared| shared.view().seen(&topic, &group, &id, now_ms))
    }

    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        let answer = self.shared().and_then(|_| self.health.check());
        Box::pin(std::future::ready(answer))
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        let shared = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let mut held = self.held.clone();
        let health = Arc::clone(&self.health);
        Box::pin(async move {
            if shared.is_none() {
                return Ok(());
            }
            // Where this is the last one, the database waits for its own threads.
            tokio::task::spawn_blocking(move || drop(shared));
            // The sender is in `Hold`: an error from here says that the last one who had it is gone.
            let let_go = async { while held.changed().await.is_ok() {} };
            let _ = tokio::time::timeout(COMMIT_DEADLINE + READERS_DEADLINE, let_go).await;
            health.check()
        })
    }
}
