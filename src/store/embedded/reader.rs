//! Reading: each answer is gathered from one snapshot of the database, which the writer never waits for.

use std::sync::Arc;

use fjall::{Database, Iter, Readable, Slice, Snapshot};

use super::codec::Decoder;
use super::keys::{self, Space};
use super::log;
use super::open::decode_topic;
use super::rows::{EventRow, GroupRow, Rows, TopicRow, damaged, decode_cursor, decode_retry};
use super::staging::{Spaces, read_failed};
use crate::domain::{Event, GroupName, TopicName};
use crate::store::{GroupState, LineRange, Lines, StoreError, TopicState};

/// The database as it was at one moment.
pub(super) struct View {
    snapshot: Snapshot,
    spaces: Spaces,
}

impl Rows for View {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        self.snapshot.get(self.spaces.of(space), key).map_err(read_failed)
    }
}

impl View {
    pub fn new(database: &Database, spaces: &Spaces) -> View {
        View {
            snapshot: database.snapshot(),
            spaces: spaces.clone(),
        }
    }

    pub fn prefix(&self, space: Space, prefix: &[u8]) -> Iter {
        self.snapshot.prefix(self.spaces.of(space), prefix)
    }

    pub fn topics(&self) -> Result<Vec<(TopicName, TopicState)>, StoreError> {
        let rows = self.prefix(Space::State, keys::TOPICS);
        rows.map(|row| {
            let (key, value) = row.into_inner().map_err(read_failed)?;
            let (name, row) = decode_topic(&key, &value)?;
            Ok((name, row.state()))
        })
        .collect()
    }

    /// Kept events from a seq on.
    pub fn read(
        &self,
        topic: &TopicRow,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let mut next = from_seq.max(topic.first);
        let mut events = Vec::new();
        let mut bytes = 0;
        if next > topic.end.tail || max_events == 0 {
            return Ok(events);
        }
        let range = keys::event(topic.number, next)..=keys::event(topic.number, topic.end.tail);
        for row in self.snapshot.range(self.spaces.of(Space::Events), range) {
            let (key, value) = row.into_inner().map_err(read_failed)?;
            let seq = keys::seq_of_event(&key).ok_or_else(|| damaged(Space::Events, &key))?;
            if seq != next {
                return Err(log::missing_event(topic, next));
            }
            let row = Decoder::whole(&key, &value, |decoder| EventRow::decode(seq, decoder));
            let row = row.ok_or_else(|| damaged(Space::Events, &key))?;
            if !row.is_lost() {
                bytes += row.event.json.len();
                events.push(Arc::new(row.event));
            }
            if events.len() == max_events || bytes >= max_bytes || seq == topic.end.tail {
                return Ok(events);
            }
            next += 1;
        }
        Err(log::missing_event(topic, next))
    }

    /// The JSON of kept events, copied from the rows without anything in between.
    pub fn read_lines(&self, topic: &TopicRow, range: &LineRange) -> Result<Lines, StoreError> {
        let mut next = (*range.seqs.start()).max(topic.first);
        let last = topic.end.tail.min(*range.seqs.end());
        let mut lines = Lines::default();
        if next > last {
            return Ok(lines);
        }
        lines.json.reserve(range.max_bytes + range.max_bytes / 16);
        let keys = keys::event(topic.number, next)..=keys::event(topic.number, last);
        let mut looked_at = 0;
        for row in self.snapshot.range(self.spaces.of(Space::Events), keys) {
            let (key, value) = row.into_inner().map_err(read_failed)?;
            let seq = keys::seq_of_event(&key).ok_or_else(|| damaged(Space::Events, &key))?;
            if seq != next {
                return Err(log::missing_event(topic, next));
            }
            let whole = Decoder::whole(&key, &value, |decoder| {
                Some(match EventRow::decode_json(decoder)? {
                    Some((ts, json)) => lines.push(range, seq, ts, json),
                    None => lines.skip(seq),
                })
            });
            let go_on = whole.ok_or_else(|| damaged(Space::Events, &key))?;
            looked_at += 1;
            if !go_on || looked_at >= range.max_events || seq == last {
                return Ok(lines);
            }
            next += 1;
        }
        Err(log::missing_event(topic, next))
    }

    pub fn read_seqs(&self, topic: &TopicRow, seqs: &[u64]) -> Result<Vec<Arc<Event>>, StoreError> {
        let kept = seqs.iter().filter(|seq| topic.keeps(**seq));
        let mut events = Vec::new();
        for seq in kept {
            let row = log::event(self, topic, *seq)?;
            if !row.is_lost() {
                events.push(Arc::new(row.event));
            }
        }
        Ok(events)
    }

    pub fn groups(&self, topic: &TopicName) -> Result<Vec<GroupName>, StoreError> {
        let prefix = keys::groups(topic.as_str());
        self.prefix(Space::State, &prefix)
            .map(|row| {
                let key = row.key().map_err(read_failed)?;
                let name = key
                    .get(prefix.len()..)
                    .and_then(|name| std::str::from_utf8(name).ok()?.parse().ok());
                name.ok_or_else(|| damaged(Space::State, &key))
            })
            .collect()
    }

    pub fn group_row(&self, topic: &TopicName, group: &GroupName) -> Result<Option<GroupRow>, StoreError> {
        let key = keys::group(topic.as_str(), group.as_str());
        self.row(Space::State, &key, GroupRow::decode)
    }

    pub fn group(&self, topic: &TopicName, group: &GroupName) -> Result<Option<GroupState>, StoreError> {
        let Some(row) = self.group_row(topic, group)? else {
            return Ok(None);
        };
        let mut cursors = Vec::new();
        for partition in 0..row.partitions {
            let key = keys::cursor(row.number, partition);
            cursors.push(self.row(Space::State, &key, decode_cursor)?.unwrap_or_default());
        }
        let mut retries = Vec::new();
        for retry in self.prefix(Space::State, &keys::retries(row.number)) {
            let (key, value) = retry.into_inner().map_err(read_failed)?;
            let retry = Decoder::whole(&key, &value, |decoder| decode_retry(&key, decoder));
            retries.push(retry.ok_or_else(|| damaged(Space::State, &key))?);
        }
        Ok(Some(GroupState {
            settings: row.settings,
            paused: row.paused,
            epoch: row.epoch,
            seeks: row.seeks,
            cursors,
            retries,
        }))
    }

    pub fn seen(&self, topic: &TopicName, group: &GroupName, id: &str, now_ms: u64) -> Result<bool, StoreError> {
        let Some(row) = self.group_row(topic, group)? else {
            return Ok(false);
        };
        let key = keys::mark(row.number, id);
        let until_ms = self.row(Space::Marks, &key, |decoder| decoder.u64())?;
        Ok(until_ms.is_some_and(|until_ms| until_ms > now_ms))
    }
}
