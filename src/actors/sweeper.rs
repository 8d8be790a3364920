//! Retention in operation: every `store.sweep_interval` each topic that keeps less than everything is trimmed, and its
//! groups are told what is gone, so that what they had not acked is counted.
//!
//! It is a task and no actor: nobody sends it anything. A trim takes the same way as every other write.

use std::sync::Arc;

use super::messages::LogTrimmed;
use super::shared::Shared;
use super::start::within_deadline;
use super::store::store_unavailable;
use crate::domain::{Retention, TopicName};
use crate::protocol::Failure;
use crate::store::{TopicState, Write, Written};

/// Sweeps for as long as the gateway runs.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut due = tokio::time::interval(shared.config.store.sweep_interval);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        if let Err(failure) = sweep(&shared).await {
            tracing::warn!(reason = %failure.msg, "retention could not run, trying again later");
        }
    }
}

async fn sweep(shared: &Arc<Shared>) -> Result<(), Failure> {
    for (topic, state) in within_deadline(shared.store.topics()).await? {
        let retention = shared.live.retention(&topic);
        if may_have_expired(&state, &retention) {
            trim(shared, topic, retention).await?;
        }
    }
    Ok(())
}

/// Whether it is worth asking the store: most sweeps find most topics within their bounds.
fn may_have_expired(state: &TopicState, retention: &Retention) -> bool {
    let over = |bound: Option<u64>, value: u64| bound.is_some_and(|bound| value > bound);
    state.events > 0
        && (retention.age_ms.is_some() || over(retention.count, state.events) || over(retention.bytes, state.bytes))
}

async fn trim(shared: &Arc<Shared>, topic: TopicName, retention: Retention) -> Result<(), Failure> {
    let write = Write::Trim {
        topic: topic.clone(),
        retention,
    };
    let deletions = shared.topics.deletions();
    let trimmed = shared.perform(write).await.map_err(|error| store_unavailable(&error))?;
    let (first, events) = match trimmed {
        Ok(Written::Trimmed { first, events }) if events > 0 => (first, events),
        Ok(_) => return Ok(()),
        Err(refused) => {
            tracing::warn!(%topic, %refused, "a topic could not be trimmed");
            return Ok(());
        }
    };
    tracing::debug!(%topic, events, first, "retention removed events");
    // A topic that does not run has no groups that do: theirs is counted when they are loaded.
    if let Some(running) = shared.topics.running(&topic) {
        let ordinals = within_deadline(shared.store.ordinals_at(&topic, first.saturating_sub(1))).await?;
        running.post(LogTrimmed {
            first,
            ordinals: ordinals.into(),
            deletions,
        });
    }
    Ok(())
}
