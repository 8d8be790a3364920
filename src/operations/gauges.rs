//! The lag of all groups as figures, also of those nobody is connected to: taken when somebody looks.

use std::sync::Arc;
use std::time::Duration;

use super::groups::group_reports;
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::protocol::Failure;

/// How long it may take: a scrape waits for it.
const DEADLINE: Duration = Duration::from_secs(5);

/// Sets the gauges of groups, and of what waits for whom. What could not be found out keeps its last value, and that is
/// logged.
pub async fn refresh_gauges(shared: &Arc<Shared>) {
    let waiting = |actor| shared.metrics.mailbox_depth(actor);
    waiting("topic").set(count(
        shared.topics.all().iter().map(|topic| topic.gate().depth()).sum(),
    ));
    waiting("store").set(count(shared.writer.depth()));
    let refreshed = tokio::time::timeout(DEADLINE, refresh(shared)).await;
    let failed = match refreshed {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure.msg.into_owned(),
        Err(_) => "it takes too long".to_owned(),
    };
    tracing::warn!(reason = %failed, "the lag of groups could not be refreshed");
}

async fn refresh(shared: &Arc<Shared>) -> Result<(), Failure> {
    let mut topics: Vec<_> = within_deadline(shared.store.topics()).await?;
    topics.retain(|(topic, _)| shared.metrics.may_label(topic));
    let mut waiting = 0;
    for (topic, _) in topics {
        for report in group_reports(shared, &topic).await? {
            let figures = shared.metrics.group(&topic, &report.group);
            figures.lag_events.set(i64::try_from(report.lag).unwrap_or(i64::MAX));
            figures.lag_seconds.set(report.lag_ms as f64 / 1_000.0);
            figures.inflight.set(i64::try_from(report.inflight).unwrap_or(i64::MAX));
            waiting += report.waiting;
        }
    }
    shared.metrics.mailbox_depth("subscription").set(count(waiting));
    Ok(())
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
