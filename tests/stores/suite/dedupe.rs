//! Marks of what consumers have handled.

use tidegate::domain::{GroupName, TopicName};
use tidegate::store::{Refused, Write, Written};

use crate::bench::*;

fn mark(topic: &TopicName, group: &GroupName, id: &str, until_ms: u64) -> Write {
    Write::MarkSeen {
        topic: topic.clone(),
        group: group.clone(),
        id: id.into(),
        until_ms,
    }
}

pub async fn a_mark_lasts_until_its_end(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("marks.end"), group("g"));
    make_group(&store, &topic, &group).await;
    assert!(!store.seen(&topic, &group, "a", NOW).await.unwrap());
    let answer = write(&store, mark(&topic, &group, "a", NOW + 10)).await;
    assert_eq!(answer, Ok(Written::Done));
    for (now, expected) in [(NOW, true), (NOW + 9, true), (NOW + 10, false), (u64::MAX, false)] {
        assert_eq!(store.seen(&topic, &group, "a", now).await.unwrap(), expected, "{now}");
    }
    write_at(&store, mark(&topic, &group, "b", NOW + 100), NOW + 50)
        .await
        .unwrap();
    assert!(!store.seen(&topic, &group, "a", NOW + 50).await.unwrap());
    assert!(store.seen(&topic, &group, "b", NOW + 50).await.unwrap());
}

pub async fn a_second_mark_replaces_the_first(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("marks.second"), group("g"));
    make_group(&store, &topic, &group).await;
    let batch = vec![
        mark(&topic, &group, "a", NOW + 10),
        mark(&topic, &group, "a", NOW + 20),
        mark(&topic, &group, "b", NOW + 20),
        mark(&topic, &group, "b", NOW + 10),
    ];
    store.commit(batch, NOW).await.unwrap();
    assert!(store.seen(&topic, &group, "a", NOW + 15).await.unwrap());
    assert!(!store.seen(&topic, &group, "b", NOW + 15).await.unwrap());
}

pub async fn marks_belong_to_one_group(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (one, two) = (topic("marks.one"), topic("marks.two"));
    for (topic, name) in [(&one, "g"), (&one, "h"), (&two, "g")] {
        make_group(&store, topic, &group(name)).await;
    }
    write(&store, mark(&one, &group("g"), "a", NOW + 10)).await.unwrap();
    assert!(store.seen(&one, &group("g"), "a", NOW).await.unwrap());
    assert!(!store.seen(&one, &group("g"), "aa", NOW).await.unwrap());
    assert!(!store.seen(&one, &group("h"), "a", NOW).await.unwrap());
    assert!(!store.seen(&two, &group("g"), "a", NOW).await.unwrap());
}

pub async fn marks_go_with_their_group_and_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("marks.gone"), group("g"));
    let deletions = [
        Write::DeleteGroup {
            topic: topic.clone(),
            group: group.clone(),
        },
        Write::DeleteTopic { topic: topic.clone() },
    ];
    for delete in deletions {
        make_group(&store, &topic, &group).await;
        write(&store, mark(&topic, &group, "a", NOW + 10)).await.unwrap();
        write(&store, delete).await.unwrap();
        assert!(!store.seen(&topic, &group, "a", NOW).await.unwrap());
        make_group(&store, &topic, &group).await;
        assert!(!store.seen(&topic, &group, "a", NOW).await.unwrap());
        write(&store, Write::DeleteTopic { topic: topic.clone() })
            .await
            .unwrap();
    }
}

pub async fn a_mark_needs_its_group(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("marks.none"), group("g"));
    let answer = write(&store, mark(&topic, &group, "a", NOW + 10)).await;
    assert_eq!(answer, Err(Refused::NoSuchGroup(group)));
}
