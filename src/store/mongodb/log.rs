//! Looking things up in one topic's log.
//!
//! What is kept is said by the topic's document; its events are in the collection for a while after retention removed them,
//! and what is found below the topic's `first` is left out. A kept event that is missing (a person's hand, an index that
//! ends events by itself) is passed over.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mongodb::bson::{Document, RawBsonRef, doc};
use mongodb::error::Error;
use mongodb::options::Hint;

use super::database::{COMMAND_TIME_MAX, Database, unavailable};
use super::event_row::{BLOCK, EventRow, number, numbers};
use super::keys;
use super::topic_row::TopicRow;
use crate::domain::{Event, Retention, TopicName};
use crate::store::StoreError;
use crate::store::placing::is_expired;

/// The most events that are asked for in one answer of the server's; it ends an answer at 16 MiB by itself.
const ANSWER_EVENTS_MAX: usize = 4_096;

fn failed(error: Error) -> StoreError {
    unavailable(&error)
}

fn from_seq(topic: &TopicName, seq: u64) -> Document {
    doc! { "topic": topic.as_str(), "seq": { "$gte": keys::clamped(seq) } }
}

impl Database {
    /// A topic, also one that is being removed.
    pub async fn topic_row(&self, topic: &TopicName) -> Result<Option<TopicRow>, StoreError> {
        let found = self.topics.find_one(doc! { "_id": topic.as_str() });
        let found = found.max_time(COMMAND_TIME_MAX).await.map_err(failed)?;
        let Some(found) = found else {
            return Ok(None);
        };
        Ok(Some(TopicRow::decode(&found)?.1))
    }

    /// A topic that is there.
    pub async fn topic(&self, topic: &TopicName) -> Result<Option<TopicRow>, StoreError> {
        Ok(self.topic_row(topic).await?.filter(|row| !row.removing))
    }

    /// A topic as it is after everything that was ever acknowledged: the server answers when a majority has confirmed that
    /// it is the primary. What is read after this misses nothing.
    async fn topic_for_sure(&self, topic: &TopicName) -> Result<Option<TopicRow>, StoreError> {
        let command = doc! {
            "find": keys::TOPICS,
            "filter": { "_id": topic.as_str() },
            "singleBatch": true,
            "limit": 1,
            "readConcern": { "level": "linearizable" },
            "maxTimeMS": COMMAND_TIME_MAX.as_millis() as i64,
        };
        let mut cursor = self.all.run_cursor_command(command).await.map_err(failed)?;
        if !cursor.advance().await.map_err(failed)? {
            return Ok(None);
        }
        let row = TopicRow::decode(cursor.current())?.1;
        Ok(Some(row).filter(|row| !row.removing))
    }

    pub async fn read(
        &self,
        topic: &TopicName,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let found = self.read_what_shows(topic, from, max_events, max_bytes).await?;
        if !found.is_empty() || max_events == 0 {
            return Ok(found);
        }
        match self.topic_for_sure(topic).await? {
            Some(row) if row.end.tail >= from => self.read_what_shows(topic, from, max_events, max_bytes).await,
            _ => Ok(found),
        }
    }

    async fn read_what_shows(
        &self,
        topic: &TopicName,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        if max_events == 0 {
            return Ok(Vec::new());
        }
        // Both at once; events of a topic that is gone by now are those of a reader who came before.
        let (row, mut cursor) = tokio::try_join!(self.topic(topic), async {
            let batch = max_events.min(ANSWER_EVENTS_MAX);
            let find = self.events.find(from_seq(topic, from)).sort(doc! { "seq": 1 });
            let find = find
                .limit(i64::try_from(max_events).unwrap_or(0))
                .batch_size(batch as u32);
            find.max_time(COMMAND_TIME_MAX).await.map_err(failed)
        })?;
        let Some(row) = row else {
            return Ok(Vec::new());
        };
        if from < row.first && row.swept < row.first {
            // The first ones may be those that are gone but still there.
            let first = row.first;
            return Box::pin(self.read_what_shows(topic, first, max_events, max_bytes)).await;
        }
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes.max(1) && events.len() < max_events && cursor.advance().await.map_err(failed)? {
            let event = EventRow::decode(topic, cursor.current())?.event;
            if event.seq >= row.first {
                bytes += event.json.len();
                events.push(Arc::new(event));
            }
        }
        Ok(events)
    }

