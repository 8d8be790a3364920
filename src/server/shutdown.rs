//! Going down in order: no new work, connections end, groups and store finish, the store is closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use tokio::sync::oneshot;

use crate::actors::messages::{DrainGroups, Flush, GoAway};
use crate::actors::shared::Shared;
use crate::protocol::CloseCode;

/// How often the end of the connections is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Drains within `gateway.shutdown_grace`; says so where that was not enough.
pub(super) async fn drain(shared: Arc<Shared>, server: Option<ServerHandle>, finish: impl Future<Output = ()>) {
    let grace = shared.config.gateway.shutdown_grace;
    tracing::info!(
        grace_s = grace.as_secs_f64(),
        connections = shared.connections.count(),
        "draining"
    );
    shared.draining.store(true, Ordering::Relaxed);
    let steps = async {
        // Handlers in this process end what they have begun, and may publish for it.
        finish.await;
        // What was accepted is answered before its connection ends.
        flush(&shared).await;
        drain_topics(&shared).await;
        for connection in shared.connections.all().into_iter().chain(shared.locals.all()) {
            connection.go_away(GoAway(CloseCode::GoingAway));
        }
        while shared.connections.count() + shared.locals.count() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        drain_topics(&shared).await;
        flush(&shared).await;
    };
    // A part of the grace is kept for closing the store.
    if tokio::time::timeout(grace.mul_f64(0.7), steps).await.is_err() {
        tracing::warn!(
            connections = shared.connections.count(),
            "not everything was drained in time"
        );
    }
    if let Some(server) = server {
        let _ = tokio::time::timeout(grace.mul_f64(0.1), server.stop(false)).await;
    }
}

/// Waits until every topic has handed on what it has, and every group's progress is durable.
async fn drain_topics(shared: &Arc<Shared>) {
    for topic in shared.topics.all() {
        let (sender, drained) = oneshot::channel();
        topic.post(DrainGroups(sender));
        let _ = drained.await;
    }
}

/// Waits until everything that was sent to the store before is done.
async fn flush(shared: &Arc<Shared>) {
    let (sender, flushed) = oneshot::channel();
    shared.writer.post(Flush(sender));
    let _ = flushed.await;
}

/// Closes the store; what is in it stays.
pub(super) async fn close_store(shared: &Arc<Shared>) {
    let grace = shared.config.gateway.shutdown_grace.mul_f64(0.2);
    match tokio::time::timeout(grace, shared.store.close()).await {
        Ok(Ok(())) => tracing::info!("drained"),
        Ok(Err(error)) => tracing::error!(%error, "the store could not be closed"),
        Err(_) => tracing::error!("the store was not closed in time"),
    }
}
