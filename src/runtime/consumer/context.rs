//! What a handler knows of the delivery beside the event.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::Handle;
use super::super::dedupe::DedupeStore;

/// What a handler knows of the delivery beside the event. Cloning it is cheap.
#[derive(Clone)]
pub struct Context {
    pub(super) gateway: Handle,
    pub(super) group: Arc<str>,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) timeout: Duration,
    pub(super) postponed: Arc<Mutex<Option<Duration>>>,
    pub(super) duplicates: prometheus_client::metrics::counter::Counter,
}

impl Context {
    /// The gateway: to publish what follows from the event, or to ask an actor.
    pub fn gateway(&self) -> &Handle {
        &self.gateway
    }

    /// The group that the consumer is a member of.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// How often the group was given the event, this time included.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// After how many attempts it is a dead letter.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Whether the event is a dead letter if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }

    /// How long the handler may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks to be given the same event again after a while, whatever the handler returns now. That is no failed attempt.
    /// For as long as the consumer's lease lasts, a few times its `timeout`: an event that is put off for longer counts as
    /// failed.
    pub fn postpone(&self, by: Duration) {
        *self.postponed.lock().unwrap_or_else(PoisonError::into_inner) = Some(by);
    }

    pub(super) fn take_postponed(&self) -> Option<Duration> {
        self.postponed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The gateway's own marks.
    pub(super) fn dedupe(&self) -> Arc<dyn DedupeStore> {
        self.gateway.dedupe()
    }

    /// An event was not handled because it had been before.
    pub(super) fn note_duplicate(&self) {
        self.duplicates.inc();
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attempt {} of {} in {}", self.attempt, self.max_attempts, self.group)
    }
}
