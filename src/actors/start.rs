//! Where a subscription begins: what `from` means for a topic as it is now.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use super::store::{COMMIT_DEADLINE, store_unavailable};
use super::topic::Tail;
use crate::domain::{PartitionCursor, StartFrom, TopicName};
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

/// The last seq that a subscription does not get.
pub(super) async fn start_seq(
    shared: Arc<Shared>,
    topic: TopicName,
    tail: Arc<Tail>,
    from: StartFrom,
) -> Result<u64, Failure> {
    let store = &shared.store;
    match from {
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
