//! What writes to groups do to the rows: claims, cursors, retries.

use super::apply::{Applier, Stop};
use super::keys::{self, Space};
use super::rows::{GroupRow, Rows, encode_cursor, encode_retry};
use crate::domain::{CursorUpdate, GroupName, PartitionCursor, TopicName};
use crate::store::placing::check_epoch;
use crate::store::{Refused, StoreError, Written};

impl Applier<'_, '_> {
    pub(super) fn create_group(
        &mut self,
        topic: &TopicName,
        group: GroupName,
        make: impl FnOnce(u64) -> GroupRow,
        cursors: &[PartitionCursor],
    ) -> Result<Written, Stop> {
        let key = keys::group(topic.as_str(), group.as_str());
        if self.staging.get(Space::State, &key)?.is_some() {
            return Err(Refused::GroupExists(group).into());
        }
        let max = self.options.max_groups_per_topic;
        if self.staging.keys_with_prefix(&keys::groups(topic.as_str()))?.len() >= max {
            return Err(Refused::TooManyGroups { max }.into());
        }
        self.staging.commit.epoch += 1;
        let mut row = make(self.staging.commit.epoch);
        self.put_cursors(&mut row, cursors);
        self.put_group(topic, &group, &row);
        Ok(Written::Epoch(row.epoch))
    }

    pub(super) fn group(&self, topic: &TopicName, group: &GroupName) -> Result<GroupRow, Stop> {
        let key = keys::group(topic.as_str(), group.as_str());
        let row = self.staging.row(Space::State, &key, GroupRow::decode)?;
        row.ok_or_else(|| Refused::NoSuchGroup(group.clone()).into())
    }

    pub(super) fn claimed(&self, topic: &TopicName, group: &GroupName, epoch: u64) -> Result<GroupRow, Stop> {
        let row = self.group(topic, group)?;
        check_epoch(row.epoch, epoch)?;
        Ok(row)
    }

    pub(super) fn put_group(&mut self, topic: &TopicName, group: &GroupName, row: &GroupRow) {
        let key = keys::group(topic.as_str(), group.as_str());
        let value = row.encode(&key);
        self.staging.put(Space::State, key, value);
    }

    pub(super) fn put_cursors(&mut self, row: &mut GroupRow, cursors: &[PartitionCursor]) {
        row.partitions = cursors.len() as u32;
        for (partition, cursor) in (0..).zip(cursors) {
            self.put_cursor(row.number, partition, cursor);
        }
    }

    fn put_cursor(&mut self, group: u64, partition: u32, cursor: &PartitionCursor) {
        let key = keys::cursor(group, partition);
        let value = encode_cursor(&key, cursor);
        self.staging.put(Space::State, key, value);
    }

    pub(super) fn save_cursors(
        &mut self,
        topic: &TopicName,
        group: &GroupName,
        mut row: GroupRow,
        updates: Vec<CursorUpdate>,
    ) {
        let before = row.partitions;
        for update in updates {
            row.partitions = row.partitions.max(update.partition.saturating_add(1));
            self.put_cursor(row.number, update.partition, &update.cursor);
            for retry in &update.retries {
                let key = keys::retry(row.number, retry.seq);
                let value = encode_retry(&key, retry);
                self.staging.put(Space::State, key, value);
            }
            for seq in update.settled {
                self.staging.remove(Space::State, keys::retry(row.number, seq));
            }
        }
        if row.partitions != before {
            self.put_group(topic, group, &row);
        }
    }

    /// Removes cursors and retries. Marks stay: without the group's number nothing finds them, and they end by
    /// themselves.
    pub(super) fn clear_group(&mut self, row: &GroupRow) -> Result<(), StoreError> {
        for partition in 0..row.partitions {
            self.staging.remove(Space::State, keys::cursor(row.number, partition));
        }
        for key in self.staging.keys_with_prefix(&keys::retries(row.number))? {
            self.staging.remove(Space::State, key);
        }
        Ok(())
    }

    pub(super) fn delete_group(&mut self, key: &[u8]) -> Result<(), StoreError> {
        if let Some(row) = self.staging.row(Space::State, key, GroupRow::decode)? {
            self.clear_group(&row)?;
            self.staging.remove(Space::State, key.to_vec());
        }
        Ok(())
    }
}
