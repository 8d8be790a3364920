//! Connecting: what the driver is told, and what a deployment must be.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, ServerMonitoringMode};
use mongodb::{Client, error::Error};

use super::database::{Database, majority};

/// A server that says nothing for this long is given up: with the next, what was under way on its connections ends, and is
/// tried again where it may be. The driver's own figures (10 s each) make it 20 s.
const HEARTBEAT: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// How long an operation waits for a primary. Who waits for the operation has a deadline of its own.
const SELECTION: Duration = Duration::from_secs(10);
/// What the servers know a gateway's connections by.
pub(super) const APP_NAME: &str = "tidegate";
/// The most connections to each server, where the address does not say.
pub(super) const CONNECTIONS: u32 = 64;

/// Why a MongoDB store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MongoError {
    /// `store.url` is not an address.
    #[error("store.url: {0}")]
    Address(String),
    /// Nobody answers, or not well.
    #[error("MongoDB cannot be used: {0}")]
    Unavailable(String),
    /// A server that stands alone: it has no transactions.
    #[error(
        "MongoDB is not a replica set, and Tidegate needs one for its transactions: start mongod with --replSet \
         (one member is enough for development) and initiate it"
    )]
    NoReplicaSet,
    /// A database in use without an index that the store relies on.
    #[error(
        "the database {database} is in use without the unique index {missing}: two gateways could give one seq twice. \
         Create it first"
    )]
    NotUnique {
        /// Which database.
        database: String,
        /// What is missing.
        missing: String,
    },
}

impl From<Error> for MongoError {
    fn from(error: Error) -> MongoError {
        MongoError::Unavailable(match super::database::unavailable(&error) {
            crate::store::StoreError::Unavailable(text) => text,
            other => other.to_string(),
        })
    }
}

/// Connects and looks at the database.
pub(super) async fn open(url: &str, name: &str) -> Result<Database, MongoError> {
    let mut options = ClientOptions::parse(url)
        .await
        .map_err(|error| MongoError::Address(error.kind.to_string()))?;
    // Always this one: gateways know each other's transactions by it.
    options.app_name = Some(APP_NAME.into());
    options.heartbeat_freq.get_or_insert(HEARTBEAT);
    // Not by a stream of news: with that a frozen primary was always given up only 12 s after another was elected. Asked one
    // by one it is mostly 3 s.
    options.server_monitoring_mode.get_or_insert(ServerMonitoringMode::Poll);
    options.connect_timeout.get_or_insert(CONNECT);
    options.server_selection_timeout.get_or_insert(SELECTION);
    options.max_pool_size.get_or_insert(CONNECTIONS);
    // What the store promises is not the address's to change.
    options.read_concern = Some(ReadConcern::majority());
    options.write_concern = Some(majority());
    options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    options.retry_reads = Some(true);
    options.retry_writes = Some(true);
    let client = Client::with_options(options).map_err(|error| MongoError::Address(error.kind.to_string()))?;
    let hello: Document = client.database("admin").run_command(doc! { "hello": 1 }).await?;
    let sharded = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if !hello.contains_key("setName") && !sharded {
        return Err(MongoError::NoReplicaSet);
    }
    let database = Database::new(client, name);
    let missing = database.prepare_indexes().await?;
    if !missing.unique.is_empty() {
        return Err(MongoError::NotUnique {
            database: name.to_owned(),
            missing: missing.unique.join(", "),
        });
    }
    for missing in missing.others {
        tracing::warn!(database = name, missing, "an index is missing in MongoDB: create it");
    }
    Ok(database)
}
