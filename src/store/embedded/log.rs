//! Looking things up in one topic's log, in whatever [`Rows`] holds it: the writer and the readers search alike.
//!
//! A row that must be there and is not is [`StoreError::Corrupt`], never a shorter answer. (A reader may also meet that
//! when retention removed the row under its hands; it then looks again.)

use super::keys::{self, BLOCK, Space};
use super::rows::{BlockRow, EventRow, Rows, TopicRow};
use crate::domain::Retention;
use crate::store::StoreError;
use crate::store::placing::is_expired;

/// A topic by its name.
pub(super) fn topic(rows: &impl Rows, name: &str) -> Result<Option<TopicRow>, StoreError> {
    rows.row(Space::State, &keys::topic(name), TopicRow::decode)
}

/// An event that the topic keeps.
pub(super) fn event(rows: &impl Rows, topic: &TopicRow, seq: u64) -> Result<EventRow, StoreError> {
    let key = keys::event(topic.number, seq);
    let row = rows.row(Space::Events, &key, |decoder| EventRow::decode(seq, decoder))?;
    row.ok_or_else(|| missing_event(topic, seq))
}

/// The error for a kept event that is not there.
pub(super) fn missing_event(topic: &TopicRow, seq: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "the event {seq} of the topic number {} is missing, which keeps {} to {}",
        topic.number, topic.first, topic.end.tail
    ))
}

fn kept_seq(rows: &impl Rows, topic: &TopicRow, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let seq = rows.row(Space::Index, key, |decoder| decoder.u64())?;
    Ok(seq.filter(|seq| topic.keeps(*seq)))
}

/// The seq of a kept event's id.
pub(super) fn seq_of_id(rows: &impl Rows, topic: &TopicRow, id: &str) -> Result<Option<u64>, StoreError> {
    kept_seq(rows, topic, &keys::id(topic.number, id))
}

/// The seq of a key's newest event, where it is kept.
pub(super) fn newest_of_key(rows: &impl Rows, topic: &TopicRow, key: &str) -> Result<Option<u64>, StoreError> {
    kept_seq(rows, topic, &keys::newest(topic.number, key))
}

fn block(rows: &impl Rows, topic: &TopicRow, block: u64) -> Result<BlockRow, StoreError> {
    let row = rows.row(Space::Index, &keys::block(topic.number, block), BlockRow::decode)?;
    row.ok_or_else(|| {
        StoreError::Corrupt(format!(
            "the row of block {block} of the topic number {} is missing",
            topic.number
        ))
    })
}

/// See [`crate::store::Store::ordinals_at`]: from the end of the block before, forward.
pub(super) fn ordinals_at(rows: &impl Rows, topic: &TopicRow, seq: u64) -> Result<Vec<u64>, StoreError> {
    if seq >= topic.end.tail {
        return Ok(topic.end.ordinals.clone());
    }
    if seq < topic.first {
        return Ok(topic.first_ordinals.clone());
    }
    let block_start = seq - seq % BLOCK;
    let (mut ordinals, from) = if block_start >= topic.first {
        (block(rows, topic, block_start / BLOCK - 1)?.ordinals, block_start + 1)
    } else {
        (topic.first_ordinals.clone(), topic.first)
    };
    for seq in from..=seq {
        let event = event(rows, topic, seq)?.event;
        if let Some(ordinal) = ordinals.get_mut(event.partition as usize) {
            *ordinal = event.ordinal;
        }
    }
    Ok(ordinals)
}

/// See [`crate::store::Store::seq_at_ts`]: the first block that can have such an event, then the event.
pub(super) fn seq_at_ts(rows: &impl Rows, topic: &TopicRow, ts: u64) -> Result<u64, StoreError> {
    let none = topic.end.tail + 1;
    if ts > topic.ts_max || topic.first > topic.end.tail {
        return Ok(none);
    }
    let finished = topic.end.tail / BLOCK;
    // Below this block no event, kept or not, has such a `ts`; the one it is due to may be gone by now.
    let start = first_where((topic.first - 1) / BLOCK, finished, |at| {
        Ok(block(rows, topic, at)?.ts_max >= ts)
    })?;
    for at in start..=finished {
        let ts_max = if at == finished {
            topic.block_ts_max
        } else {
            block(rows, topic, at)?.block_ts_max
        };
        if ts_max < ts {
            continue;
        }
        let seqs = (at * BLOCK + 1).max(topic.first)..=((at + 1) * BLOCK).min(topic.end.tail);
        for seq in seqs {
            let row = event(rows, topic, seq)?;
            if row.event.ts >= ts && !row.is_lost() {
                return Ok(seq);
            }
        }
    }
    Ok(none)
}

/// The first seq that the topic still keeps by this retention; never below what it keeps now.
pub(super) fn trim_point(
    rows: &impl Rows,
    topic: &TopicRow,
    retention: &Retention,
    now_ms: u64,
) -> Result<u64, StoreError> {
    let end = topic.end.tail + 1;
    let mut first = topic.first;
    if let Some(count) = retention.count {
        first = first.max(end.saturating_sub(count));
    }
    if let Some(age_ms) = retention.age_ms {
        first = first_where(first, end, |seq| {
            Ok(!is_expired(event(rows, topic, seq)?.event.at, age_ms, now_ms))
        })?;
    }
    if let Some(bytes) = retention.bytes {
        let too_many = topic.bytes_through.saturating_sub(bytes);
        first = first_where(first, end, |seq| {
            let event = event(rows, topic, seq)?;
            Ok(event.bytes_through.saturating_sub(event.event.json.len() as u64) >= too_many)
        })?;
    }
    Ok(first)
}

/// The first place in `low..high` for which a condition holds that holds for all after it; `high` where it never does.
/// The lowest is asked first: mostly there is nothing to do.
fn first_where(
    mut low: u64,
    mut high: u64,
    mut holds: impl FnMut(u64) -> Result<bool, StoreError>,
) -> Result<u64, StoreError> {
    if low >= high || holds(low)? {
        return Ok(low);
    }
    low += 1;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}
