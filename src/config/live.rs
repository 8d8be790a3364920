//! What can change while the gateway runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::model::{Config, Limit, Limits};
use crate::domain::{Retention, TopicName};

/// The part of the configuration that can change while the gateway runs: limits, and what topics keep. Everything else is
/// as it was at the start.
#[derive(Debug)]
pub struct Live {
    current: RwLock<Arc<Config>>,
    version: AtomicU64,
}

impl Live {
    /// As it is at the start.
    pub fn new(config: Config) -> Live {
        Live {
            current: RwLock::new(Arc::new(config)),
            version: AtomicU64::new(0),
        }
    }

    /// From now on.
    pub fn replace(&self, config: Config) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Goes up with every change: who keeps something that was made of it looks whether it is still the same.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// `[limits]`.
    pub fn limits(&self) -> Limits {
        self.get().limits.clone()
    }

    /// How fast a topic may be published to.
    pub fn topic_limit(&self, topic: &TopicName) -> Limit {
        self.get().topic_limit(topic)
    }

    /// What a topic keeps.
    pub fn retention(&self, topic: &TopicName) -> Retention {
        self.get().topic_settings(topic).retention
    }

    fn get(&self) -> Arc<Config> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
