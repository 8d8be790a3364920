//! Seqs, ordinals, partitions and arrival times.

use tidegate::domain::{NewEvent, Retention, partition_of};
use tidegate::store::{Appended, StoreOptions, Write};

use crate::bench::*;

pub async fn appends_number_without_gaps(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (a, b) = (topic("numbers.a"), topic("numbers.b"));
    let append_to = |topic: &tidegate::domain::TopicName, prefix: &str, count| Write::Append {
        topic: topic.clone(),
        events: events(prefix, count),
    };
    let batch = vec![append_to(&a, "x", 3), append_to(&b, "x", 2), append_to(&a, "y", 1)];
    let answers = store.commit(batch, NOW).await.unwrap();
    let given: Vec<Vec<u64>> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(tidegate::store::Written::Appended(answers)) => seqs_of(&answers),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(given, [vec![1, 2, 3], vec![1, 2], vec![4]]);
    assert_eq!(seqs_of(&append(&store, &a, events("z", 2)).await.unwrap()), [5, 6]);
    assert_eq!(seqs(&all(&store, &a).await), [1, 2, 3, 4, 5, 6]);
    let state = store.topic(&a).await.unwrap().unwrap();
    assert_eq!((state.first, state.tail, state.events), (1, 6, 6));
}

pub async fn ordinals_count_each_partition(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ordinals");
    for round in 0..3 {
        append(&store, &topic, events(&format!("r{round}"), 20)).await.unwrap();
    }
    let mut counts = [0_u64; 4];
    for event in all(&store, &topic).await {
        let count = &mut counts[event.partition as usize];
        *count += 1;
        assert_eq!(event.ordinal, *count);
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let state = store.topic(&topic).await.unwrap().unwrap();
    assert_eq!((state.partitions, state.ordinals), (4, counts.to_vec()));
}

pub async fn partitions_follow_key_or_id(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("partitions");
    let keyed = NewEvent {
        key: Some("device-7".into()),
        ..event("some-id")
    };
    append(&store, &topic, vec![keyed, event("other-id")]).await.unwrap();
    let kept = all(&store, &topic).await;
    assert_eq!(kept[0].partition, partition_of("device-7", 4));
    assert_eq!(kept[1].partition, partition_of("other-id", 4));
}

pub async fn partitions_are_fixed_when_the_topic_is_made(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("fixed.partitions");
    append(&store, &topic, events("a", 1)).await.unwrap();
    let more = StoreOptions {
        rules: partitions(32),
        ..options()
    };
    let Some(store) = factory.reopen(store, more).await else {
        return;
    };
    append(&store, &topic, events("b", 50)).await.unwrap();
    assert_eq!(store.topic(&topic).await.unwrap().unwrap().partitions, 4);
    assert!(all(&store, &topic).await.iter().all(|event| event.partition < 4));
}

pub async fn arrival_never_steps_back(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, other) = (topic("arrival"), topic("arrival.other"));
    for (id, now_ms) in [("a", 100), ("b", 70), ("c", 120)] {
        append_at(&store, &topic, vec![event(id)], now_ms).await.unwrap();
    }
    let at: Vec<u64> = all(&store, &topic).await.iter().map(|event| event.at).collect();
    assert_eq!(at, [100, 100, 120]);
    let answer = append_at(&store, &other, vec![event("a")], 70).await.unwrap();
    assert!(matches!(&answer[0], Appended::New(event) if event.at == 70));
}

pub async fn numbers_go_on_after_everything_was_removed(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("goes.on");
    append(&store, &topic, events("a", 10)).await.unwrap();
    let retention = Retention {
        count: Some(0),
        ..Retention::default()
    };
    let trim = Write::Trim {
        topic: topic.clone(),
        retention,
    };
    write(&store, trim).await.unwrap();
    let before = store.topic(&topic).await.unwrap().unwrap().ordinals;
    let answer = append(&store, &topic, events("b", 1)).await.unwrap();
    let Appended::New(event) = &answer[0] else {
        panic!("{answer:?}")
    };
    assert_eq!(event.seq, 11);
    assert_eq!(event.ordinal, before[event.partition as usize] + 1);
    assert_eq!(seqs(&all(&store, &topic).await), [11]);
}
