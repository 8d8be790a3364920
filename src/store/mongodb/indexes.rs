//! The indexes that the store needs, and what is there of them.

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::IndexOptions;

use super::database::Database;
use super::keys;

/// The index that keeps a seq from being given twice, by the name that MongoDB gives it.
pub(super) const SEQ_INDEX: &str = "topic_1_seq_1";

/// Its keys.
pub(super) fn by_seq() -> Document {
    doc! { "topic": 1, "seq": 1 }
}

/// One index of the store's.
pub(super) struct Wanted {
    collection: &'static str,
    keys: Document,
    unique: bool,
    /// Documents end by themselves at the time in this field.
    ends: bool,
}

/// All of them. `_id` is MongoDB's own and unique.
pub(super) fn wanted() -> Vec<Wanted> {
    let index = |collection, keys| Wanted {
        collection,
        keys,
        unique: false,
        ends: false,
    };
    let ends = |collection| Wanted {
        ends: true,
        ..index(collection, doc! { "expireAt": 1 })
    };
    vec![
        Wanted {
            unique: true,
            ..index(keys::EVENTS, by_seq())
        },
        index(keys::EVENTS, doc! { "topic": 1, "ts": 1, "id": 1 }),
        index(keys::EVENTS, doc! { "topic": 1, "key": 1, "seq": 1 }),
        ends(keys::EVENTS),
        ends(keys::DEDUPE),
        ends(keys::LEASES),
        index(keys::OUTBOX, doc! { "status": 1, "lease_until": 1 }),
        index(keys::OUTBOX, doc! { "ts": 1 }),
    ]
}

impl Wanted {
    fn model(&self) -> IndexModel {
        let mut options = IndexOptions::default();
        if self.unique {
            options.unique = Some(true);
        }
        if self.ends {
            options.expire_after = Some(std::time::Duration::ZERO);
            // Documents without the field cost nothing.
            options.sparse = Some(true);
        }
        IndexModel::builder().keys(self.keys.clone()).options(options).build()
    }

    fn is_met_by(&self, there: &IndexModel) -> bool {
        let options = there.options.clone().unwrap_or_default();
        // Keys by name and direction, whatever type of number says it.
        let same = self.keys.len() == there.keys.len()
            && self
                .keys
                .keys()
                .zip(there.keys.iter())
                .all(|(name, (other, direction))| {
                    let ahead = direction
                        .as_i32()
                        .map(f64::from)
                        .or(direction.as_i64().map(|n| n as f64));
                    name == other && ahead.or(direction.as_f64()) == Some(1.0)
                });
        same && (!self.unique || options.unique == Some(true)) && (!self.ends || options.expire_after.is_some())
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.keys.keys().map(String::as_str).collect();
        write!(f, "{}({})", self.collection, names.join(", "))?;
        if self.unique {
            f.write_str(" unique")?;
        }
        if self.ends {
            f.write_str(" TTL")?;
        }
        Ok(())
    }
}

/// What was found missing in a database that is in use.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The store works without, but slowly, or keeps what should end.
    pub others: Vec<String>,
    /// Without these numbers could be given twice.
    pub unique: Vec<String>,
}

impl Database {
    /// Makes the indexes of collections without documents, and says what is missing in the others: there it may take
    /// long and is for the operator to decide.
    pub async fn prepare_indexes(&self) -> Result<Missing, Error> {
        for name in [keys::TOPICS, keys::GROUPS, keys::CURSORS, keys::RETRIES, keys::LEASES] {
            // Not by the first transaction: that would be in the way of others.
            if let Err(error) = self.all.create_collection(name).await
                && !exists_already(&error)
            {
                return Err(error);
            }
        }
        let mut missing = Missing::default();
        for wanted in wanted() {
            let collection = self.all.collection::<Document>(wanted.collection);
            let there = match collection.list_indexes().await {
                Ok(mut cursor) => {
                    let mut there = Vec::new();
                    while cursor.advance().await? {
                        there.push(cursor.deserialize_current()?);
                    }
                    there
                }
                // No such collection.
                Err(error) if code(&error) == Some(26) => Vec::new(),
                Err(error) => return Err(error),
            };
            if there.iter().any(|index| wanted.is_met_by(index)) {
                continue;
            }
            if collection.find_one(doc! {}).await?.is_none() {
                collection.create_index(wanted.model()).await?;
            } else if wanted.unique {
                missing.unique.push(wanted.to_string());
            } else {
                missing.others.push(wanted.to_string());
            }
        }
        Ok(missing)
    }
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

fn exists_already(error: &Error) -> bool {
    code(error) == Some(48)
}
