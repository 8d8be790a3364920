//! The database: its collections, how what the driver says of an error is read, and how a write is tried again.

use std::time::Duration;

use futures_util::future::BoxFuture;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::{
    Error, ErrorKind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT,
    WriteFailure,
};
use mongodb::options::WriteConcern;
use mongodb::{Client, ClientSession, Collection};
use tokio::time::Instant;

use super::keys;
use crate::store::{Refused, StoreError};

/// The longest pause between two tries of a write. Who waits for a document that two gateways write does not wait long;
/// who waits for an election need not ask more often.
const PAUSE_MS_MAX: u64 = 200;
/// How long a server may work on one command, where it can be told. The driver has no deadline of its own.
pub(super) const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);

/// The collections of one database.
pub(super) struct Database {
    pub client: Client,
    pub all: mongodb::Database,
    pub events: Collection<RawDocumentBuf>,
    pub topics: Collection<RawDocumentBuf>,
    pub groups: Collection<RawDocumentBuf>,
    pub cursors: Collection<RawDocumentBuf>,
    pub retries: Collection<RawDocumentBuf>,
    pub dedupe: Collection<RawDocumentBuf>,
    pub leases: Collection<RawDocumentBuf>,
    /// When transactions that nobody ends were looked for last.
    pub looked_for_orphans: std::sync::Mutex<Option<Instant>>,
}

impl Database {
    pub fn new(client: Client, name: &str) -> Database {
        let all = client.database(name);
        Database {
            events: all.collection(keys::EVENTS),
            topics: all.collection(keys::TOPICS),
            groups: all.collection(keys::GROUPS),
            cursors: all.collection(keys::CURSORS),
            retries: all.collection(keys::RETRIES),
            dedupe: all.collection(keys::DEDUPE),
            leases: all.collection(keys::LEASES),
            looked_for_orphans: std::sync::Mutex::default(),
            all,
            client,
        }
    }

    /// Several changes of one collection in one command, in their order. Gives how many documents they met. Without a
    /// session it is no transaction: what was done before an error stays.
    pub async fn update_many(
        &self,
        collection: &str,
        updates: Vec<Document>,
        session: Option<&mut ClientSession>,
    ) -> Result<u64, Error> {
        if updates.is_empty() {
            return Ok(0);
        }
        let mut command = doc! { "update": collection, "updates": updates, "ordered": true };
        let reply = match session {
            Some(session) => self.all.run_command(command).session(session).await?,
            None => {
                let wait_ms = COMMAND_TIME_MAX.as_millis() as i64;
                command.insert("writeConcern", doc! { "w": "majority", "j": true, "wtimeout": wait_ms });
                self.all.run_command(command).await?
            }
        };
        // The driver takes such a reply for a success.
        for failure in ["writeErrors", "writeConcernError"] {
            if let Some(failure) = reply.get(failure) {
                return Err(Error::custom(format!("an update of {collection} failed: {failure}")));
            }
        }
        let met = reply.get("n");
        Ok(met
            .and_then(|met| met.as_i64().or(met.as_i32().map(i64::from)))
            .unwrap_or(0) as u64)
    }
}

/// The default: a majority has it in its journal.
pub(super) fn majority() -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern.w_timeout = Some(COMMAND_TIME_MAX);
    concern
}

/// Why a try of a write ended.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is not done, and never will be.
    Refused(Refused),
    /// The store cannot do it.
    Store(StoreError),
    /// The driver's word.
    Driver(Error),
    /// Another writer was first: try again.
    Again,
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        Fault::Refused(refused)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Driver(error)
    }
}

/// What the driver says, in words for people.
pub(super) fn unavailable(error: &Error) -> StoreError {
    let text = match &*error.kind {
        ErrorKind::Custom(_) => error.get_custom::<String>().cloned().unwrap_or_default(),
        ErrorKind::Command(error) => format!("{} ({})", error.message, error.code_name),
        kind => kind.to_string(),
    };
    StoreError::Unavailable(text)
}

/// Whether the same may go well a moment later: a lost connection, an election, another writer.
pub(super) fn may_pass(error: &Error) -> bool {
    const CODES: [i32; 18] = [
        6, 7, 24, 50, 64, 89, 91, 112, 134, 189, 246, 251, 262, 9001, 10107, 11600, 11602, 13435,
    ];
    let labels = [
        TRANSIENT_TRANSACTION_ERROR,
        UNKNOWN_TRANSACTION_COMMIT_RESULT,
        RETRYABLE_WRITE_ERROR,
    ];
    labels.iter().any(|label| error.contains_label(label))
        || match &*error.kind {
            ErrorKind::Io(_) | ErrorKind::ServerSelection { .. } | ErrorKind::ConnectionPoolCleared { .. } => true,
            ErrorKind::Custom(_) => true,
            ErrorKind::Command(error) => CODES.contains(&error.code),
            ErrorKind::Write(WriteFailure::WriteConcernError(_)) => true,
            _ => false,
        }
}

/// Whether another transaction has a document that this one wanted to change.
pub(super) fn is_write_conflict(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(error) if error.code == 112)
}

/// The index in which a document was there already, where that was the error: its name is in the message.
pub(super) fn duplicate_key(error: &Error) -> Option<String> {
    const DUPLICATE_KEY: i32 = 11_000;
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == DUPLICATE_KEY => Some(error.message.clone()),
        ErrorKind::InsertMany(failed) => {
            let error = failed.write_errors.as_ref()?.first()?;
            (error.code == DUPLICATE_KEY).then(|| error.message.clone())
        }
        ErrorKind::Command(error) if error.code == DUPLICATE_KEY => Some(error.message.clone()),
        _ => None,
    }
}

/// A pause before the next try: longer each time, and of random length, so that two writers do not meet again and again.
pub(super) async fn pause(tries: u32) {
    let longest = (2_u64 << tries.min(8)).min(PAUSE_MS_MAX);
    // The low bits of a version 7 UUID are random.
    let random = uuid::Uuid::now_v7().as_u128() as u64;
    tokio::time::sleep(Duration::from_millis(1 + random % longest)).await;
}

/// Does one thing that may be done twice, again and again until it is done, cannot be done, or time is over.
pub(super) async fn insist<'a, T>(
    until: Instant,
    mut operation: impl FnMut() -> BoxFuture<'a, Result<T, Error>> + Send,
) -> Result<T, StoreError> {
    let mut tries = 0;
    loop {
        match operation().await {
            Ok(answer) => return Ok(answer),
            Err(error) if may_pass(&error) && Instant::now() < until => {
                tracing::debug!(error = %unavailable(&error), "a command to MongoDB failed and is tried again");
                pause(tries).await;
                tries += 1;
            }
            Err(error) => return Err(unavailable(&error)),
        }
    }
}
