//! How topics are.

use std::sync::Arc;

use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::config::Limit;
use crate::domain::{Retention, TopicName};
use crate::protocol::Failure;
use crate::store::TopicState;

/// How a topic is at a moment.
#[derive(Debug, Clone)]
pub struct TopicReport {
    /// Which.
    pub topic: TopicName,
    /// What the store knows of it.
    pub state: TopicState,
    /// How many events are published to it in a second, lately.
    pub rate: f64,
    /// How fast it may be published to.
    pub limit: Limit,
    /// What it keeps.
    pub retention: Retention,
}

/// How all topics are that `may_see` lets through, by name.
pub async fn topic_reports(
    shared: &Arc<Shared>,
    may_see: impl Fn(&TopicName) -> bool,
) -> Result<Vec<TopicReport>, Failure> {
    let now_ms = shared.clock.now_ms();
    let all = within_deadline(shared.store.topics()).await?;
    let seen = all.into_iter().filter(|(topic, _)| may_see(topic));
    let report = |(topic, state): (TopicName, TopicState)| TopicReport {
        rate: shared.topics.publish_rate(&topic, now_ms),
        limit: shared.live.topic_limit(&topic),
        retention: shared.live.retention(&topic),
        topic,
        state,
    };
    Ok(seen.map(report).collect())
}
