//! Which settings a topic gets: the first rule that matches, and what a topic of dead letters owes the topic it serves.

use super::model::{Config, Limit, TopicRule};
use crate::domain::{DEAD_LETTER_PREFIX, Durability, TopicName, TopicSettings, WriteConcern};

impl Config {
    /// A topic's settings. `dlq.X` is in the same store as X (in memory only where X is) and at least as durable.
    pub fn topic_settings(&self, topic: &TopicName) -> TopicSettings {
        let own = self.settings_by_rule(topic.as_str());
        let Some(origin) = topic.as_str().strip_prefix(DEAD_LETTER_PREFIX) else {
            return own;
        };
        let origin = self.settings_by_rule(origin);
        let durability = match origin.durability {
            Durability::Memory => Durability::Memory,
            durable => own.durability.max(durable),
        };
        let write_concern = match origin.write_concern {
            WriteConcern::Majority => WriteConcern::Majority,
            WriteConcern::One => own.write_concern,
        };
        TopicSettings {
            durability,
            write_concern,
            ..own
        }
    }

    /// How fast a topic may be published to.
    pub fn topic_limit(&self, topic: &TopicName) -> Limit {
        self.rule(topic.as_str())
            .and_then(|rule| rule.limit)
            .unwrap_or(self.limits.topic)
    }

    fn settings_by_rule(&self, name: &str) -> TopicSettings {
        self.rule(name).map(|rule| rule.settings.clone()).unwrap_or_default()
    }

    fn rule(&self, name: &str) -> Option<&TopicRule> {
        self.topics.iter().find(|rule| rule.pattern.matches(name))
    }
}
