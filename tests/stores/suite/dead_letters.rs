//! A dead letter and the ack of the event it stands for are one step.

use tidegate::domain::{CursorUpdate, GroupName, NewEvent, TopicName};
use tidegate::store::{Appended, StoreOptions, Write, Written};

use crate::bench::*;

fn save(topic: &TopicName, group: &GroupName, epoch: u64, up_to: u64, dead_letters: Vec<NewEvent>) -> Write {
    Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        updates: vec![CursorUpdate {
            cursor: floor(up_to),
            ..CursorUpdate::default()
        }],
        dead_letters,
    }
}

pub async fn a_dead_letter_and_its_ack_are_one_step(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("letters.step"), group("g"));
    let epoch = make_group(&store, &topic, &group).await;
    let answer = write(&store, save(&topic, &group, epoch, 8, vec![event("a"), event("b")])).await;
    let Ok(Written::CursorsSaved(letters)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(seqs_of(&letters), [1, 2]);
    let kept = all(&store, &topic.dead_letters()).await;
    assert_eq!(letters, kept.iter().cloned().map(Appended::New).collect::<Vec<_>>());
    assert_eq!(store.group(&topic, &group).await.unwrap().unwrap().cursors[0], floor(8));
    assert_eq!(store.topic(&topic).await.unwrap(), None);
    assert!(String::from_utf8_lossy(&kept[0].json).contains("\"topic\":\"dlq.letters.step\""));
}

pub async fn a_dead_letter_is_there_once(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("letters.once"), group("g"));
    let epoch = make_group(&store, &topic, &group).await;
    let other_payload = NewEvent {
        payload: "\"other\"".into(),
        ..event("a")
    };
    let batch = vec![
        save(&topic, &group, epoch, 1, vec![event("a"), event("a")]),
        save(&topic, &group, epoch, 2, vec![event("a"), event("b")]),
    ];
    let answers = store.commit(batch, NOW).await.unwrap();
    let seqs: Vec<Vec<u64>> = answers
        .iter()
        .map(|answer| match answer {
            Ok(Written::CursorsSaved(letters)) => seqs_of(letters),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seqs, [[1, 1], [1, 2]]);
    let again = write(&store, save(&topic, &group, epoch, 3, vec![other_payload])).await;
    assert_eq!(again, Ok(Written::CursorsSaved(vec![Appended::Known { seq: 1 }])));
    let kept = all(&store, &topic.dead_letters()).await;
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0].payload(), event("a").payload.as_bytes());
    assert_eq!(store.group(&topic, &group).await.unwrap().unwrap().cursors[0], floor(3));
}

pub async fn a_dead_letter_makes_its_topic_beyond_the_limit(factory: &dyn Factory) {
    let limited = StoreOptions {
        max_topics: 1,
        ..options()
    };
    let store = factory.open(limited).await;
    let (topic, group) = (topic("letters.limit"), group("g"));
    append(&store, &topic, vec![event("a")]).await.unwrap();
    let epoch = make_group(&store, &topic, &group).await;
    write(&store, save(&topic, &group, epoch, 1, vec![event("a")]))
        .await
        .unwrap();
    assert_eq!(all(&store, &topic.dead_letters()).await.len(), 1);
}
