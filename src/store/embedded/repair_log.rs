//! One topic's log while a repair makes it anew: events as they were, rows for those that are lost, and everything that
//! leads to them.

use fjall::Keyspace;

use super::folder::FolderError;
use super::keys::{self, BLOCK};
use super::repair::engine;
use super::rows::{BlockRow, EventRow, TopicRow, encode_number};
use super::survey::{SeqList, Survey};
use crate::domain::TopicName;

/// One topic's log, made anew.
pub(super) struct LogRepair<'a> {
    pub number: u32,
    name: String,
    index: &'a Keyspace,
    ordinals: Vec<u64>,
    bytes_through: u64,
    at: u64,
    commit: u64,
    ts_max: u64,
    block_ts_max: u64,
    lost: SeqList,
}

impl LogRepair<'_> {
    pub fn new<'a>(name: &TopicName, topic: &TopicRow, index: &'a Keyspace) -> LogRepair<'a> {
        LogRepair {
            number: topic.number,
            name: name.as_str().to_owned(),
            index,
            ordinals: topic.first_ordinals.clone(),
            bytes_through: topic.bytes_before,
            at: 0,
            commit: 0,
            ts_max: 0,
            block_ts_max: 0,
            lost: SeqList::default(),
        }
    }

    /// The row of a seq as it will be; what leads to it goes to the index.
    pub fn take(&mut self, survey: &Survey, seq: u64, row: Option<EventRow>) -> Result<EventRow, FolderError> {
        let row = match row {
            Some(row) if !row.is_lost() => row,
            was_lost => {
                if was_lost.is_none() {
                    self.lost.push(seq);
                }
                EventRow::lost(seq, self.at, self.commit, self.bytes_through)
            }
        };
        let event = &row.event;
        let put = |key: Vec<u8>, value: Vec<u8>| self.index.insert(key, value).map_err(engine(survey));
        if !row.is_lost() {
            let id = keys::id(self.number, &event.id);
            put(id.clone(), encode_number(&id, seq))?;
            if let Some(key) = &event.key {
                let newest = keys::newest(self.number, key);
                put(newest.clone(), encode_number(&newest, seq))?;
            }
            if let Some(ordinal) = self.ordinals.get_mut(event.partition as usize) {
                *ordinal = event.ordinal;
            }
            self.bytes_through = row.bytes_through;
            self.at = event.at;
            self.commit = row.commit;
            self.ts_max = self.ts_max.max(event.ts);
            self.block_ts_max = self.block_ts_max.max(event.ts);
        }
        if seq.is_multiple_of(BLOCK) {
            let block = BlockRow {
                ordinals: self.ordinals.clone(),
                ts_max: self.ts_max,
                block_ts_max: std::mem::take(&mut self.block_ts_max),
            };
            let key = keys::block(self.number, seq / BLOCK - 1);
            let value = block.encode(&key);
            self.index.insert(key, value).map_err(engine(survey))?;
        }
        Ok(row)
    }

    /// What the topic's row says from now on, and what was lost.
    pub fn finish(self, topic: &mut TopicRow) -> Option<String> {
        topic.bytes_through = topic.bytes_through.max(self.bytes_through);
        topic.ts_max = topic.ts_max.max(self.ts_max);
        topic.block_ts_max = self.block_ts_max;
        topic.end.at = topic.end.at.max(self.at);
        for (newest, found) in topic.end.ordinals.iter_mut().zip(&self.ordinals) {
            *newest = (*newest).max(*found);
        }
        (self.lost.count > 0).then(|| format!("topic {}: {} events: {}", self.name, self.lost.count, self.lost.text()))
    }
}
