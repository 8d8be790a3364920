//! What holds for a batch of writes as such: order, refusals, limits, removal, the end.

use tidegate::domain::{GroupSettings, NewEvent, PartitionCursor, TopicName};
use tidegate::store::{Appended, OwnerId, Refused, StoreError, StoreOptions, Write, Written};

use crate::bench::*;

fn append_one(topic: &TopicName, event: NewEvent) -> Write {
    Write::Append {
        topic: topic.clone(),
        events: vec![event],
    }
}

fn create(topic: &TopicName, name: &str) -> Write {
    Write::CreateGroup {
        topic: topic.clone(),
        group: group(name),
        settings: GroupSettings::default(),
        cursors: vec![PartitionCursor::default(); 4],
    }
}

pub async fn a_refused_write_hinders_no_other(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("writes.refused");
    append(&store, &topic, vec![event("a")]).await.unwrap();
    let other_payload = NewEvent {
        payload: "0".into(),
        ..event("a")
    };
    let batch = vec![
        append_one(&topic, event("b")),
        append_one(&topic, other_payload),
        Write::ClaimGroup {
            topic: topic.clone(),
            group: group("none"),
            owner: OwnerId::random(),
        },
        append_one(&topic, event("c")),
        create(&topic, "g"),
        create(&topic, "g"),
    ];
    let answers = store.commit(batch, NOW).await.unwrap();
    let refused: Vec<bool> = answers.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, true, true, false, false, true]);
    let ids: Vec<_> = all(&store, &topic).await.iter().map(|event| event.id.clone()).collect();
    assert_eq!(ids, ["a".into(), "b".into(), Box::<str>::from("c")]);
}

pub async fn later_writes_see_earlier_ones(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("writes.order");
    let group = group("g");
    let batch = vec![
        create(&topic, "g"),
        Write::ClaimGroup {
            topic: topic.clone(),
            group: group.clone(),
            owner: OwnerId::random(),
        },
        Write::DeleteGroup {
            topic: topic.clone(),
            group: group.clone(),
        },
        Write::ClaimGroup {
            topic: topic.clone(),
            group: group.clone(),
            owner: OwnerId::random(),
        },
        create(&topic, "g"),
    ];
    let mut answers = store.commit(batch, NOW).await.unwrap().into_iter();
    let first = epoch(answers.next().unwrap());
    let claimed = epoch(answers.next().unwrap());
    assert_eq!(answers.next().unwrap(), Ok(Written::Done));
    assert_eq!(answers.next().unwrap(), Err(Refused::NoSuchGroup(group.clone())));
    let again = epoch(answers.next().unwrap());
    assert!(first < claimed && claimed < again, "{first} {claimed} {again}");
    assert_eq!(store.group(&topic, &group).await.unwrap().unwrap().epoch, again);
}

pub async fn an_empty_batch_does_nothing(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    assert_eq!(store.commit(vec![], NOW).await, Ok(vec![]));
    assert_eq!(store.ready().await, Ok(()));
}

pub async fn an_append_of_nothing_makes_no_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("writes.nothing");
    assert_eq!(append(&store, &topic, vec![]).await, Ok(vec![]));
    assert_eq!(store.topic(&topic).await.unwrap(), None);
}

pub async fn a_topic_too_many_is_refused(factory: &dyn Factory) {
    let limited = StoreOptions {
        max_topics: 2,
        ..options()
    };
    let store = factory.open(limited).await;
    let [a, b, c] = ["limit.a", "limit.b", "limit.c"].map(topic);
    append(&store, &a, vec![event("x")]).await.unwrap();
    append(&store, &b, vec![event("x")]).await.unwrap();
    let refused = append(&store, &c, vec![event("x")]).await;
    assert_eq!(refused, Err(Refused::TooManyTopics { max: 2 }));
    assert_eq!(store.topic(&c).await.unwrap(), None);
    append(&store, &a, vec![event("y")]).await.unwrap();
    write(&store, Write::DeleteTopic { topic: b }).await.unwrap();
    append(&store, &c, vec![event("x")]).await.unwrap();
}

