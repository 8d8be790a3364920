//! What the others did: hints as the store gives them, and a look at the truth now and then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::Node;
use crate::actors::messages::{LookAtClaim, TailSeen, TopicHinted};
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::domain::{GroupName, TopicName};
use crate::protocol::Failure;
use crate::store::Holder;

/// After the store's news ended.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Passes the store's news on to the topics that run, for as long as the gateway does.
pub(crate) async fn watch(shared: Arc<Shared>, node: Arc<Node>) {
    loop {
        match node.store.watch().await {
            Ok(Some(mut news)) => {
                while let Some(moved) = news.next().await {
                    if let Some(topic) = shared.topics.running(&moved.topic)
                        && node.keep_hint(&moved.topic, moved.tail)
                    {
                        topic.post(TopicHinted);
                    }
                }
                tracing::debug!("the store's news ended");
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "no news from the store"),
        }
        tokio::time::sleep(WATCH_AGAIN).await;
    }
}

/// Looks now and then how far topics are and whether groups that wait are free: news may be lost.
pub(crate) async fn poll(shared: Arc<Shared>, node: Arc<Node>) {
    let mut due = tokio::time::interval(shared.timing.poll);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        due.tick().await;
        let looked = match look_at_groups(&node).await {
            Ok(()) => look_at_topics(&shared, &node).await,
            failed => failed,
        };
        if let Err(failure) = &looked
            && !failed
        {
            tracing::warn!(reason = %failure.msg, "cannot see what other gateways did, trying again");
        }
        failed = looked.is_err();
    }
}

async fn look_at_groups(node: &Node) -> Result<(), Failure> {
    let (keys, handles): (Vec<_>, Vec<_>) = node.waiting_groups().into_iter().unzip();
    if keys.is_empty() {
        return Ok(());
    }
    let holders = within_deadline(node.store.holders(keys)).await?;
    let owner = node.lease().owner().clone();
    for (holder, handle) in holders.into_iter().zip(handles) {
        if holder.is_none_or(|holder| holder.owner == owner) {
            handle.post(LookAtClaim);
        }
    }
    Ok(())
}

impl Node {
    /// Those of a topic's groups that other gateways own now.
    pub async fn held_elsewhere(
        &self,
        topic: &TopicName,
        groups: Vec<GroupName>,
    ) -> Result<Vec<(GroupName, Holder)>, Failure> {
        let keys = groups.iter().map(|group| (topic.clone(), group.clone())).collect();
        let holders = within_deadline(self.store.holders(keys)).await?;
        let owner = self.lease().owner().clone();
        let held = |(group, holder): (GroupName, Option<Holder>)| Some((group, holder?));
        let held = groups.into_iter().zip(holders).filter_map(held);
        Ok(held.filter(|(_, holder)| holder.owner != owner).collect())
    }
}

async fn look_at_topics(shared: &Shared, node: &Node) -> Result<(), Failure> {
    let running = shared.topics.names();
    let topics: Vec<_> = running.into_iter().filter(|topic| shared.store.shares(topic)).collect();
    if topics.is_empty() {
        return Ok(());
    }
    let tails = within_deadline(node.store.tails(topics.clone())).await?;
    for (topic, tail) in topics.iter().zip(tails) {
        if let Some(topic) = shared.topics.running(topic) {
            topic.post(TailSeen(tail));
        }
    }
    Ok(())
}
