//! What cannot be seen from outside: rows that leave the disk, a writer that has stopped.

use std::sync::Arc;

use fjall::AbstractTree;

use super::keys::Space;
use super::sweep::Gone;
use super::{EmbeddedStore, Shared};
use crate::domain::{Durability, GroupSettings, NewEvent, Retention, TopicName, TopicSettings};
use crate::store::{Store, StoreError, StoreOptions, Write};

fn options() -> StoreOptions {
    StoreOptions {
        rules: Arc::new(|_| TopicSettings {
            durability: Durability::Os,
            ..TopicSettings::default()
        }),
        ..StoreOptions::default()
    }
}

fn event(n: usize) -> NewEvent {
    NewEvent {
        id: format!("id-{n}").into(),
        id_given: true,
        ts: n as u64,
        key: Some(format!("key-{n}").into()),
        headers: vec![],
        payload: format!("\"{n} {}\"", "x".repeat(200)).into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

async fn append(store: &EmbeddedStore, topic: &TopicName, numbers: std::ops::Range<usize>) {
    let events = numbers.map(event).collect();
    let topic = topic.clone();
    let answers = store
        .commit(vec![Write::Append { topic, events }], 1_000)
        .await
        .unwrap();
    assert!(answers.iter().all(Result::is_ok));
}

async fn keep(store: &EmbeddedStore, topic: &TopicName, count: u64) {
    let retention = Retention {
        count: Some(count),
        ..Retention::default()
    };
    let topic = topic.clone();
    store
        .commit(vec![Write::Trim { topic, retention }], 1_000)
        .await
        .unwrap();
}

/// How many rows are there, hidden or not.
fn rows(shared: &Shared, space: Space) -> usize {
    shared.spaces.of(space).len().unwrap()
}

/// Sorts everything into tables, and rewrites all tables.
fn rewrite(shared: &Shared) {
    for space in Space::ALL {
        let keyspace = shared.spaces.of(space);
        keyspace.rotate_memtable_and_wait().unwrap();
        keyspace.major_compact().unwrap();
    }
}

#[tokio::test]
async fn what_retention_removed_leaves_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    let [topic, other] = ["trimmed", "whole"].map(|name| name.parse().unwrap());
    append(&store, &topic, 0..3_000).await;
    append(&store, &other, 0..100).await;
    keep(&store, &topic, 1_000).await;
    let shared = store.shared().unwrap();
    assert_eq!(rows(&shared, Space::Events), 3_100 + 1);
    rewrite(&shared);
    assert_eq!(rows(&shared, Space::Events), 1_100 + 1);
    // An id and a key for each event, and the blocks that 2,001 and later ones are in.
    assert_eq!(rows(&shared, Space::Index), 2 * 1_100 + (3_000 / 256 - 2_000 / 256) + 1);
    let kept = store.read(&topic, 0, usize::MAX, usize::MAX).await.unwrap();
    assert_eq!((kept.len(), kept[0].seq), (1_000, 2_001));
    assert_eq!(store.seq_at_ts(&topic, 2_500).await.unwrap(), 2_501);
    let sum: u64 = store.ordinals_at(&topic, 2_100).await.unwrap().iter().sum();
    assert_eq!(sum, 2_100);
    let ids = vec!["id-1999".into(), "id-2000".into()];
    assert_eq!(store.seqs_of_ids(&topic, ids).await.unwrap(), [None, Some(2_001)]);
    drop(shared);
    store.close().await.unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    assert_eq!(store.read(&topic, 0, usize::MAX, usize::MAX).await.unwrap(), kept);
}

#[tokio::test]
async fn what_belonged_to_a_removed_topic_leaves_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    let topic: TopicName = "removed".parse().unwrap();
    append(&store, &topic, 0..500).await;
    store
        .commit(vec![Write::DeleteTopic { topic: topic.clone() }], 1_000)
        .await
        .unwrap();
    append(&store, &topic, 0..3).await;
    let shared = store.shared().unwrap();
    rewrite(&shared);
    assert_eq!(rows(&shared, Space::Events), 3 + 1);
    assert_eq!(rows(&shared, Space::Index), 6 + 1);
    assert_eq!(store.read(&topic, 0, 9, usize::MAX).await.unwrap().len(), 3);
}

#[tokio::test]
async fn marks_that_are_over_leave_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    let topic: TopicName = "marked".parse().unwrap();
    let group: crate::domain::GroupName = "g".parse().unwrap();
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: GroupSettings::default(),
        cursors: vec![],
    };
    let mark = |id: &str, until_ms| Write::MarkSeen {
        topic: topic.clone(),
        group: group.clone(),
        id: id.into(),
        until_ms,
    };
    store
        .commit(vec![create, mark("a", 90), mark("b", 200)], 10)
        .await
        .unwrap();
    store.commit(vec![mark("b", 80), mark("c", 200)], 100).await.unwrap();
    let shared = store.shared().unwrap();
    rewrite(&shared);
    assert_eq!(rows(&shared, Space::Marks), 1 + 1);
    assert!(store.seen(&topic, &group, "c", 100).await.unwrap());
    assert!(!store.seen(&topic, &group, "b", 100).await.unwrap());
}

#[tokio::test]
async fn whole_tables_of_hidden_events_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    let topic: TopicName = "dropped".parse().unwrap();
    append(&store, &topic, 0..2_000).await;
    let shared = store.shared().unwrap();
    let events = shared.spaces.of(Space::Events);
    events.rotate_memtable_and_wait().unwrap();
    events.tree.major_compact(8 * 1024, 0).unwrap();
    let before = events.table_count();
    assert!(before > 5, "{before} tables");
    keep(&store, &topic, 500).await;
    let much = Gone {
        number: 1,
        first: Some(1_501),
        events: 0,
        bytes: 1 << 30,
    };
    shared.sweeper.add(&[much]);
    shared.sweeper.run(&shared.spaces).unwrap();
    let after = events.table_count();
    // The first table has the keyspace's own row and stays; the one that 1,501 is in stays as well.
    assert!(after * 2 < before, "{before} tables, then {after}");
    assert_eq!(store.read(&topic, 0, usize::MAX, usize::MAX).await.unwrap().len(), 500);
    keep(&store, &topic, 0).await;
    append(&store, &topic, 3_000..3_010).await;
    let kept = store.read(&topic, 0, usize::MAX, usize::MAX).await.unwrap();
    assert_eq!((kept.len(), kept[0].seq), (10, 2_001));
}

#[tokio::test]
async fn a_writer_that_failed_takes_no_more_writes_and_reading_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    let topic: TopicName = "failed".parse().unwrap();
    append(&store, &topic, 0..3).await;
    assert_eq!(store.ready().await, Ok(()));
    store.health.fail("the disk is gone".into());
    let unavailable = Err(StoreError::Unavailable("the disk is gone".into()));
    assert_eq!(store.ready().await, unavailable);
    let write = Write::DeleteTopic { topic: topic.clone() };
    assert_eq!(
        store.commit(vec![write], 1_000).await,
        unavailable.clone().map(|()| vec![])
    );
    assert_eq!(store.read(&topic, 0, 9, usize::MAX).await.unwrap().len(), 3);
    assert_eq!(store.close().await, unavailable);
    let store = EmbeddedStore::open(folder.path(), options()).unwrap();
    assert_eq!(store.read(&topic, 0, 9, usize::MAX).await.unwrap().len(), 3);
}
