//! Settings of groups and members, with the bounds and defaults the contract gives them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Event;

/// The longest back-off between two deliveries.
pub const BACKOFF_MS_MAX: u64 = 30_000;
/// The most seqs a group looks past a partition's floor, and the most events it has in flight or waiting.
pub const WINDOW: u64 = 10_000;

/// What a whole group has in common. Kept by the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSettings {
    /// After so many deliveries that failed an event is a dead letter.
    pub max_attempts: u32,
    /// The first back-off; doubled with each attempt.
    pub backoff_ms: u64,
    /// Whether the events of one key are delivered one after the other.
    pub ordered: bool,
    /// Which events the group is about; what it leaves out counts as acked.
    pub filter: Option<Filter>,
    /// The filter holds after this seq: what the group had looked at before it changed is not touched by it, over
    /// restarts too.
    #[serde(default)]
    pub filter_since: u64,
}

impl Default for GroupSettings {
    fn default() -> Self {
        GroupSettings {
            max_attempts: 5,
            backoff_ms: 100,
            ordered: false,
            filter: None,
            filter_since: 0,
        }
    }
}

/// The settings of a group that one SUBSCRIBE names; what it does not name stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSettingsPatch {
    /// See [`GroupSettings::max_attempts`].
    pub max_attempts: Option<u32>,
    /// See [`GroupSettings::backoff_ms`].
    pub backoff_ms: Option<u64>,
    /// See [`GroupSettings::ordered`].
    pub ordered: Option<bool>,
    /// See [`GroupSettings::filter`].
    pub filter: Option<Filter>,
}

impl GroupSettingsPatch {
    /// The settings with this patch laid over them.
    pub fn over(&self, settings: &GroupSettings) -> GroupSettings {
        GroupSettings {
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            backoff_ms: self.backoff_ms.unwrap_or(settings.backoff_ms),
            ordered: self.ordered.unwrap_or(settings.ordered),
            filter: self.filter.clone().or_else(|| settings.filter.clone()),
            filter_since: settings.filter_since,
        }
    }
}

/// Which events a group is about: all that are given must match, any of several values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filter {
    /// The event's key is one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// The event's key begins with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_prefix: Option<String>,
    /// The event has one of these tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The event has each of these headers with one of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, OneOrMore>>,
}

/// A value or several of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore {
    /// Just this one.
    One(String),
    /// Any of these.
    Many(Vec<String>),
}

impl OneOrMore {
    fn has(&self, value: &str) -> bool {
        match self {
            OneOrMore::One(one) => one == value,
            OneOrMore::Many(many) => many.iter().any(|one| one == value),
        }
    }
}

impl Filter {
    /// Whether the event passes.
    pub fn matches(&self, event: &Event) -> bool {
        let key = event.key.as_deref();
        if let Some(keys) = &self.keys
            && !key.is_some_and(|key| keys.iter().any(|one| one == key))
        {
            return false;
        }
        if let Some(prefix) = &self.key_prefix
            && !key.is_some_and(|key| key.starts_with(prefix.as_str()))
        {
            return false;
        }
        if self.tags.is_none() && self.headers.is_none() {
            return true;
        }
        let labels = event.labels();
        if let Some(tags) = &self.tags
            && !tags.iter().any(|tag| labels.tags.contains(tag))
        {
            return false;
        }
        self.headers.as_ref().is_none_or(|headers| {
            headers
                .iter()
                .all(|(name, wanted)| labels.headers.get(name).is_some_and(|value| wanted.has(value)))
        })
    }
}

/// What one member of a group asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberSettings {
    /// The most events with the member at a time.
    pub max_in_flight: u32,
    /// How long a lease lasts.
    pub ack_timeout_ms: u64,
    /// How many events are read and pushed together, a hint.
    pub batch_size: u32,
    /// Whether an event that was written to the socket is acked by that.
    pub auto_ack: bool,
}

impl Default for MemberSettings {
    fn default() -> Self {
        MemberSettings {
            max_in_flight: 100,
            ack_timeout_ms: 30_000,
            batch_size: 100,
            auto_ack: false,
        }
    }
}

/// Where a group without a cursor, an ephemeral subscription or a seek begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// After the newest event.
    #[default]
    Latest,
    /// With the oldest event that is kept.
    Earliest,
    /// With the first event in seq order whose `ts` is at least this.
    Ts(u64),
    /// After the event with this id.
    AfterId(Box<str>),
}
