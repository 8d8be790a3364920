//! Reading topics and groups.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};

use super::database::{COMMAND_TIME_MAX, Database, unavailable};
use super::group_row::{GroupRow, decode_cursor, decode_retry};
use super::keys;
use super::topic_row::TopicRow;
use crate::domain::{GroupName, PartitionCursor, TopicName};
use crate::store::{GroupState, StoreError, TopicState};

/// Every document that matches, in the order of their `_id`s.
async fn all<T>(
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    mut decode: impl FnMut(&RawDocument) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let find = collection
        .find(filter)
        .sort(doc! { "_id": 1 })
        .max_time(COMMAND_TIME_MAX);
    let mut cursor = find.await.map_err(|error| unavailable(&error))?;
    let mut found = Vec::new();
    while cursor.advance().await.map_err(|error| unavailable(&error))? {
        found.push(decode(cursor.current())?);
    }
    Ok(found)
}

impl Database {
    pub async fn topics(&self) -> Result<Vec<(TopicName, TopicState)>, StoreError> {
        let there = doc! { "removing": { "$exists": false } };
        let rows = all(&self.topics, there, TopicRow::decode).await?;
        Ok(rows.into_iter().map(|(topic, row)| (topic, row.state())).collect())
    }

    pub async fn groups(&self, topic: &TopicName) -> Result<Vec<GroupName>, StoreError> {
        all(&self.groups, keys::of_topic(topic), |row| {
            Ok(GroupRow::decode(row)?.name)
        })
        .await
    }

    pub async fn group_row(&self, topic: &TopicName, group: &GroupName) -> Result<Option<GroupRow>, StoreError> {
        let find = self.groups.find_one(doc! { "_id": keys::group(topic, group) });
        let found = find
            .max_time(COMMAND_TIME_MAX)
            .await
            .map_err(|error| unavailable(&error))?;
        found.map(|found| GroupRow::decode(&found)).transpose()
    }

    /// A group with all that belongs to it. Its owner reads after its claim, so that nobody changes it meanwhile.
    pub async fn group(&self, topic: &TopicName, group: &GroupName) -> Result<Option<GroupState>, StoreError> {
        let Some(row) = self.group_row(topic, group).await? else {
            return Ok(None);
        };
        let rows = keys::of_group(topic, group);
        let (found, mut retries) = tokio::try_join!(
            all(&self.cursors, rows.clone(), decode_cursor),
            all(&self.retries, rows, decode_retry),
        )?;
        let partitions = found.iter().map(|(partition, _)| partition + 1).max().unwrap_or(0);
        let mut cursors = vec![PartitionCursor::default(); partitions];
        for (partition, cursor) in found {
            cursors[partition] = cursor;
        }
        retries.sort_unstable_by_key(|retry| retry.seq);
        Ok(Some(GroupState {
            settings: row.settings,
            paused: row.paused,
            epoch: row.epoch,
            seeks: row.seeks,
            cursors,
            retries,
        }))
    }
}
