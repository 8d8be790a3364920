//! Watches all connections from outside and cuts off those whose clients do not read.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Cut;
use super::{ConnectionHandle, GoAway};
use crate::actors::shared::Shared;
use crate::protocol::CloseCode;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);
/// How long a connection that was cut off may take to say so to its client.
const LAST_WORDS_MS: u64 = 500;

/// Watches until it is dropped. Runs on a thread of its own: no client can hold it up.
pub async fn watch(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LOOK).await;
        look(&shared);
    }
}

fn look(shared: &Shared) {
    let now_ms = shared.clock.now_ms();
    let (timeout, budget) = (shared.config.gateway.write_timeout, shared.config.gateway.write_budget);
    let mut waiting: Vec<(usize, ConnectionHandle)> = Vec::new();
    for connection in shared.connections.all() {
        let backlog = connection.backlog();
        if let Some((_, since_ms)) = backlog.cut_off() {
            if now_ms.saturating_sub(since_ms) >= LAST_WORDS_MS {
                backlog.shut();
            }
        } else if backlog.is_stalled(now_ms, timeout) {
            cut_off(shared, &connection, Cut::WriteTimeout);
        } else {
            waiting.push((backlog.bytes(), connection));
        }
    }
    let mut total: usize = waiting.iter().map(|(bytes, _)| bytes).sum();
    if total <= budget {
        return;
    }
    waiting.sort_unstable_by_key(|(bytes, _)| *bytes);
    while total > budget
        && let Some((bytes, connection)) = waiting.pop()
    {
        cut_off(shared, &connection, Cut::WriteBudget);
        total -= bytes;
    }
}

/// Cuts a connection off: with a close frame where one can still be sent, without where its actor is frozen.
pub(super) fn cut_off(shared: &Shared, connection: &ConnectionHandle, cut: Cut) {
    let backlog = connection.backlog();
    if !backlog.cut(cut, shared.clock.now_ms()) {
        return;
    }
    tracing::warn!(
        connection = connection.number,
        reason = cut.as_str(),
        waiting_bytes = backlog.bytes(),
        "a client that does not read is cut off"
    );
    shared.metrics.connection_cut(cut.as_str());
    if backlog.is_blocked() {
        backlog.shut();
    } else {
        connection.go_away(GoAway(CloseCode::TooSlow));
    }
}
