//! Marks of what consumers have handled, and claims on what they are handling.

use tidegate::domain::{GroupName, TopicName};
use tidegate::store::{EventClaim, Refused, Write, Written};

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

fn claim(topic: &TopicName, group: &GroupName, id: &str, owner: &str, ttl_ms: u64) -> Write {
    Write::ClaimEvent {
        topic: topic.clone(),
        group: group.clone(),
        id: id.into(),
        owner: owner.into(),
        ttl_ms,
    }
}

fn release(topic: &TopicName, group: &GroupName, id: &str, owner: &str) -> Write {
    Write::ReleaseEvent {
        topic: topic.clone(),
        group: group.clone(),
        id: id.into(),
        owner: owner.into(),
    }
}

const GRANTED: Result<Written, Refused> = Ok(Written::Claim(EventClaim::Granted));
const SEEN: Result<Written, Refused> = Ok(Written::Claim(EventClaim::Seen));

fn is_held(answer: &Result<Written, Refused>, most_ms: u64) -> bool {
    matches!(answer, Ok(Written::Claim(EventClaim::Held { left_ms })) if *left_ms <= most_ms)
}

pub async fn an_event_is_claimed_by_one_at_a_time(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("claims.one"), group("g"));
    make_group(&store, &topic, &group).await;
    assert_eq!(write(&store, claim(&topic, &group, "a", "one", 60_000)).await, GRANTED);
    let answer = write(&store, claim(&topic, &group, "a", "two", 60_000)).await;
    assert!(is_held(&answer, 60_000), "{answer:?}");
    assert_eq!(write(&store, claim(&topic, &group, "b", "two", 60_000)).await, GRANTED);
    assert_eq!(
        write(&store, claim(&topic, &group, "a", "one", 60_000)).await,
        GRANTED,
        "it is its own"
    );
    let both = vec![
        claim(&topic, &group, "c", "one", 60_000),
        claim(&topic, &group, "c", "two", 60_000),
    ];
    let answers = store.commit(both, NOW).await.unwrap();
    assert!(answers[0] == GRANTED && is_held(&answers[1], 60_000), "{answers:?}");
}

/// Times are the store's own: `now_ms` where it has no other clock. So this one really waits.
pub async fn a_claim_ends_when_its_time_is_over(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("claims.over"), group("g"));
    make_group(&store, &topic, &group).await;
    assert_eq!(write(&store, claim(&topic, &group, "a", "one", 100)).await, GRANTED);
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    let later = write_at(&store, claim(&topic, &group, "a", "two", 60_000), NOW + 100).await;
    assert_eq!(later, GRANTED);
    let first = write_at(&store, claim(&topic, &group, "a", "one", 100), NOW + 100).await;
    assert!(is_held(&first, 60_000), "{first:?}");
    // What is over is nobody's to release.
    write_at(&store, release(&topic, &group, "a", "one"), NOW + 100)
        .await
        .unwrap();
    let third = write_at(&store, claim(&topic, &group, "a", "three", 100), NOW + 100).await;
    assert!(is_held(&third, 60_000), "{third:?}");
}

pub async fn a_claim_ends_by_its_owner_or_a_mark(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("claims.end"), group("g"));
    make_group(&store, &topic, &group).await;
    assert_eq!(write(&store, claim(&topic, &group, "a", "one", 60_000)).await, GRANTED);
    assert_eq!(
        write(&store, release(&topic, &group, "a", "two")).await,
        Ok(Written::Done)
    );
    let answer = write(&store, claim(&topic, &group, "a", "two", 60_000)).await;
    assert!(is_held(&answer, 60_000), "{answer:?}");
    assert_eq!(
        write(&store, release(&topic, &group, "a", "one")).await,
        Ok(Written::Done)
    );
    assert_eq!(write(&store, claim(&topic, &group, "a", "two", 60_000)).await, GRANTED);
    write(&store, mark(&topic, &group, "a", NOW + 10)).await.unwrap();
    assert!(store.seen(&topic, &group, "a", NOW).await.unwrap());
    for owner in ["one", "two"] {
        assert_eq!(write(&store, claim(&topic, &group, "a", owner, 60_000)).await, SEEN);
    }
    assert_eq!(
        write(&store, release(&topic, &group, "a", "two")).await,
        Ok(Written::Done)
    );
    assert!(
        store.seen(&topic, &group, "a", NOW).await.unwrap(),
        "a mark is no claim"
    );
    let over = write_at(&store, claim(&topic, &group, "a", "three", 10), NOW + 10).await;
    assert_eq!(over, GRANTED, "the mark is over, and the claim went with it");
}

pub async fn claims_belong_to_one_group_and_need_it(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, one, two) = (topic("claims.group"), group("g"), group("h"));
    for write_to_none in [claim(&topic, &one, "a", "me", 10), release(&topic, &one, "a", "me")] {
        let answer = write(&store, write_to_none).await;
        assert_eq!(answer, Err(Refused::NoSuchGroup(one.clone())));
    }
    make_group(&store, &topic, &one).await;
    make_group(&store, &topic, &two).await;
    assert_eq!(write(&store, claim(&topic, &one, "a", "me", 60_000)).await, GRANTED);
    assert_eq!(write(&store, claim(&topic, &two, "a", "you", 60_000)).await, GRANTED);
    let delete = Write::DeleteGroup {
        topic: topic.clone(),
        group: one.clone(),
    };
    write(&store, delete).await.unwrap();
    make_group(&store, &topic, &one).await;
    assert_eq!(write(&store, claim(&topic, &one, "a", "you", 60_000)).await, GRANTED);
}