    pub async fn read_seqs(&self, topic: &TopicName, seqs: &[u64]) -> Result<Vec<Arc<Event>>, StoreError> {
        if let Some(row) = self.topic(topic).await? {
            let found = self.read_seqs_kept_by(&row, topic, seqs).await?;
            if found.len() == seqs.iter().filter(|seq| **seq >= row.first).count() {
                return Ok(found);
            }
        }
        match self.topic_for_sure(topic).await? {
            Some(row) => self.read_seqs_kept_by(&row, topic, seqs).await,
            None => Ok(Vec::new()),
        }
    }

    async fn read_seqs_kept_by(
        &self,
        row: &TopicRow,
        topic: &TopicName,
        seqs: &[u64],
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let kept: Vec<i64> = seqs
            .iter()
            .filter(|seq| row.keeps(**seq))
            .map(|seq| keys::signed(*seq))
            .collect();
        let filter = doc! { "topic": topic.as_str(), "seq": { "$in": kept } };
        let mut cursor = self
            .events
            .find(filter)
            .max_time(COMMAND_TIME_MAX)
            .await
            .map_err(failed)?;
        let mut found = std::collections::HashMap::new();
        while cursor.advance().await.map_err(failed)? {
            let event = EventRow::decode(topic, cursor.current())?.event;
            found.insert(event.seq, Arc::new(event));
        }
        Ok(seqs.iter().filter_map(|seq| found.get(seq).cloned()).collect())
    }

    pub async fn seqs_of_ids(&self, topic: &TopicName, ids: &[Box<str>]) -> Result<Vec<Option<u64>>, StoreError> {
        if let Some(row) = self.topic(topic).await? {
            let found = self.seqs_of_ids_kept_by(&row, topic, ids).await?;
            if !found.contains(&None) {
                return Ok(found);
            }
        }
        match self.topic_for_sure(topic).await? {
            Some(row) => self.seqs_of_ids_kept_by(&row, topic, ids).await,
            None => Ok(vec![None; ids.len()]),
        }
    }

    async fn seqs_of_ids_kept_by(
        &self,
        row: &TopicRow,
        topic: &TopicName,
        ids: &[Box<str>],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let asked: Vec<String> = ids.iter().map(|id| keys::event(topic, id)).collect();
        let find = self.events.find(doc! { "_id": { "$in": asked } });
        let find = find
            .projection(doc! { "_id": 0, "id": 1, "seq": 1 })
            .max_time(COMMAND_TIME_MAX);
        let mut cursor = find.await.map_err(failed)?;
        let mut seqs = std::collections::HashMap::new();
        while cursor.advance().await.map_err(failed)? {
            let found = cursor.current();
            if let (Ok(id), Some(seq)) = (found.get_str("id"), seq_in(found.get("seq"))) {
                seqs.insert(Box::<str>::from(id), seq);
            }
        }
        let kept = ids.iter().map(|id| seqs.get(id).copied().filter(|seq| row.keeps(*seq)));
        Ok(kept.collect())
    }

    pub async fn newest_by_key(&self, topic: &TopicName, key: &str) -> Result<Option<Arc<Event>>, StoreError> {
        let Some(row) = self.topic(topic).await? else {
            return Ok(None);
        };
        let filter = doc! { "topic": topic.as_str(), "key": key };
        let find = self
            .events
            .find_one(filter)
            .sort(doc! { "seq": -1 })
            .max_time(COMMAND_TIME_MAX);
        let Some(found) = find.await.map_err(failed)? else {
            return Ok(None);
        };
        let event = EventRow::decode(topic, &found)?.event;
        Ok((event.seq >= row.first).then(|| Arc::new(event)))
    }

    /// The first event in the collection from a seq on.
    pub async fn event_from(&self, topic: &TopicName, seq: u64) -> Result<Option<EventRow>, StoreError> {
        let find = self.events.find_one(from_seq(topic, seq)).sort(doc! { "seq": 1 });
        match find.max_time(COMMAND_TIME_MAX).await.map_err(failed)? {
            Some(found) => Ok(Some(EventRow::decode(topic, &found)?)),
            None => Ok(None),
        }
    }