pub async fn a_group_too_many_is_refused(factory: &dyn Factory) {
    let limited = StoreOptions {
        max_groups_per_topic: 2,
        ..options()
    };
    let store = factory.open(limited).await;
    let (topic, other) = (topic("limit.groups"), topic("limit.groups.other"));
    let batch = ["a", "b", "c"].map(|name| create(&topic, name)).to_vec();
    let answers = store.commit(batch, NOW).await.unwrap();
    assert_eq!(answers[2], Err(Refused::TooManyGroups { max: 2 }));
    assert_eq!(store.groups(&topic).await.unwrap(), [group("a"), group("b")]);
    make_group(&store, &other, &group("c")).await;
    let delete = Write::DeleteGroup {
        topic: topic.clone(),
        group: group("a"),
    };
    write(&store, delete).await.unwrap();
    make_group(&store, &topic, &group("c")).await;
}

pub async fn a_deleted_topic_takes_everything_along(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, neighbour) = (topic("deleted"), topic("deleted.not"));
    let keyed = |id: &str| NewEvent {
        key: Some("k".into()),
        ..event(id)
    };
    for topic in [&topic, &neighbour] {
        append(&store, topic, vec![keyed("a"), keyed("b")]).await.unwrap();
        make_group(&store, topic, &group("g")).await;
    }
    let delete = Write::DeleteTopic { topic: topic.clone() };
    assert_eq!(write(&store, delete).await, Ok(Written::Done));
    assert_eq!(store.topic(&topic).await.unwrap(), None);
    assert!(all(&store, &topic).await.is_empty());
    assert!(store.groups(&topic).await.unwrap().is_empty());
    assert_eq!(store.group(&topic, &group("g")).await.unwrap(), None);
    assert_eq!(store.seqs_of_ids(&topic, vec!["a".into()]).await.unwrap(), [None]);
    assert_eq!(store.newest_by_key(&topic, "k").await.unwrap(), None);
    assert_eq!(seqs(&all(&store, &neighbour).await), [1, 2]);
    assert_eq!(store.groups(&neighbour).await.unwrap(), [group("g")]);

    let answer = append(&store, &topic, vec![event("b")]).await.unwrap();
    assert!(matches!(&answer[0], Appended::New(event) if event.seq == 1 && event.ordinal == 1));
    assert_eq!(seqs(&all(&store, &topic).await), [1]);
    assert_eq!(store.seqs_of_ids(&topic, vec!["a".into()]).await.unwrap(), [None]);
    assert_eq!(store.newest_by_key(&topic, "k").await.unwrap(), None);
}

pub async fn deleting_what_is_not_there_is_done(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("deleted.never");
    let group = group("g");
    let delete_group = Write::DeleteGroup {
        topic: topic.clone(),
        group,
    };
    let answers = store
        .commit(vec![delete_group, Write::DeleteTopic { topic }], NOW)
        .await;
    assert_eq!(answers, Ok(vec![Ok(Written::Done), Ok(Written::Done)]));
}

pub async fn a_topic_deleted_and_made_again_in_one_batch_is_new(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("deleted.again");
    append(&store, &topic, events("old", 3)).await.unwrap();
    let batch = vec![
        append_one(&topic, event("a")),
        create(&topic, "g"),
        Write::DeleteTopic { topic: topic.clone() },
        append_one(&topic, event("b")),
    ];
    store.commit(batch, NOW).await.unwrap();
    let kept = all(&store, &topic).await;
    assert_eq!((kept.len(), kept[0].seq, &*kept[0].id), (1, 1, "b"));
    assert!(store.groups(&topic).await.unwrap().is_empty());
    assert_eq!(
        store
            .seqs_of_ids(&topic, vec!["old-0".into(), "a".into(), "b".into()])
            .await
            .unwrap(),
        [None, None, Some(1)]
    );
}

pub async fn a_closed_store_says_so(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("closed");
    append(&store, &topic, events("x", 1)).await.unwrap();
    assert_eq!(store.close().await, Ok(()));
    let batch = vec![append_one(&topic, event("y"))];
    assert_eq!(store.commit(batch, NOW).await, Err(StoreError::Closed));
    assert_eq!(store.topic(&topic).await, Err(StoreError::Closed));
    assert_eq!(store.topics().await, Err(StoreError::Closed));
    assert_eq!(store.read(&topic, 1, 1, 1).await, Err(StoreError::Closed));
    assert_eq!(store.ready().await, Err(StoreError::Closed));
    assert_eq!(store.close().await, Ok(()));
}
