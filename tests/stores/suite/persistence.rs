//! What a store that persists must have after it was closed and opened again.

use tidegate::domain::{CursorUpdate, NewEvent, Retention, Retry};
use tidegate::store::{OwnerId, Pause, Write};

use crate::bench::*;

pub async fn everything_is_there_after_a_reopen(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("kept.all"), group("g"));
    let keyed = |n: u64| NewEvent {
        key: Some(format!("key-{}", n % 7).into()),
        ts: n,
        ..event(&format!("id-{n}"))
    };
    append(&store, &topic, (0..2_000).map(keyed).collect()).await.unwrap();
    let epoch = make_group(&store, &topic, &group).await;
    let batch = vec![
        Write::SaveCursors {
            topic: topic.clone(),
            group: group.clone(),
            epoch,
            updates: vec![CursorUpdate {
                partition: 2,
                cursor: floor(77),
                retries: vec![Retry {
                    seq: 80,
                    attempts: 2,
                    due_ms: 5,
                    reason: "ack timeout".into(),
                }],
                settled: vec![],
            }],
            dead_letters: vec![event("letter")],
        },
        Write::SaveGroup {
            topic: topic.clone(),
            group: group.clone(),
            epoch,
            settings: Default::default(),
            paused: Some(Pause {
                by: "ops".into(),
                since_ms: 7,
            }),
        },
        Write::Trim {
            topic: topic.clone(),
            retention: Retention {
                count: Some(1_500),
                ..Retention::default()
            },
        },
    ];
    assert!(store.commit(batch, NOW).await.unwrap().iter().all(Result::is_ok));
    let topics = store.topics().await.unwrap();
    let kept = all(&store, &topic).await;
    let letters = all(&store, &topic.dead_letters()).await;
    let state = store.group(&topic, &group).await.unwrap();

    let Some(store) = factory.reopen(store, options()).await else {
        return;
    };
    assert_eq!(store.topics().await.unwrap(), topics);
    assert_eq!(all(&store, &topic).await, kept);
    assert_eq!(all(&store, &topic.dead_letters()).await, letters);
    assert_eq!(store.group(&topic, &group).await.unwrap(), state);
    assert_eq!(store.seq_at_ts(&topic, 1_000).await.unwrap(), 1_001);
    let newest = store.newest_by_key(&topic, "key-3").await.unwrap().unwrap();
    assert_eq!(&*newest.id, "id-1998", "1,998 is 3 more than a multiple of 7");
    let found = store
        .seqs_of_ids(&topic, vec!["id-499".into(), "id-500".into()])
        .await
        .unwrap();
    assert_eq!(found, [None, Some(501)]);
}

pub async fn numbers_go_on_after_a_reopen(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("kept.numbers"), group("g"));
    append(&store, &topic, events("a", 5)).await.unwrap();
    let old = make_group(&store, &topic, &group).await;
    let Some(store) = factory.reopen(store, options()).await else {
        return;
    };
    assert_eq!(seqs_of(&append(&store, &topic, events("b", 2)).await.unwrap()), [6, 7]);
    let claim = Write::ClaimGroup {
        topic: topic.clone(),
        group: group.clone(),
        owner: OwnerId::random(),
    };
    assert!(epoch(write(&store, claim).await) > old);
    let all_gone = Write::Trim {
        topic: topic.clone(),
        retention: Retention {
            count: Some(0),
            ..Retention::default()
        },
    };
    write(&store, all_gone).await.unwrap();
    let Some(store) = factory.reopen(store, options()).await else {
        return;
    };
    let answer = append_at(&store, &topic, events("c", 1), 1).await.unwrap();
    assert_eq!(seqs_of(&answer), [8]);
    assert_eq!(all(&store, &topic).await[0].at, NOW, "arrival goes on too");
}

pub async fn deletions_are_kept_over_a_reopen(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("kept.deleted"), group("g"));
    append(&store, &topic, events("a", 5)).await.unwrap();
    make_group(&store, &topic, &group).await;
    write(&store, Write::DeleteTopic { topic: topic.clone() })
        .await
        .unwrap();
    let Some(store) = factory.reopen(store, options()).await else {
        return;
    };
    assert_eq!(store.topic(&topic).await.unwrap(), None);
    assert!(store.groups(&topic).await.unwrap().is_empty());
    append(&store, &topic, vec![event("a-0")]).await.unwrap();
    assert_eq!(seqs(&all(&store, &topic).await), [1]);
    assert_eq!(store.seqs_of_ids(&topic, vec!["a-1".into()]).await.unwrap(), [None]);
}

pub async fn marks_are_kept_over_a_reopen(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("kept.marks"), group("g"));
    make_group(&store, &topic, &group).await;
    let mark = Write::MarkSeen {
        topic: topic.clone(),
        group: group.clone(),
        id: "a".into(),
        until_ms: NOW + 10,
    };
    write(&store, mark).await.unwrap();
    let Some(store) = factory.reopen(store, options()).await else {
        return;
    };
    assert!(store.seen(&topic, &group, "a", NOW).await.unwrap());
    assert!(!store.seen(&topic, &group, "a", NOW + 10).await.unwrap());
}
