//! The names of collections, and what documents are found by.
//!
//! A topic's name has no colon and a group's name no two in a row, so `::` parts them without doubt, and all that belongs
//! to a topic or a group is one range of `_id`.

use mongodb::bson::{Document, doc};

use crate::domain::{GroupName, TopicName};

pub(super) const EVENTS: &str = "events";
pub(super) const TOPICS: &str = "topics";
pub(super) const GROUPS: &str = "groups";
pub(super) const CURSORS: &str = "cursors";
pub(super) const RETRIES: &str = "retries";
pub(super) const DEDUPE: &str = "dedupe";
pub(super) const OUTBOX: &str = "outbox";
pub(super) const LEASES: &str = "leases";

/// The document in `leases` that counts the claims of all groups: one counter, so that a group made again never repeats
/// an epoch.
pub(super) const CLAIMS: &str = "claims";

pub(super) fn event(topic: &TopicName, id: &str) -> String {
    format!("{topic}::{id}")
}

pub(super) fn group(topic: &TopicName, group: &GroupName) -> String {
    format!("{topic}::{group}")
}

pub(super) fn cursor(topic: &TopicName, group: &GroupName, partition: u32) -> String {
    format!("{topic}::{group}::{partition}")
}

pub(super) fn retry(topic: &TopicName, group: &GroupName, seq: u64) -> String {
    format!("{topic}::{group}::{seq}")
}

pub(super) fn mark(topic: &TopicName, group: &GroupName, id: &str) -> String {
    format!("{topic}::{group}::{id}")
}

/// All groups, cursors or retries of a topic.
pub(super) fn of_topic(topic: &TopicName) -> Document {
    beginning_with(&format!("{topic}::"))
}

/// All cursors or retries of a group.
pub(super) fn of_group(topic: &TopicName, group: &GroupName) -> Document {
    beginning_with(&format!("{topic}::{group}::"))
}

/// `;` follows the colon that the prefix ends with.
fn beginning_with(prefix: &str) -> Document {
    let end = format!("{};", &prefix[..prefix.len() - 1]);
    doc! { "_id": { "$gte": prefix, "$lt": end } }
}

/// BSON has no unsigned numbers. Those of a log stay far below the sign; whatever else comes goes there and back whole.
pub(super) fn signed(number: u64) -> i64 {
    number as i64
}

/// For comparisons: a number beyond what a log can reach is as good as the highest.
pub(super) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
