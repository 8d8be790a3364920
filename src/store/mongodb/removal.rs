//! Retention, and the end of topics. What is removed is first said to be gone, in the topic's document; its events leave
//! the collection afterwards, some at a time.

use std::future::IntoFuture as _;

use futures_util::future::BoxFuture;
use mongodb::ClientSession;
use mongodb::bson::doc;
use tokio::time::Instant;

use super::COMMIT_DEADLINE;
use super::database::{Database, Fault, insist, majority, unavailable};
use super::keys;
use super::transaction::{Step, Work};
use crate::domain::{Retention, TopicName};
use crate::store::{StoreError, Written};

/// How many events are deleted at once: a few milliseconds' work.
const AT_ONCE: u64 = 1_000;

impl Database {
    /// Moves the topic's `first`. Another gateway may do the same at the same time: one of them is the one who did.
    pub async fn trim(
        &self,
        topic: &TopicName,
        retention: &Retention,
        now_ms: u64,
        until: Instant,
    ) -> Result<Written, StoreError> {
        loop {
            let Some(mut row) = self.topic(topic).await? else {
                return Ok(Written::Trimmed { first: 1, events: 0 });
            };
            let first = self.trim_point(topic, &row, retention, now_ms).await?;
            let events = first - row.first;
            if events == 0 {
                return Ok(Written::Trimmed { first, events });
            }
            let unchanged =
                doc! { "_id": topic.as_str(), "first": keys::signed(row.first), "removing": { "$exists": false } };
            row.first_ordinals = self.ordinals_at(topic, &row, first - 1).await?;
            row.bytes_before = match self.event_from(topic, first).await? {
                Some(event) if event.event.seq <= row.end.tail => event.bytes_before(),
                _ => row.bytes,
            };
            row.first = first;
            let update = doc! { "$set": row.first_fields() };
            let met = insist(until, || {
                let update = self.topics.update_one(unchanged.clone(), update.clone());
                Box::pin(update.write_concern(majority()).into_future())
            });
            if met.await?.matched_count > 0 {
                return Ok(Written::Trimmed { first, events });
            }
        }
    }

    /// Deletes the events below the topic's `first`, where there are any left.
    pub async fn sweep(&self, topic: &TopicName) -> Result<(), StoreError> {
        loop {
            let Some(row) = self.topic(topic).await?.filter(|row| row.swept < row.first) else {
                return Ok(());
            };
            let Some(lowest) = self.event_from(topic, 0).await?.map(|row| row.event.seq) else {
                return self.swept(topic, row.first).await;
            };
            if lowest >= row.first {
                return self.swept(topic, row.first).await;
            }
            // By time too: not one of a topic that was made anew under the name since a moment ago.
            let newest = self
                .event_from(topic, row.first)
                .await?
                .map_or(row.end.at, |row| row.event.at);
            let end = (lowest + AT_ONCE).min(row.first);
            let gone = doc! {
                "topic": topic.as_str(),
                "seq": { "$lt": keys::signed(end) },
                "at": { "$lte": keys::clamped(newest) },
            };
            let deleted = self
                .events
                .delete_many(gone)
                .await
                .map_err(|error| unavailable(&error))?;
            if deleted.deleted_count == 0 {
                return Ok(());
            }
        }
    }

    async fn swept(&self, topic: &TopicName, first: u64) -> Result<(), StoreError> {
        let row = doc! { "_id": topic.as_str(), "first": { "$gte": keys::signed(first) } };
        let update = doc! { "$max": { "swept": keys::signed(first) } };
        let updated = self.topics.update_one(row, update).await;
        updated.map(drop).map_err(|error| unavailable(&error))
    }

    /// Says that a topic is gone, with its groups. `false`: there was none.
    pub async fn remove_topic(&self, topic: &TopicName, until: Instant) -> Result<bool, StoreError> {
        let mut work = Remove { database: self, topic };
        match self.transact(&mut work, majority(), until).await? {
            Ok(there) => Ok(there),
            Err(refused) => Err(StoreError::Unavailable(refused.to_string())),
        }
    }

    /// Deletes the events of a topic that is being removed, then the topic. Somebody else may be at it too.
    pub async fn finish_removal(&self, topic: &TopicName) -> Result<(), StoreError> {
        loop {
            let mut work = RemoveSome { database: self, topic };
            let done = self
                .transact(&mut work, majority(), Instant::now() + COMMIT_DEADLINE)
                .await?;
            if done.unwrap_or(true) {
                return Ok(());
            }
        }
    }
}

struct Remove<'a> {
    database: &'a Database,
    topic: &'a TopicName,
}

impl Work for Remove<'_> {
    type Answer = bool;

    fn attempt<'a>(&'a mut self, session: &'a mut ClientSession, _: bool) -> BoxFuture<'a, Result<Step<bool>, Fault>> {
        Box::pin(self.remove(session))
    }
}

impl Remove<'_> {
    async fn remove(&self, session: &mut ClientSession) -> Result<Step<bool>, Fault> {
        let Database {
            topics,
            groups,
            cursors,
            retries,
            ..
        } = self.database;
        let topic = doc! { "_id": self.topic.as_str() };
        let update = doc! { "$set": { "removing": true } };
        let met = topics.update_one(topic, update).session(&mut *session).await?;
        let all = keys::of_topic(self.topic);
        for collection in [groups, cursors, retries] {
            collection.delete_many(all.clone()).session(&mut *session).await?;
        }
        Ok(Step::Commit(met.matched_count > 0))
    }
}

/// Some of the events of a topic that is being removed; at last the topic itself. The answer is whether that was it.
struct RemoveSome<'a> {
    database: &'a Database,
    topic: &'a TopicName,
}

impl Work for RemoveSome<'_> {
    type Answer = bool;

    fn attempt<'a>(&'a mut self, session: &'a mut ClientSession, _: bool) -> BoxFuture<'a, Result<Step<bool>, Fault>> {
        Box::pin(self.remove(session))
    }
}

impl RemoveSome<'_> {
    async fn remove(&self, session: &mut ClientSession) -> Result<Step<bool>, Fault> {
        let Database { topics, events, .. } = self.database;
        // In the same transaction, so that nothing of a topic that is made anew goes with it.
        let removing = doc! { "_id": self.topic.as_str(), "removing": true };
        let update = doc! { "$inc": { "removed": 1_i64 } };
        let met = topics
            .update_one(removing.clone(), update)
            .session(&mut *session)
            .await?;
        if met.matched_count == 0 {
            return Ok(Step::Leave(true));
        }
        let all = doc! { "topic": self.topic.as_str() };
        let lowest = events
            .find_one(all)
            .sort(doc! { "seq": 1 })
            .session(&mut *session)
            .await?;
        let Some(lowest) = lowest else {
            topics.delete_one(removing).session(&mut *session).await?;
            return Ok(Step::Commit(true));
        };
        let lowest = lowest.get_i64("seq").unwrap_or(0);
        let some = doc! { "topic": self.topic.as_str(), "seq": { "$lt": lowest.saturating_add(AT_ONCE as i64) } };
        events.delete_many(some).session(&mut *session).await?;
        Ok(Step::Commit(false))
    }
}
