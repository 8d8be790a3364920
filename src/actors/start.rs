//! Where a subscription begins: what `from` means for a topic as it is now.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use super::store::{COMMIT_DEADLINE, store_unavailable};
use super::topic::Tail;
use crate::domain::{Event, PartitionCursor, StartFrom, TopicName};
use crate::protocol::{ErrorCode, Failure};
use crate::store::{Store, StoreError};

/// Waits for a read of the store, within its deadline.
pub(crate) async fn within_deadline<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
    let late = |_| {
        let seconds = Duration::as_secs(&COMMIT_DEADLINE);
        Err(StoreError::Unavailable(format!("it has not answered for {seconds} s")))
    };
    let result = tokio::time::timeout(COMMIT_DEADLINE, read).await.unwrap_or_else(late);
    result.map_err(|error| store_unavailable(&error))
}

/// Reads the log from a seq on. The answer is what there is, and up to where nothing else is kept: below `from` where
/// nothing can be seen from there on yet.
pub(super) async fn read_log(
    store: Arc<dyn Store>,
    topic: TopicName,
    from: u64,
    max_events: usize,
    max_bytes: usize,
) -> Result<(Vec<Arc<Event>>, u64), StoreError> {
    let events = store.read(&topic, from, max_events, max_bytes).await?;
    if let Some(last) = events.last() {
        let upto = last.seq;
        return Ok((events, upto));
    }
    // Only what the store itself had given out before a look that finds nothing is gone for good.
    let tail = store.topic(&topic).await?.map_or(0, |state| state.tail);
    let events = store.read(&topic, from, max_events, max_bytes).await?;
    let upto = events.last().map_or(tail, |last| last.seq);
    Ok((events, upto))
}

/// The last seq that a subscription does not get.
pub(super) async fn start_seq(
    shared: Arc<Shared>,
    topic: TopicName,
    tail: Arc<Tail>,
    from: StartFrom,
) -> Result<u64, Failure> {
    let store = &shared.store;
    match from {
        // Others may have published what this gateway has not heard of yet.
        StartFrom::Latest if store.shares(&topic) => {
            let state = within_deadline(store.topic(&topic)).await?;
            Ok(state.map_or(0, |state| state.tail).max(tail.seq()))
        }
        StartFrom::Latest => Ok(tail.seq()),
        StartFrom::Earliest => {
            let state = within_deadline(store.topic(&topic)).await?;
            Ok(state.map_or(0, |state| state.first.saturating_sub(1)))
        }
        StartFrom::Ts(ts) => Ok(within_deadline(store.seq_at_ts(&topic, ts)).await?.saturating_sub(1)),
        StartFrom::AfterId(id) => seq_after_id(store.as_ref(), &topic, id).await,
    }
}

/// The seq of the event that `afterId` names.
pub(crate) async fn seq_after_id(store: &dyn Store, topic: &TopicName, id: Box<str>) -> Result<u64, Failure> {
    let found = within_deadline(store.seqs_of_ids(topic, vec![id.clone()])).await?;
    found.first().copied().flatten().ok_or_else(|| {
        let msg = format!("afterId: the topic has no event with the id {id:?}, or no longer");
        Failure::new(ErrorCode::UnknownId, msg)
    })
}

/// A new group's cursors: everything up to `seq` counts as acked.
pub(crate) async fn cursors_at(
    shared: &Arc<Shared>,
    topic: &TopicName,
    seq: u64,
) -> Result<Vec<PartitionCursor>, Failure> {
    let state = within_deadline(shared.store.topic(topic)).await?;
    let partitions = match &state {
        Some(state) => state.partitions,
        None => shared.config.topic_settings(topic).partitions,
    };
    let ordinals = match &state {
        Some(_) => within_deadline(shared.store.ordinals_at(topic, seq)).await?,
        None => Vec::new(),
    };
    let cursor = |partition: u32| PartitionCursor {
        floor: seq,
        floor_ordinal: ordinals.get(partition as usize).copied().unwrap_or(0),
        ..PartitionCursor::default()
    };
    Ok((0..partitions).map(cursor).collect())
}
