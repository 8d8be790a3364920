//! Finding events by time and key, and counting them.

use std::sync::Arc;

use tidegate::domain::{NewEvent, Retention, TopicName};
use tidegate::store::{Store, Write};

use crate::bench::*;

fn with_ts(ts: &[u64]) -> Vec<NewEvent> {
    let make = |(n, ts): (usize, &u64)| NewEvent {
        ts: *ts,
        ..event(&format!("{n}-{ts}"))
    };
    ts.iter().enumerate().map(make).collect()
}

fn keyed(id: &str, key: &str) -> NewEvent {
    NewEvent {
        key: Some(key.into()),
        ..event(id)
    }
}

async fn keep(store: &Arc<dyn Store>, topic: &TopicName, count: u64) {
    let retention = Retention {
        count: Some(count),
        ..Retention::default()
    };
    let topic = topic.clone();
    write(store, Write::Trim { topic, retention }).await.unwrap();
}

pub async fn ts_search_finds_the_first_in_seq_order(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.ts");
    append(&store, &topic, with_ts(&[10, 30, 20, 30, 5, 50, 40]))
        .await
        .unwrap();
    for (ts, expected) in [
        (0, 1),
        (10, 1),
        (11, 2),
        (20, 2),
        (30, 2),
        (31, 6),
        (50, 6),
        (51, 8),
        (u64::MAX, 8),
    ] {
        assert_eq!(store.seq_at_ts(&topic, ts).await.unwrap(), expected, "ts {ts}");
    }
}

pub async fn ts_search_ignores_what_was_removed(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.removed");
    append(&store, &topic, with_ts(&[10, 900, 20, 15, 30, 25]))
        .await
        .unwrap();
    keep(&store, &topic, 4).await;
    for (ts, expected) in [(0, 3), (20, 3), (21, 5), (30, 5), (31, 7), (900, 7)] {
        assert_eq!(store.seq_at_ts(&topic, ts).await.unwrap(), expected, "ts {ts}");
    }
    keep(&store, &topic, 0).await;
    assert_eq!(store.seq_at_ts(&topic, 0).await.unwrap(), 7);
}

pub async fn newest_by_key_goes_by_seq(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.key");
    let newer_clock = NewEvent {
        ts: 900,
        ..keyed("a", "k")
    };
    let batch = vec![newer_clock, keyed("b", "k"), keyed("c", "k2"), event("d")];
    append(&store, &topic, batch).await.unwrap();
    let found = store.newest_by_key(&topic, "k").await.unwrap().unwrap();
    assert_eq!((&*found.id, found.seq), ("b", 2));
    assert_eq!(store.newest_by_key(&topic, "k2").await.unwrap().unwrap().seq, 3);
    assert_eq!(store.newest_by_key(&topic, "").await.unwrap(), None);
    append(&store, &topic, vec![keyed("e", ""), keyed("f", "k")])
        .await
        .unwrap();
    assert_eq!(store.newest_by_key(&topic, "").await.unwrap().unwrap().seq, 5);
    assert_eq!(store.newest_by_key(&topic, "k").await.unwrap().unwrap().seq, 6);
}

pub async fn newest_by_key_ends_with_retention(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.key.trim");
    append(&store, &topic, vec![keyed("a", "x"), keyed("b", "y"), keyed("c", "x")])
        .await
        .unwrap();
    keep(&store, &topic, 1).await;
    assert_eq!(store.newest_by_key(&topic, "y").await.unwrap(), None);
    assert_eq!(store.newest_by_key(&topic, "x").await.unwrap().unwrap().seq, 3);
}

/// What `ordinals_at` must say, counted.
async fn check_ordinals(store: &Arc<dyn Store>, topic: &TopicName, at: impl Iterator<Item = u64>) {
    let state = store.topic(topic).await.unwrap().unwrap();
    let kept = all(store, topic).await;
    for seq in at {
        let mut expected = state.ordinals.clone();
        for event in kept.iter().filter(|event| event.seq > seq) {
            expected[event.partition as usize] -= 1;
        }
        assert_eq!(store.ordinals_at(topic, seq).await.unwrap(), expected, "at {seq}");
    }
}

pub async fn ordinals_at_counts_up_to_a_seq(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.ordinals");
    append(&store, &topic, events("x", 12)).await.unwrap();
    check_ordinals(&store, &topic, (0..=14).chain([u64::MAX])).await;
    keep(&store, &topic, 5).await;
    check_ordinals(&store, &topic, 0..=14).await;
    assert_eq!(store.ordinals_at(&topic, 7).await.unwrap().iter().sum::<u64>(), 7);
    keep(&store, &topic, 0).await;
    check_ordinals(&store, &topic, 0..=14).await;
}

pub async fn ordinals_at_is_right_everywhere_in_a_long_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("search.ordinals.long");
    for round in 0..9 {
        append(&store, &topic, events(&format!("r{round}"), 471)).await.unwrap();
    }
    let places = [
        0, 1, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4000, 4239, 4240,
    ];
    check_ordinals(&store, &topic, places.into_iter()).await;
    keep(&store, &topic, 2_900).await;
    check_ordinals(&store, &topic, places.into_iter().chain([1338, 1339, 1340])).await;
}
