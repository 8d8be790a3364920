//! Several gateways on one database: leases, who holds a group, and news of topics.
//!
//! A gateway's lease is one document in `leases`, its `_id` the owner's id, with the time at which it is over (`until`),
//! written and compared by the server's own clock. A group's document names its owner. A claim that finds the owner's
//! lease over removes it in its own transaction: a renewal at the same time conflicts with that, so only one of them is
//! done.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use mongodb::change_stream::event::ChangeStreamEvent;
use mongodb::error::Error;
use tokio::sync::mpsc;

use super::database::{COMMAND_TIME_MAX, Database, Fault, majority, unavailable};
use super::event_row::number;
use super::{Shared, broke_down, keys};
use crate::domain::{GroupName, TopicName};
use crate::store::{Cluster, Holder, OwnerId, Refused, StoreError, TopicMoved};

/// What is left of leases that were over this long ago is removed.
const FORGOTTEN_MS: i64 = 24 * 60 * 60 * 1_000;
/// News that wait to be passed on; beyond, some are lost, as they may be.
const NEWS_KEPT: usize = 1_024;
/// How long the server waits for news before it says that there are none.
const NEWS_WAIT: Duration = Duration::from_secs(1);

/// The store as what gateways share.
pub(super) struct MongoCluster(pub(super) Arc<Shared>);

impl MongoCluster {
    /// Does something in a task of its own: who waits for it may give up, and the driver's future is not dropped.
    fn task<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> BoxFuture<'static, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let task = self.0.handle.spawn(work(Arc::clone(&self.0)));
        Box::pin(async move {
            let done = task.await.map_err(|_| broke_down())?;
            done.map_err(|error| unavailable(&error))
        })
    }
}

/// Lets a lease last so long from now, by the server's clock.
fn lasting(lasts: Duration) -> Vec<Document> {
    let lasts_ms = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    vec![doc! { "$set": { "until": { "$add": ["$$NOW", lasts_ms] } } }]
}

fn by_owner(owner: &OwnerId) -> Document {
    doc! { "_id": owner.as_str() }
}

impl Cluster for MongoCluster {
    fn begin_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<(), StoreError>> {
        let owner = owner.clone();
        self.task(move |shared| async move {
            let leases = &shared.database.leases;
            let forgotten = doc! { "$lt": ["$until", { "$subtract": ["$$NOW", FORGOTTEN_MS] }] };
            let forgotten = doc! { "until": { "$type": "date" }, "$expr": forgotten };
            leases.delete_many(forgotten).write_concern(majority()).await?;
            let begin = leases.update_one(by_owner(&owner), lasting(lasts)).upsert(true);
            begin.write_concern(majority()).await.map(drop)
        })
    }

    fn renew_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<bool, StoreError>> {
        let owner = owner.clone();
        self.task(move |shared| async move {
            let renew = shared.database.leases.update_one(by_owner(&owner), lasting(lasts));
            Ok(renew.write_concern(majority()).await?.matched_count > 0)
        })
    }

    fn end_lease(&self, owner: &OwnerId) -> BoxFuture<'static, Result<(), StoreError>> {
        let owner = owner.clone();
        self.task(move |shared| async move {
            let end = shared.database.leases.delete_one(by_owner(&owner));
            end.write_concern(majority()).await.map(drop)
        })
    }

    fn holders(
        &self,
        groups: Vec<(TopicName, GroupName)>,
    ) -> BoxFuture<'static, Result<Vec<Option<Holder>>, StoreError>> {
        self.task(move |shared| async move {
            let ids: Vec<String> = groups.iter().map(|(topic, group)| keys::group(topic, group)).collect();
            // Leases after owners: a claim in between is found with its owner or with none.
            let owners = shared.database.owners(&ids).await?;
            let left = shared.database.leases_left(None).await?;
            let holder = |id: &String| {
                let owner = owners.get(id)?.clone();
                let left_ms = *left.get(&owner)?;
                Some(Holder { owner, left_ms })
            };
            Ok(ids.iter().map(holder).collect())
        })
    }

    fn tails(&self, topics: Vec<TopicName>) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.task(move |shared| async move {
            let ids: Vec<&str> = topics.iter().map(TopicName::as_str).collect();
            let there = doc! { "_id": { "$in": ids }, "removing": { "$exists": false } };
            let find = shared.database.topics.find(there).projection(doc! { "seq": 1 });
            let mut rows = find.max_time(COMMAND_TIME_MAX).await?;
            let mut tails = HashMap::new();
            while rows.advance().await? {
                let row = rows.current();
                let tail = row.get("seq").ok().flatten().and_then(number);
                if let (Ok(topic), Some(tail)) = (row.get_str("_id"), tail) {
                    tails.insert(topic.to_owned(), tail);
                }
            }
            Ok(topics.iter().map(|topic| tails.get(topic.as_str()).copied()).collect())
        })
    }

    fn watch(&self) -> BoxFuture<'static, Result<Option<BoxStream<'static, TopicMoved>>, StoreError>> {
        let watch = self.task(|shared| async move {
            let topics = shared.database.topics.clone_with_type::<Document>();
            let mut changes = topics.watch().max_await_time(NEWS_WAIT).await?;
            let (news, heard) = mpsc::channel(NEWS_KEPT);
            // Never dropped while it waits for the server: it looks for itself whether anybody still listens.
            shared.handle.spawn(async move {
                while changes.is_alive() && !news.is_closed() {
                    match changes.next_if_any().await {
                        Ok(change) => {
                            if let Some(moved) = change.as_ref().and_then(moved) {
                                let _ = news.try_send(moved);
                            }
                        }
                        Err(error) => {
                            tracing::debug!(%error, "MongoDB's change stream ended");
                            return;
                        }
                    }
                }
            });
            Ok(heard)
        });
        Box::pin(async move {
            let next = |mut news: mpsc::Receiver<TopicMoved>| async move { Some((news.recv().await?, news)) };
            Ok(Some(stream::unfold(watch.await?, next).boxed()))
        })
    }
}

