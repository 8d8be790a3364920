//! Several stores on one database, as several gateways have them, writing to one topic, and readers who follow it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mongodb::bson::{Document, doc};
use mongodb::options::{ReadConcern, ReturnDocument};
use tidegate::domain::{NewEvent, TopicName};
use tidegate::store::{Appended, MongoStore, Store, StoreOptions, Write, Written};

use crate::replica_set;

fn event(id: String) -> NewEvent {
    NewEvent {
        id: id.into(),
        id_given: false,
        ts: 1,
        key: None,
        headers: vec![],
        payload: "{\"n\":1}".into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

/// Appends of a writer: small ones, so that writers meet often.
async fn write(store: Arc<MongoStore>, topic: TopicName, writer: usize, appends: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    for number in 0..appends {
        let events = (0..1 + number % 4)
            .map(|n| event(format!("{writer}-{number}-{n}")))
            .collect();
        let batch = vec![Write::Append {
            topic: topic.clone(),
            events,
        }];
        let answers = store.commit(batch, 1_000 + number as u64).await.unwrap();
        let Ok(Written::Appended(appended)) = &answers[0] else {
            panic!("{answers:?}")
        };
        seqs.extend(appended.iter().map(Appended::seq));
    }
    seqs
}

/// Reads as somebody at the tail does: from behind the last seq that was seen, never back. Ends at `last`.
async fn follow(store: Arc<MongoStore>, topic: TopicName, last: Arc<AtomicU64>) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let from = seen.last().map_or(1, |seq| seq + 1);
        let end = last.load(Ordering::Acquire);
        if end > 0 && from > end {
            return seen;
        }
        let events = store.read(&topic, from, 1_000, usize::MAX).await.unwrap();
        seen.extend(events.iter().map(|event| event.seq));
        tokio::task::yield_now().await;
    }
}

async fn many_writers(writers: usize, appends: usize) {
    let (url, database) = (replica_set::shared(), replica_set::new_database());
    let open = || async { Arc::new(MongoStore::open(url, &database, StoreOptions::default()).await.unwrap()) };
    let topic: TopicName = "hot".parse().unwrap();
    let last = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = [open().await, open().await]
        .map(|store| tokio::spawn(follow(store, topic.clone(), last.clone())))
        .into();
    let mut writing = Vec::new();
    for writer in 0..writers {
        writing.push(tokio::spawn(write(open().await, topic.clone(), writer, appends)));
    }
    let mut given = Vec::new();
    for task in writing {
        let seqs = task.await.unwrap();
        assert!(seqs.is_sorted(), "one writer's events are in its order");
        given.extend(seqs);
    }
    given.sort_unstable();
    let all: Vec<u64> = (1..=given.len() as u64).collect();
    assert_eq!(given, all, "no seq twice, none left out");
    last.store(given.len() as u64, Ordering::Release);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), all, "a reader who follows misses nothing");
    }
    let store = open().await;
    let kept = store.read(&topic, 1, usize::MAX, usize::MAX).await.unwrap();
    let mut ordinals = [0; 8];
    for event in &kept {
        ordinals[event.partition as usize] += 1;
        assert_eq!(event.ordinal, ordinals[event.partition as usize]);
    }
    assert!(kept.is_sorted_by_key(|event| event.at), "arrival never steps back");
    let state = store.topic(&topic).await.unwrap().unwrap();
    let bytes: usize = kept.iter().map(|event| event.json.len()).sum();
    assert_eq!((state.tail, state.bytes), (given.len() as u64, bytes as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_write_one_topic() {
    many_writers(2, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_gateways_write_one_topic() {
    many_writers(4, 60).await;
}

/// What the other tests would see if seqs were taken from a counter first and written afterwards, as one is tempted to do: a
/// reader passes a seq whose event comes later. So they can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_outside_of_the_transaction_would_be_seen() {
    let client = mongodb::Client::with_uri_str(replica_set::shared()).await.unwrap();
    let database = client.database(&replica_set::new_database());
    let (events, counters) = (
        database.collection::<Document>("events"),
        database.collection::<Document>("topics"),
    );
    let stop = Arc::new(AtomicU64::new(0));
    let reader = {
        let (events, stop) = (events.clone(), stop.clone());
        tokio::spawn(async move {
            let mut seen: HashSet<i64> = HashSet::new();
            let mut next = 1_i64;
            loop {
                let end = stop.load(Ordering::Acquire);
                let find = events.find(doc! { "_id": { "$gte": next } }).sort(doc! { "_id": 1 });
                let mut found = find.read_concern(ReadConcern::majority()).await.unwrap();
                while found.advance().await.unwrap() {
                    let seq = found.current().get_i64("_id").unwrap();
                    seen.insert(seq);
                    next = seq + 1;
                }
                if end > 0 && next > end as i64 {
                    return seen;
                }
            }
        })
    };
    let write = |writer: usize| {
        let (events, counters) = (events.clone(), counters.clone());
        tokio::spawn(async move {
            for _ in 0..250 {
                let next = counters
                    .find_one_and_update(doc! { "_id": "hot" }, doc! { "$inc": { "seq": 1_i64 } })
                    .upsert(true)
                    .return_document(ReturnDocument::After);
                let seq = next.await.unwrap().unwrap().get_i64("seq").unwrap();
                events
                    .insert_one(doc! { "_id": seq, "writer": writer as i64 })
                    .await
                    .unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..4).map(write).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    stop.store(1_000, Ordering::Release);
    let seen = reader.await.unwrap().len();
    println!("a naive counter: a reader who follows saw {seen} of 1000 events");
    assert!(seen < 1_000, "the naive way lost nothing: this test can see no loss");
}
