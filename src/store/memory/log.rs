//! One topic's log in memory: events in seq order, and what finds them by id, key and time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::domain::{Event, NewEvent, Retention, TopicName};
use crate::store::TopicState;
use crate::store::placing::{LogEnd, is_expired};

/// An event with the highest `ts` of all that came up to it: what a search by time halves.
struct Entry {
    event: Arc<Event>,
    ts_max: u64,
}

/// The kept events of a topic.
pub(super) struct Log {
    end: LogEnd,
    ts_max: u64,
    entries: VecDeque<Entry>,
    bytes: u64,
    seqs_by_id: HashMap<Box<str>, u64>,
    newest_by_key: HashMap<Box<str>, u64>,
    /// The kept seqs of each partition.
    seqs_by_partition: Vec<VecDeque<u64>>,
}

impl Log {
    pub fn new(partitions: u32) -> Log {
        let end = LogEnd::new(partitions);
        Log {
            ts_max: 0,
            entries: VecDeque::new(),
            bytes: 0,
            seqs_by_id: HashMap::new(),
            newest_by_key: HashMap::new(),
            seqs_by_partition: vec![VecDeque::new(); end.ordinals.len()],
            end,
        }
    }

    pub fn push(&mut self, topic: &TopicName, new: &NewEvent, now_ms: u64) -> Arc<Event> {
        let event = Arc::new(self.end.place(topic, new, now_ms));
        self.ts_max = self.ts_max.max(event.ts);
        self.bytes += event.json.len() as u64;
        self.seqs_by_id.insert(event.id.clone(), event.seq);
        if let Some(key) = &event.key {
            self.newest_by_key.insert(key.clone(), event.seq);
        }
        if let Some(seqs) = self.seqs_by_partition.get_mut(event.partition as usize) {
            seqs.push_back(event.seq);
        }
        self.entries.push_back(Entry {
            event: Arc::clone(&event),
            ts_max: self.ts_max,
        });
        event
    }

    /// The lowest kept seq; the tail + 1 where none is.
    pub fn first(&self) -> u64 {
        self.end.tail + 1 - self.entries.len() as u64
    }

    pub fn state(&self) -> TopicState {
        TopicState {
            partitions: self.end.partitions(),
            first: self.first(),
            tail: self.end.tail,
            events: self.entries.len() as u64,
            bytes: self.bytes,
            ordinals: self.end.ordinals.clone(),
        }
    }

    pub fn get(&self, seq: u64) -> Option<Arc<Event>> {
        let index = seq.checked_sub(self.first())?;
        self.entries.get(index as usize).map(|entry| Arc::clone(&entry.event))
    }

    pub fn seq_of_id(&self, id: &str) -> Option<u64> {
        self.seqs_by_id.get(id).copied()
    }

    pub fn by_id(&self, id: &str) -> Option<Arc<Event>> {
        self.get(self.seq_of_id(id)?)
    }

    pub fn newest_by_key(&self, key: &str) -> Option<Arc<Event>> {
        self.get(*self.newest_by_key.get(key)?)
    }

    pub fn read(&self, from_seq: u64, max_events: usize, max_bytes: usize) -> Vec<Arc<Event>> {
        let skipped = from_seq.saturating_sub(self.first()).min(self.entries.len() as u64);
        let mut found = Vec::new();
        let mut bytes = 0;
        for entry in self.entries.range(skipped as usize..).take(max_events) {
            bytes += entry.event.json.len();
            found.push(Arc::clone(&entry.event));
            if bytes >= max_bytes {
                break;
            }
        }
        found
    }

    pub fn seq_at_ts(&self, ts: u64) -> u64 {
        // Before this place no event, kept or not, has such a `ts`; the one it is due to may be gone by now.
        let start = self.entries.partition_point(|entry| entry.ts_max < ts);
        self.entries
            .range(start..)
            .find(|entry| entry.event.ts >= ts)
            .map_or(self.end.tail + 1, |entry| entry.event.seq)
    }

    pub fn ordinals_at(&self, seq: u64) -> Vec<u64> {
        let newest = self.end.ordinals.iter().zip(&self.seqs_by_partition);
        newest
            .map(|(ordinal, seqs)| {
                let later = seqs.len() - seqs.partition_point(|&kept| kept <= seq);
                ordinal - later as u64
            })
            .collect()
    }

    /// Removes what is kept no longer; gives how many events went.
    pub fn trim(&mut self, retention: &Retention, now_ms: u64) -> u64 {
        let before = self.entries.len();
        while self.oldest_is_over(retention, now_ms) {
            self.pop();
        }
        (before - self.entries.len()) as u64
    }

    fn oldest_is_over(&self, retention: &Retention, now_ms: u64) -> bool {
        let Some(oldest) = self.entries.front() else {
            return false;
        };
        let too_old = |age_ms| is_expired(oldest.event.at, age_ms, now_ms);
        retention.age_ms.is_some_and(too_old)
            || retention.count.is_some_and(|count| self.entries.len() as u64 > count)
            || retention.bytes.is_some_and(|bytes| self.bytes > bytes)
    }

    fn pop(&mut self) {
        let Some(Entry { event, .. }) = self.entries.pop_front() else {
            return;
        };
        self.bytes -= event.json.len() as u64;
        self.seqs_by_id.remove(&event.id);
        if let Some(key) = &event.key
            && self.newest_by_key.get(key) == Some(&event.seq)
        {
            self.newest_by_key.remove(key);
        }
        if let Some(seqs) = self.seqs_by_partition.get_mut(event.partition as usize) {
            seqs.pop_front();
        }
    }
}
