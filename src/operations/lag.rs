//! How far a group is, by its cursors alone: how many events it has not acked, and which is the oldest of them.
//!
//! Every event has an ordinal in its partition, and a cursor says how many of the partition's events it covers: so the lag
//! is a subtraction, however long the log. What retention took is not counted.

use std::sync::Arc;

use crate::actors::start::within_deadline;
use crate::domain::{Event, PartitionCursor, TopicName};
use crate::protocol::Failure;
use crate::store::{Store, TopicState};

/// How many events are looked at one by one before the search by ordinals begins.
const GLANCE: usize = 64;
const GLANCE_BYTES: usize = 256 << 10;

/// How far a group is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// How many events up to the tail are not acked.
    pub lag: u64,
    /// The oldest of them.
    pub oldest: Option<Arc<Event>>,
    /// The highest seq up to which all is acked.
    pub floor: u64,
}

/// Where these cursors are in a topic. Reads few events, however many there are.
pub async fn place_of(
    store: &dyn Store,
    topic: &TopicName,
    state: &TopicState,
    cursors: &[PartitionCursor],
) -> Result<Place, Failure> {
    let below = match state.first {
        0 | 1 => vec![0; state.ordinals.len()],
        first => within_deadline(store.ordinals_at(topic, first - 1)).await?,
    };
    let search = Search {
        store,
        topic,
        state,
        below,
    };
    let (mut lag, mut behind) = (0_u64, Vec::new());
    for partition in 0..state.ordinals.len() {
        let cursor = cursors.get(partition).cloned().unwrap_or_default();
        let cursor = search.without_removed(partition, cursor).await?;
        let newest = state.ordinals.get(partition).copied().unwrap_or(0);
        let acked = cursor.floor_ordinal.saturating_add(cursor.acked_count);
        // Where the log lost its last events a cursor can stand at the tail without having counted them.
        let unacked = match cursor.floor >= state.tail {
            true => 0,
            false => newest.saturating_sub(acked),
        };
        if unacked > 0 {
            lag = lag.saturating_add(unacked);
            behind.push((partition, cursor));
        }
    }
    let oldest = match behind.is_empty() {
        true => None,
        false => search.oldest(behind).await?,
    };
    let floor = oldest.as_ref().map_or(state.tail, |event| event.seq.saturating_sub(1));
    Ok(Place { lag, oldest, floor })
}

struct Search<'a> {
    store: &'a dyn Store,
    topic: &'a TopicName,
    state: &'a TopicState,
    /// Each partition's newest ordinal below the lowest seq that is kept.
    below: Vec<u64>,
}

impl Search<'_> {
    /// The cursor as it would be had the group acked what retention took.
    async fn without_removed(&self, partition: usize, cursor: PartitionCursor) -> Result<PartitionCursor, Failure> {
        let below = self.below.get(partition).copied().unwrap_or(0);
        let first = self.state.first;
        if cursor.floor_ordinal >= below && cursor.floor.saturating_add(1) >= first {
            return Ok(cursor);
        }
        let mut kept = PartitionCursor {
            floor: cursor.floor.max(first.saturating_sub(1)),
            floor_ordinal: cursor.floor_ordinal.max(below),
            acked_count: cursor.acked_count,
            acked: Vec::new(),
        };
        let is_cut = cursor.acked.first().is_some_and(|range| range.first < first);
        for mut range in cursor.acked.into_iter().filter(|range| range.last >= first) {
            range.first = range.first.max(first);
            kept.acked.push(range);
        }
        // Where no range is cut, all that they cover is kept.
        if is_cut {
            kept.acked_count = 0;
            for range in &kept.acked {
                let (from, to) = (
                    self.ordinal(partition, range.first - 1).await?,
                    self.ordinal(partition, range.last).await?,
                );
                kept.acked_count = kept.acked_count.saturating_add(to.saturating_sub(from));
            }
        }
        Ok(kept)
    }

    async fn ordinal(&self, partition: usize, seq: u64) -> Result<u64, Failure> {
        let ordinals = within_deadline(self.store.ordinals_at(self.topic, seq)).await?;
        Ok(ordinals.get(partition).copied().unwrap_or(0))
    }

    /// The oldest event that is not acked, of partitions that have one.
    async fn oldest(&self, behind: Vec<(usize, PartitionCursor)>) -> Result<Option<Arc<Event>>, Failure> {
        let lowest = behind.iter().map(|(_, cursor)| cursor.floor).min().unwrap_or(0);
        let from = lowest.saturating_add(1).max(self.state.first);
        let events = within_deadline(self.store.read(self.topic, from, GLANCE, GLANCE_BYTES)).await?;
        let is_unacked = |event: &Event| {
            let cursor = behind
                .iter()
                .find(|(partition, _)| *partition == event.partition as usize);
            cursor.is_some_and(|(_, cursor)| !cursor.is_acked(event.seq))
        };
        if let Some(found) = events.into_iter().find(|event| is_unacked(event)) {
            return Ok(Some(found));
        }
        let mut lowest_seq = u64::MAX;
        for (partition, cursor) in &behind {
            if cursor.floor.saturating_add(1) < lowest_seq
                && let Some(seq) = self.first_unacked(*partition, cursor).await?
            {
                lowest_seq = lowest_seq.min(seq);
            }
        }
        if lowest_seq == u64::MAX {
            return Ok(None);
        }
        let found = within_deadline(self.store.read(self.topic, lowest_seq, 1, usize::MAX)).await?;
        Ok(found.into_iter().next())
    }

    /// The first event of a partition that its cursor does not cover: found by ordinals, in a few steps.
    async fn first_unacked(&self, partition: usize, cursor: &PartitionCursor) -> Result<Option<u64>, Failure> {
        let (mut after, mut ordinal) = (cursor.floor, cursor.floor_ordinal);
        loop {
            let Some(seq) = self.next_of(partition, after, ordinal).await? else {
                return Ok(None);
            };
            let covering = cursor
                .acked
                .iter()
                .find(|range| range.first <= seq && seq <= range.last);
            match covering {
                None => return Ok(Some(seq)),
                Some(range) => {
                    after = range.last;
                    ordinal = self.ordinal(partition, after).await?;
                }
            }
        }
    }

    /// The lowest seq above `after` at which the partition has more than `ordinal` events.
    async fn next_of(&self, partition: usize, after: u64, ordinal: u64) -> Result<Option<u64>, Failure> {
        let (mut low, mut high) = (after, self.state.tail);
        if self.state.ordinals.get(partition).copied().unwrap_or(0) <= ordinal || low >= high {
            return Ok(None);
        }
        // At `low` it has not more, at `high` it has.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.ordinal(partition, middle).await? > ordinal {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(Some(high))
    }
}