    /// See [`crate::store::Store::seq_at_ts`]: halving finds where the highest `ts` so far reaches it; the event that it is
    /// due to may be gone by now, so the first that has it is searched for from there.
    pub async fn seq_at_ts(&self, topic: &TopicName, row: &TopicRow, ts: u64) -> Result<u64, StoreError> {
        let none = row.end.tail + 1;
        if ts > row.ts_max {
            return Ok(none);
        }
        let reaches = |seq| -> BoxFuture<'_, _> {
            Box::pin(async move { Ok(self.event_from(topic, seq).await?.is_none_or(|row| row.ts_max >= ts)) })
        };
        let start = first_where(row.first, none, reaches).await?;
        let mut filter = from_seq(topic, start);
        filter.insert("ts", doc! { "$gte": keys::clamped(ts) });
        // By the index over seqs: the one over times would have to sort all that came since.
        let find = self
            .events
            .find_one(filter)
            .sort(doc! { "seq": 1 })
            .hint(Hint::Keys(super::indexes::by_seq()));
        let find = find.projection(doc! { "_id": 0, "seq": 1 }).max_time(COMMAND_TIME_MAX);
        let found = find.await.map_err(failed)?;
        Ok(found.and_then(|found| seq_in(found.get("seq"))).unwrap_or(none))
    }

    /// See [`crate::store::Store::ordinals_at`]: a partition's next event has the ordinal after the one asked for; who has
    /// none up to the end of the block has the block's.
    pub async fn ordinals_at(&self, topic: &TopicName, row: &TopicRow, seq: u64) -> Result<Vec<u64>, StoreError> {
        if seq >= row.end.tail {
            return Ok(row.end.ordinals.clone());
        }
        if seq < row.first {
            return Ok(row.first_ordinals.clone());
        }
        let find = self.events.find(from_seq(topic, seq + 1)).sort(doc! { "seq": 1 });
        let fields = doc! { "_id": 0, "seq": 1, "partition": 1, "ordinal": 1, "ordinals": 1 };
        let find = find
            .projection(fields)
            .batch_size(BLOCK as u32)
            .max_time(COMMAND_TIME_MAX);
        let mut cursor = find.await.map_err(failed)?;
        let mut ordinals: Vec<Option<u64>> = vec![None; row.end.ordinals.len()];
        let mut ends = row.end.ordinals.clone();
        while ordinals.contains(&None) && cursor.advance().await.map_err(failed)? {
            let found = cursor.current();
            let read = |name| found.get(name).ok().flatten().and_then(number);
            let (partition, ordinal) = (read("partition").unwrap_or(0) as usize, read("ordinal").unwrap_or(1));
            if let Some(place @ None) = ordinals.get_mut(partition) {
                *place = Some(ordinal.saturating_sub(1));
            }
            if let Some(block) = found.get("ordinals").ok().flatten().and_then(numbers) {
                ends = block;
                break;
            }
        }
        let all = ordinals.into_iter().zip(ends);
        Ok(all.map(|(found, end)| found.unwrap_or(end)).collect())
    }

    /// The first seq that the topic still keeps by this retention; never below what it keeps now.
    pub async fn trim_point(
        &self,
        topic: &TopicName,
        row: &TopicRow,
        retention: &Retention,
        now_ms: u64,
    ) -> Result<u64, StoreError> {
        let end = row.end.tail + 1;
        let mut first = row.first;
        if let Some(count) = retention.count {
            first = first.max(end.saturating_sub(count));
        }
        if let Some(age_ms) = retention.age_ms {
            let young = |seq| -> BoxFuture<'_, _> {
                Box::pin(async move {
                    let event = self.event_from(topic, seq).await?;
                    Ok(event.is_none_or(|row| !is_expired(row.event.at, age_ms, now_ms)))
                })
            };
            first = first_where(first, end, young).await?;
        }
        if let Some(bytes) = retention.bytes {
            let fits = |seq| -> BoxFuture<'_, _> {
                Box::pin(async move {
                    let (first, bytes_before) = match self.event_from(topic, seq).await? {
                        Some(event) => (event.event.seq, event.bytes_before()),
                        None => (end, row.bytes),
                    };
                    let kept = TopicRow {
                        first,
                        bytes_before,
                        ..row.clone()
                    };
                    Ok(kept.state().bytes <= bytes)
                })
            };
            first = first_where(first, end, fits).await?;
        }
        Ok(first)
    }
}

fn seq_in(value: Result<Option<RawBsonRef<'_>>, mongodb::bson::error::Error>) -> Option<u64> {
    number(value.ok()??)
}

/// The first place in `low..high` for which a condition holds that holds for all after it; `high` where it never does.
/// The lowest is asked first: mostly there is nothing to do.
async fn first_where<'a>(
    mut low: u64,
    mut high: u64,
    holds: impl Fn(u64) -> BoxFuture<'a, Result<bool, StoreError>> + Send,
) -> Result<u64, StoreError> {
    if low >= high || holds(low).await? {
        return Ok(low);
    }
    low += 1;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle).await? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}
