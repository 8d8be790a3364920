//! Transactions of gateways that are gone.
//!
//! A server keeps a transaction, and the documents that it has changed, for a minute after the one who began it died: for
//! so long nobody could publish to its topic. No gateway that lives leaves a transaction alone for seconds, so whoever
//! meets one that was ends it. Where its owner was only frozen, it begins anew.

use std::sync::PoisonError;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use mongodb::options::ReadConcern;
use tokio::time::Instant;

use super::database::{Database, unavailable};
use super::open::APP_NAME;

/// How long somebody is in the way before it is looked into.
pub(super) const SUSPECTED_AFTER: Duration = Duration::from_millis(500);
/// How long a transaction was left alone that is ended.
const LEFT_ALONE: Duration = Duration::from_secs(2);
/// How often it is looked into at most.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);

impl Database {
    /// Ends the transactions that their gateways have left alone.
    pub async fn end_orphans(&self) {
        {
            let mut looked = self.looked_for_orphans.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.is_some_and(|looked| looked.elapsed() < AT_MOST_EVERY) {
                return;
            }
            *looked = Some(Instant::now());
        }
        match self.orphans().await {
            Ok(orphans) if orphans.is_empty() => {}
            Ok(orphans) => {
                let count = orphans.len();
                let ended = self
                    .client
                    .database("admin")
                    .run_command(doc! { "killSessions": orphans })
                    .await;
                tracing::warn!(count, error = ?ended.err().map(|error| unavailable(&error)), "transactions that a gateway had left alone were ended");
            }
            Err(error) => {
                tracing::warn!(error = %unavailable(&error), "transactions that are in the way could not be looked for")
            }
        }
    }

    async fn orphans(&self) -> Result<Vec<Bson>, Error> {
        let pipeline = [
            doc! { "$currentOp": { "allUsers": false, "idleSessions": true } },
            doc! { "$match": {
                "type": "idleSession",
                "appName": APP_NAME,
                "transaction.timeInactiveMicros": { "$gte": LEFT_ALONE.as_micros() as i64 },
            } },
            doc! { "$project": { "lsid": 1 } },
        ];
        let mut cursor = self
            .client
            .database("admin")
            .aggregate(pipeline)
            .read_concern(ReadConcern::local())
            .await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            let idle: Document = cursor.deserialize_current()?;
            if let Some(id) = idle.get_document("lsid").ok().and_then(|session| session.get("id")) {
                found.push(Bson::Document(doc! { "id": id.clone() }));
            }
        }
        Ok(found)
    }
}