/// What a change of a topic's document says.
fn moved(change: &ChangeStreamEvent<Document>) -> Option<TopicMoved> {
    let topic = change.document_key.as_ref()?.get_str("_id").ok()?.parse().ok()?;
    let updated = change.update_description.as_ref().map(|update| &update.updated_fields);
    let seq = updated.or(change.full_document.as_ref())?.get("seq")?;
    let tail = match seq {
        Bson::Int64(tail) => u64::try_from(*tail).ok()?,
        Bson::Int32(tail) => u64::try_from(*tail).ok()?,
        _ => return None,
    };
    Some(TopicMoved { topic, tail })
}

impl Database {
    /// The owners of groups that have one, by the groups' `_id`s.
    async fn owners(&self, ids: &[String]) -> Result<HashMap<String, OwnerId>, Error> {
        let owned = doc! { "_id": { "$in": ids }, "owner": { "$type": "string" } };
        let find = self.groups.find(owned).projection(doc! { "owner": 1 });
        let mut rows = find.max_time(COMMAND_TIME_MAX).await?;
        let mut owners = HashMap::new();
        while rows.advance().await? {
            let row = rows.current();
            if let (Ok(id), Some(owner)) = (row.get_str("_id"), owner_of(row)) {
                owners.insert(id.to_owned(), owner);
            }
        }
        Ok(owners)
    }

    /// How many milliseconds leases last yet, by the server's clock; those that are over are left out.
    async fn leases_left(&self, of: Option<&OwnerId>) -> Result<HashMap<OwnerId, u64>, Error> {
        let mut leases = doc! { "until": { "$type": "date" }, "$expr": { "$gt": ["$until", "$$NOW"] } };
        if let Some(owner) = of {
            leases.insert("_id", owner.as_str());
        }
        let left = doc! { "left": { "$subtract": ["$until", "$$NOW"] } };
        let mut rows = self
            .leases
            .find(leases)
            .projection(left)
            .max_time(COMMAND_TIME_MAX)
            .await?;
        let mut found = HashMap::new();
        while rows.advance().await? {
            let row = rows.current();
            let left = row.get("left").ok().flatten().and_then(number);
            if let (Ok(owner), Some(left_ms)) = (row.get_str("_id"), left) {
                found.insert(OwnerId::from_stored(owner), left_ms.max(1));
            }
        }
        Ok(found)
    }

    /// Whether `owner` may have the group whose document this is, in the transaction of its claim. The lease of one whose
    /// time is over is removed on the way, and never comes back.
    pub async fn check_holder(
        &self,
        group: &RawDocument,
        owner: &OwnerId,
        session: &mut ClientSession,
    ) -> Result<(), Fault> {
        let Some(holder) = owner_of(group).filter(|holder| holder != owner) else {
            return Ok(());
        };
        let over = doc! { "_id": holder.as_str(), "$expr": { "$lte": ["$until", "$$NOW"] } };
        if self.leases.delete_one(over).session(&mut *session).await?.deleted_count > 0 {
            return Ok(());
        }
        let lease = self.leases.find_one(by_owner(&holder)).session(session).await?;
        if lease.is_none() {
            return Ok(());
        }
        let left = self.leases_left(Some(&holder)).await?;
        match left.get(&holder) {
            Some(left_ms) => Err(Refused::Held {
                owner: holder,
                left_ms: *left_ms,
            }
            .into()),
            // Its time ran out just now.
            None => Err(Fault::Again),
        }
    }
}

fn owner_of(group: &RawDocument) -> Option<OwnerId> {
    group.get_str("owner").ok().map(OwnerId::from_stored)
}
