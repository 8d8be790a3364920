//! What the cases of the suite are written with: a way to open any store, and short words for common writes.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidegate::domain::{
    Durability, Event, GroupName, GroupSettings, NewEvent, PartitionCursor, TopicName, TopicSettings,
};
use tidegate::store::{Appended, Refused, Store, StoreOptions, TopicRules, Write, Written};

/// How one kind of store is opened.
pub trait Factory: Send + Sync {
    /// A store with nothing in it.
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Closes the store that was opened last and opens what it kept; `None` for a store that keeps nothing.
    fn reopen(&self, store: Arc<dyn Store>, options: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>>;
}

/// The time at which most tests write.
pub const NOW: u64 = 1_000_000;

/// Few partitions, so that tests meet several events in one.
pub fn options() -> StoreOptions {
    StoreOptions {
        rules: partitions(4),
        ..StoreOptions::default()
    }
}

/// Rules that give every topic so many partitions.
pub fn partitions(partitions: u32) -> TopicRules {
    Arc::new(move |_| TopicSettings {
        partitions,
        durability: Durability::Os,
        ..TopicSettings::default()
    })
}

pub fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

pub fn group(name: &str) -> GroupName {
    name.parse().unwrap()
}

/// An event with an id that the publisher chose.
pub fn event(id: &str) -> NewEvent {
    NewEvent {
        id: id.into(),
        id_given: true,
        ts: 500,
        key: None,
        headers: vec![],
        payload: format!("{{\"of\":\"{id}\"}}").into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

/// Events `prefix-0`, `prefix-1`, … with ids that the gateway made.
pub fn events(prefix: &str, count: usize) -> Vec<NewEvent> {
    let make = |n| NewEvent {
        id_given: false,
        ..event(&format!("{prefix}-{n}"))
    };
    (0..count).map(make).collect()
}

/// A cursor with this floor and nothing above it.
pub fn floor(floor: u64) -> PartitionCursor {
    PartitionCursor {
        floor,
        ..PartitionCursor::default()
    }
}

/// Commits one write.
pub async fn write_at(store: &Arc<dyn Store>, write: Write, now_ms: u64) -> Result<Written, Refused> {
    let mut answers = store.commit(vec![write], now_ms).await.unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// Commits one write at [`NOW`].
pub async fn write(store: &Arc<dyn Store>, write: Write) -> Result<Written, Refused> {
    write_at(store, write, NOW).await
}

/// Appends, at [`NOW`].
pub async fn append(
    store: &Arc<dyn Store>,
    topic: &TopicName,
    events: Vec<NewEvent>,
) -> Result<Vec<Appended>, Refused> {
    append_at(store, topic, events, NOW).await
}

/// Appends.
pub async fn append_at(
    store: &Arc<dyn Store>,
    topic: &TopicName,
    events: Vec<NewEvent>,
    now_ms: u64,
) -> Result<Vec<Appended>, Refused> {
    let topic = topic.clone();
    match write_at(store, Write::Append { topic, events }, now_ms).await? {
        Written::Appended(answers) => Ok(answers),
        other => panic!("an append was answered with {other:?}"),
    }
}

/// Makes a group with its cursors at the beginning, and gives its epoch.
pub async fn make_group(store: &Arc<dyn Store>, topic: &TopicName, group: &GroupName) -> u64 {
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: GroupSettings::default(),
        cursors: vec![PartitionCursor::default(); 4],
    };
    epoch(write(store, create).await)
}

/// The epoch in an answer.
pub fn epoch(answer: Result<Written, Refused>) -> u64 {
    match answer {
        Ok(Written::Epoch(epoch)) => epoch,
        other => panic!("no epoch but {other:?}"),
    }
}

/// Everything a topic keeps.
pub async fn all(store: &Arc<dyn Store>, topic: &TopicName) -> Vec<Arc<Event>> {
    store.read(topic, 0, usize::MAX, usize::MAX).await.unwrap()
}

/// The seqs of events.
pub fn seqs(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// The seqs of answers.
pub fn seqs_of(answers: &[Appended]) -> Vec<u64> {
    answers.iter().map(Appended::seq).collect()
}
