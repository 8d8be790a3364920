//! Retention in operation: every `store.sweep_interval` each topic that keeps less than everything is trimmed, and its
//! groups are told what is gone, so that what they had not acked is counted.
//!
//! It is a task and no actor: nobody sends it anything. A trim takes the same way as every other write.

use std::collections::HashMap;
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
    let mut told = HashMap::new();
    loop {
        due.tick().await;
        if let Err(failure) = sweep(&shared, &mut told).await {
            tracing::warn!(reason = %failure.msg, "retention could not run, trying again later");
        }
    }
}

/// `told` is where the log of each topic that runs began when its groups were told last.
async fn sweep(shared: &Arc<Shared>, told: &mut HashMap<TopicName, u64>) -> Result<(), Failure> {
    told.retain(|topic, _| shared.topics.running(topic).is_some());
    // Before the look: what is told of a topic that was deleted since is of no use.
    let deletions = shared.topics.deletions();
    for (topic, state) in within_deadline(shared.store.topics()).await? {
        let retention = shared.live.retention(&topic);
        let mut first = state.first;
        if may_have_expired(&state, &retention) {
            first = first.max(trim(shared, &topic, retention).await?);
        }
        // What another gateway on the store removed counts too.
        if first > 1 && shared.topics.running(&topic).is_some() && told.get(&topic).is_none_or(|told| *told < first) {
            tell(shared, &topic, first, deletions).await?;
            if shared.topics.deletions() == deletions {
                told.insert(topic, first);
            }
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

/// The lowest seq that is kept; 0 where nothing went.
async fn trim(shared: &Arc<Shared>, topic: &TopicName, retention: Retention) -> Result<u64, Failure> {
    let write = Write::Trim {
        topic: topic.clone(),
        retention,
    };
    let trimmed = shared.perform(write).await.map_err(|error| store_unavailable(&error))?;
    match trimmed {
        Ok(Written::Trimmed { first, events }) if events > 0 => {
            tracing::debug!(%topic, events, first, "retention removed events");
            Ok(first)
        }
        Ok(_) => Ok(0),
        Err(refused) => {
            tracing::warn!(%topic, %refused, "a topic could not be trimmed");
            Ok(0)
        }
    }
}

/// Tells the groups of a topic what is gone. One that does not run has no groups that do: theirs is counted when they are
/// loaded.
async fn tell(shared: &Arc<Shared>, topic: &TopicName, first: u64, deletions: u64) -> Result<(), Failure> {
    if let Some(running) = shared.topics.running(topic) {
        let ordinals = within_deadline(shared.store.ordinals_at(topic, first.saturating_sub(1))).await?;
        running.post(LogTrimmed {
            first,
            ordinals: ordinals.into(),
            deletions,
        });
    }
    Ok(())
}
