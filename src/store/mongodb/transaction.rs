//! One transaction, tried until it is done: conflicts with other writers, elections and lost connections make new tries.

use std::time::Duration;

use futures_util::future::BoxFuture;
use mongodb::ClientSession;
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, WriteConcern};
use tokio::time::Instant;

use super::database::{COMMAND_TIME_MAX, Database, Fault, is_write_conflict, may_pass, pause, unavailable};
use super::orphans;
use crate::store::{Refused, StoreError};

/// Between two tries of a commit whose result is not known.
const COMMIT_AGAIN: Duration = Duration::from_millis(50);

/// What a transaction does. It is asked again for every try.
pub(super) trait Work: Send {
    type Answer: Send;

    /// Reads and writes in the session. `uncertain`: an earlier try may have been committed after all.
    fn attempt<'a>(
        &'a mut self,
        session: &'a mut ClientSession,
        uncertain: bool,
    ) -> BoxFuture<'a, Result<Step<Self::Answer>, Fault>>;
}

/// How a try goes on.
pub(super) enum Step<T> {
    /// Its writes are to last.
    Commit(T),
    /// There is nothing to write.
    Leave(T),
}

impl Database {
    /// Runs a transaction. `Err` is "may have happened".
    pub async fn transact<W: Work>(
        &self,
        work: &mut W,
        concern: WriteConcern,
        until: Instant,
    ) -> Result<Result<W::Answer, Refused>, StoreError> {
        let (mut tries, mut uncertain) = (0, false);
        let began = Instant::now();
        loop {
            let mut committing = false;
            let fault = match self.attempt(work, &concern, until, uncertain, &mut committing).await {
                Ok(answer) => return Ok(Ok(answer)),
                Err(fault) => fault,
            };
            let error = match fault {
                Fault::Refused(refused) => return Ok(Err(refused)),
                Fault::Store(error) => return Err(error),
                Fault::Again => StoreError::Unavailable("other writers were always first".into()),
                Fault::Driver(error) if may_pass(&error) => {
                    tracing::debug!(error = %unavailable(&error), tries, "a transaction failed and is tried again");
                    // With this label the server says that nothing of it lasts.
                    uncertain |= committing && !error.contains_label(TRANSIENT_TRANSACTION_ERROR);
                    if is_write_conflict(&error) && began.elapsed() >= orphans::SUSPECTED_AFTER {
                        self.end_orphans().await;
                    }
                    unavailable(&error)
                }
                Fault::Driver(error) => return Err(unavailable(&error)),
            };
            if Instant::now() >= until {
                return Err(error);
            }
            pause(tries).await;
            tries += 1;
        }
    }

    async fn attempt<W: Work>(
        &self,
        work: &mut W,
        concern: &WriteConcern,
        until: Instant,
        uncertain: bool,
        committing: &mut bool,
    ) -> Result<W::Answer, Fault> {
        let mut session = self.client.start_session().await?;
        session
            .start_transaction()
            .read_concern(ReadConcern::local())
            .write_concern(concern.clone())
            .max_commit_time(COMMAND_TIME_MAX)
            .await?;
        let answer = match work.attempt(&mut session, uncertain).await {
            Ok(Step::Commit(answer)) => answer,
            Ok(Step::Leave(answer)) => {
                let _ = session.abort_transaction().await;
                return Ok(answer);
            }
            Err(fault) => {
                // A server that lives gives its locks back at once; one that does not has none.
                let _ = session.abort_transaction().await;
                return Err(fault);
            }
        };
        *committing = true;
        loop {
            match session.commit_transaction().await {
                Ok(()) => return Ok(answer),
                // The same commit again is safe: the server knows the transaction by its number.
                Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && Instant::now() < until => {
                    tracing::debug!(error = %unavailable(&error), "the result of a commit is not known yet");
                    tokio::time::sleep(COMMIT_AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
