//! What `Trim` removes, and what it leaves.

use std::sync::Arc;

use tidegate::domain::{NewEvent, Retention, TopicName};
use tidegate::store::{Store, Write, Written};

use crate::bench::*;

async fn trim(store: &Arc<dyn Store>, topic: &TopicName, retention: Retention, now_ms: u64) -> (u64, u64) {
    let topic = topic.clone();
    match write_at(store, Write::Trim { topic, retention }, now_ms).await {
        Ok(Written::Trimmed { first, events }) => (first, events),
        other => panic!("{other:?}"),
    }
}

fn by_count(count: u64) -> Retention {
    Retention {
        count: Some(count),
        ..Retention::default()
    }
}

/// What the topic says of itself is what it holds.
async fn check_state(store: &Arc<dyn Store>, topic: &TopicName, first: u64, tail: u64) {
    let state = store.topic(topic).await.unwrap().unwrap();
    let kept = all(store, topic).await;
    assert_eq!(seqs(&kept), (first..=tail).collect::<Vec<_>>());
    assert_eq!((state.first, state.tail, state.events), (first, tail, tail + 1 - first));
    let bytes: usize = kept.iter().map(|event| event.json.len()).sum();
    assert_eq!(state.bytes, bytes as u64);
}

pub async fn trim_by_count(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.count");
    append(&store, &topic, events("x", 10)).await.unwrap();
    assert_eq!(trim(&store, &topic, by_count(4), NOW).await, (7, 6));
    check_state(&store, &topic, 7, 10).await;
    assert_eq!(trim(&store, &topic, by_count(4), NOW).await, (7, 0));
    assert_eq!(trim(&store, &topic, by_count(9), NOW).await, (7, 0));
    append(&store, &topic, events("y", 1)).await.unwrap();
    assert_eq!(trim(&store, &topic, by_count(4), NOW).await, (8, 1));
    check_state(&store, &topic, 8, 11).await;
}

pub async fn trim_by_age_goes_by_arrival(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.age");
    for (id, ts, now_ms) in [("a", 9_000, 100), ("b", 1, 200), ("c", 1, 150), ("d", 1, 300)] {
        let event = NewEvent { ts, ..event(id) };
        append_at(&store, &topic, vec![event], now_ms).await.unwrap();
    }
    let old = |age_ms| Retention {
        age_ms: Some(age_ms),
        ..Retention::default()
    };
    assert_eq!(trim(&store, &topic, old(100), 200).await, (1, 0));
    assert_eq!(trim(&store, &topic, old(100), 201).await, (2, 1));
    assert_eq!(trim(&store, &topic, old(100), 50).await, (2, 0));
    check_state(&store, &topic, 2, 4).await;
    assert_eq!(trim(&store, &topic, old(100), 301).await, (4, 2));
    check_state(&store, &topic, 4, 4).await;
    assert_eq!(trim(&store, &topic, old(100), 1_000).await, (5, 1));
    check_state(&store, &topic, 5, 4).await;
}

pub async fn trim_by_bytes(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.bytes");
    append(&store, &topic, events("x", 8)).await.unwrap();
    let sizes: Vec<u64> = all(&store, &topic)
        .await
        .iter()
        .map(|event| event.json.len() as u64)
        .collect();
    let newest_three: u64 = sizes[5..].iter().sum();
    let by_bytes = |bytes| Retention {
        bytes: Some(bytes),
        ..Retention::default()
    };
    assert_eq!(trim(&store, &topic, by_bytes(u64::MAX), NOW).await, (1, 0));
    assert_eq!(trim(&store, &topic, by_bytes(newest_three), NOW).await, (6, 5));
    check_state(&store, &topic, 6, 8).await;
    assert_eq!(trim(&store, &topic, by_bytes(newest_three - 1), NOW).await, (7, 1));
    append(&store, &topic, events("y", 2)).await.unwrap();
    assert_eq!(trim(&store, &topic, by_bytes(1), NOW).await, (11, 4));
    check_state(&store, &topic, 11, 10).await;
}

pub async fn the_first_bound_that_is_passed_decides(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.all");
    for n in 0..10 {
        append_at(&store, &topic, vec![event(&format!("{n}"))], 100 * n)
            .await
            .unwrap();
    }
    let retention = |age_ms, count, bytes| Retention {
        age_ms: Some(age_ms),
        count: Some(count),
        bytes: Some(bytes),
    };
    assert_eq!(trim(&store, &topic, retention(10_000, 8, 1 << 30), 1_000).await.0, 3);
    assert_eq!(trim(&store, &topic, retention(600, 100, 1 << 30), 1_000).await.0, 5);
    assert_eq!(trim(&store, &topic, retention(10_000, 100, 1), 1_000).await.0, 11);
}

pub async fn trim_of_everything_keeps_the_numbers(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.everything");
    append(&store, &topic, events("x", 5)).await.unwrap();
    let before = store.topic(&topic).await.unwrap().unwrap();
    assert_eq!(trim(&store, &topic, by_count(0), NOW).await, (6, 5));
    assert_eq!(trim(&store, &topic, by_count(0), NOW).await, (6, 0));
    check_state(&store, &topic, 6, 5).await;
    assert_eq!(
        store.topic(&topic).await.unwrap().unwrap().ordinals,
        before.ordinals,
        "ordinals are those given ever"
    );
    append(&store, &topic, events("y", 2)).await.unwrap();
    check_state(&store, &topic, 6, 7).await;
}

pub async fn trim_without_bounds_removes_nothing(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.nothing");
    append(&store, &topic, events("x", 3)).await.unwrap();
    assert_eq!(trim(&store, &topic, Retention::default(), u64::MAX).await, (1, 0));
    check_state(&store, &topic, 1, 3).await;
}

pub async fn trim_of_a_topic_that_is_not_there(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.none");
    assert_eq!(trim(&store, &topic, by_count(0), NOW).await, (1, 0));
    assert_eq!(store.topic(&topic).await.unwrap(), None);
}

pub async fn trim_in_the_middle_of_a_long_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("trim.long");
    for n in 0..10 {
        let batch = events(&format!("r{n}"), 300);
        append_at(&store, &topic, batch, 1_000 * n).await.unwrap();
    }
    let age = Retention {
        age_ms: Some(6_500),
        ..Retention::default()
    };
    assert_eq!(trim(&store, &topic, age, 9_000).await, (901, 900));
    check_state(&store, &topic, 901, 3_000).await;
    let newest: u64 = all(&store, &topic).await[1_500..]
        .iter()
        .map(|event| event.json.len() as u64)
        .sum();
    let bytes = Retention {
        bytes: Some(newest),
        ..Retention::default()
    };
    assert_eq!(trim(&store, &topic, bytes, 9_000).await, (2_401, 1_500));
    check_state(&store, &topic, 2_401, 3_000).await;
    let found = store.seqs_of_ids(&topic, vec!["r7-299".into(), "r8-0".into()]).await;
    assert_eq!(found.unwrap(), [None, Some(2_401)]);
}
