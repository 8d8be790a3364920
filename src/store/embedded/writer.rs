//! The one who writes: a thread of its own, fed by a bounded queue. A commit is one batch of the database, synced where a
//! topic in it asks for that.
//!
//! A write or a sync that failed is never tried again: what the disk holds is not known any more, and a second sync that
//! succeeds proves nothing. The store takes no more writes and says why; reading goes on; a restart finds out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fjall::{Database, PersistMode};
use tokio::sync::{mpsc, oneshot};

use super::apply::{Applier, Stop};
use super::mark::Mark;
use super::rows::CommitRow;
use super::staging::{Spaces, Staging};
use super::sweep::{Hidden, Sweeper};
use crate::store::claims::Claims;
use crate::store::{CommitResult, StoreError, StoreOptions, Write};

/// How long a commit may take before the store counts as unavailable. The database can wait for its own workers without
/// an end.
pub(super) const COMMIT_DEADLINE: Duration = Duration::from_secs(30);

/// A batch and where its answer goes.
pub(super) struct Job {
    pub batch: Vec<Write>,
    pub now_ms: u64,
    pub answer: oneshot::Sender<CommitResult>,
}

/// How the writer is, for those who ask.
#[derive(Default)]
pub(super) struct Health {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failed: Option<String>,
    busy_since: Option<Instant>,
}

impl Health {
    /// Whether writes are taken.
    pub fn check(&self) -> Result<(), StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &state.failed {
            return Err(StoreError::Unavailable(reason.clone()));
        }
        match state.busy_since {
            Some(since) if since.elapsed() > COMMIT_DEADLINE => Err(too_slow()),
            _ => Ok(()),
        }
    }

    /// No more writes, for this reason; the first one stays.
    pub fn fail(&self, reason: String) {
        tracing::error!(reason, "the store takes no more writes");
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.get_or_insert(reason);
    }

    fn busy(&self, since: Option<Instant>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).busy_since = since;
    }
}

/// The error for a commit that did not come back in time.
pub(super) fn too_slow() -> StoreError {
    StoreError::Unavailable(format!("the disk has not answered for {} s", COMMIT_DEADLINE.as_secs()))
}

/// All that the writer works with.
pub(super) struct Writer {
    pub database: Database,
    pub spaces: Spaces,
    pub options: StoreOptions,
    pub hidden: Arc<Hidden>,
    pub sweeper: Arc<Sweeper>,
    pub health: Arc<Health>,
    pub mark: Mark,
    /// The newest commit.
    pub last: CommitRow,
    /// How many topics there are.
    pub topics: usize,
    /// Who is handling what: the folder is this process's alone, so is this.
    pub claims: Claims,
}

impl Writer {
    /// Works until the queue is closed and empty, then brings everything to disk.
    pub fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(job) = jobs.blocking_recv() {
            let result = match self.health.check() {
                Ok(()) => {
                    self.health.busy(Some(Instant::now()));
                    let result = self.commit(job.batch, job.now_ms);
                    self.health.busy(None);
                    result
                }
                Err(error) => Err(error),
            };
            // Who asked may be gone: the batch is written all the same.
            let _ = job.answer.send(result);
            self.note(|writer| writer.mark.sync_sometimes());
        }
        if self.health.check().is_ok() {
            self.finish();
        }
    }

    fn commit(&mut self, batch: Vec<Write>, now_ms: u64) -> CommitResult {
        let mut staging = Staging::new(&self.spaces, &self.last, self.topics);
        let mut answers = Vec::with_capacity(batch.len());
        let mut applier = Applier {
            staging: &mut staging,
            options: &self.options,
            claims: &mut self.claims,
            now_ms,
        };
        for write in batch {
            match applier.apply(write) {
                Ok(written) => answers.push(Ok(written)),
                Err(Stop::Refused(refused)) => answers.push(Err(refused)),
                Err(Stop::Store(error)) => return Err(error),
            }
        }
        if staging.is_empty() {
            return Ok(answers);
        }
        let (topics, sync) = (staging.topics, staging.sync);
        let gone = std::mem::take(&mut staging.gone);
        self.hidden.make(&staging.made);
        match staging.write(&self.database) {
            Ok(commit) => self.last = commit,
            Err(error) => {
                let reason = match error {
                    fjall::Error::Poisoned => "writing to disk failed (is it full?): make room and restart".to_owned(),
                    other => format!("writing failed: {other:?}"),
                };
                self.health.fail(reason.clone());
                return Err(StoreError::Unavailable(reason));
            }
        }
        self.topics = topics;
        self.hidden.set_now(now_ms);
        if sync {
            self.last.durable = self.last.number;
            self.note(|writer| writer.mark.put(writer.last.number));
        }
        if !gone.is_empty() {
            self.hidden.hide(&gone, &self.sweeper);
        }
        Ok(answers)
    }

    fn finish(&mut self) {
        if let Err(error) = self.database.persist(PersistMode::SyncAll) {
            self.health.fail(format!("the last sync failed: {error:?}"));
            return;
        }
        self.note(|writer| {
            writer.mark.put(writer.last.number)?;
            writer.mark.sync()
        });
    }

    fn note(&mut self, write: impl FnOnce(&mut Self) -> std::io::Result<()>) {
        if let Err(error) = write(self) {
            self.health.fail(format!("writing the mark failed: {error}"));
        }
    }
}
