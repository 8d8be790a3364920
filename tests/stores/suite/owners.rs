//! Owners and leases: who may claim a group where several gateways share the store, and that nobody waits where they do
//! not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidegate::store::{Cluster, OwnerId, Refused, Store, TopicMoved, Write, Written};

use crate::bench::*;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);
/// A test that waits for longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);

fn claim(topic: &str, name: &str, owner: &OwnerId) -> Write {
    Write::ClaimGroup {
        topic: crate::bench::topic(topic),
        group: group(name),
        owner: owner.clone(),
    }
}

/// A store that is shared, or else the proof that claims are simply taken over in this one.
async fn shared(store: &Arc<dyn Store>, name: &str) -> Option<Arc<dyn Cluster>> {
    make_group(store, &topic(name), &group("g")).await;
    if store.shares(&topic(name)) {
        return Some(store.cluster().unwrap());
    }
    let first = epoch(write(store, claim(name, "g", &OwnerId::random())).await);
    let second = epoch(write(store, claim(name, "g", &OwnerId::random())).await);
    assert!(
        second > first,
        "in a store of one process nobody waits for a dead owner"
    );
    None
}

/// Waits until the group is free.
async fn until_free(cluster: &Arc<dyn Cluster>, name: &str) {
    let wait = async {
        while cluster.holders(vec![(topic(name), group("g"))]).await.unwrap()[0].is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.expect("a lease that ends");
}

pub async fn a_claim_waits_while_another_owner_lives(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let name = "owners.wait";
    let Some(cluster) = shared(&store, name).await else {
        return;
    };
    let (one, two) = (OwnerId::random(), OwnerId::random());
    cluster.begin_lease(&one, LONG).await.unwrap();
    cluster.begin_lease(&two, LONG).await.unwrap();
    let first = epoch(write(&store, claim(name, "g", &one)).await);
    match write(&store, claim(name, "g", &two)).await {
        Err(Refused::Held { owner, left_ms }) => {
            assert_eq!(owner, one);
            assert!((1..=600_000).contains(&left_ms) && left_ms > 500_000, "{left_ms}");
        }
        other => panic!("{other:?}"),
    }
    let state = store.group(&topic(name), &group("g")).await.unwrap().unwrap();
    assert_eq!(state.epoch, first, "a claim that is refused changes nothing");
    let asked = vec![
        (topic("owners.nothing"), group("g")),
        (topic(name), group("g")),
        (topic(name), group("other")),
    ];
    let holders = cluster.holders(asked).await.unwrap();
    assert_eq!(holders.len(), 3);
    assert!(holders[0].is_none() && holders[2].is_none());
    assert_eq!(holders[1].as_ref().unwrap().owner, one);
    let again = epoch(write(&store, claim(name, "g", &one)).await);
    assert!(again > first, "its own group an owner may claim again");
    let missing = write(&store, claim(name, "missing", &two)).await;
    assert_eq!(missing, Err(Refused::NoSuchGroup(group("missing"))));
}

pub async fn a_group_that_was_let_go_is_free_at_once(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let name = "owners.release";
    let Some(cluster) = shared(&store, name).await else {
        return;
    };
    let (one, two) = (OwnerId::random(), OwnerId::random());
    cluster.begin_lease(&one, LONG).await.unwrap();
    cluster.begin_lease(&two, LONG).await.unwrap();
    let first = epoch(write(&store, claim(name, "g", &one)).await);
    let release = |epoch| Write::ReleaseGroup {
        topic: topic(name),
        group: group("g"),
        epoch,
    };
    assert_eq!(write(&store, release(first - 1)).await, Err(Refused::Fenced));
    let held = write(&store, claim(name, "g", &two)).await;
    assert!(matches!(held, Err(Refused::Held { .. })), "{held:?}");
    assert_eq!(write(&store, release(first)).await, Ok(Written::Done));
    let second = epoch(write(&store, claim(name, "g", &two)).await);
    assert!(second > first);
    assert_eq!(
        write(&store, release(first)).await,
        Err(Refused::Fenced),
        "not its to let go"
    );
    assert!(
        cluster.renew_lease(&one, LONG).await.unwrap(),
        "who let a group go keeps its lease"
    );
}

pub async fn a_lease_that_is_over_frees_its_groups_and_never_comes_back(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let name = "owners.over";
    let Some(cluster) = shared(&store, name).await else {
        return;
    };
    let (one, two) = (OwnerId::random(), OwnerId::random());
    cluster.begin_lease(&one, SHORT).await.unwrap();
    cluster.begin_lease(&two, LONG).await.unwrap();
    let first = epoch(write(&store, claim(name, "g", &one)).await);
    until_free(&cluster, name).await;
    assert!(
        cluster.renew_lease(&one, SHORT).await.unwrap(),
        "nobody took it: it goes on"
    );
    let held = write(&store, claim(name, "g", &two)).await;
    assert!(matches!(held, Err(Refused::Held { .. })), "{held:?}");
    until_free(&cluster, name).await;
    let second = epoch(write(&store, claim(name, "g", &two)).await);
    assert!(second > first);
    assert!(
        !cluster.renew_lease(&one, LONG).await.unwrap(),
        "it was taken: it is over"
    );
    let stale = Write::SaveCursors {
        topic: topic(name),
        group: group("g"),
        epoch: first,
        updates: vec![],
        dead_letters: vec![event("letter")],
    };
    assert_eq!(write(&store, stale).await, Err(Refused::Fenced));
}

pub async fn an_ended_lease_frees_all_its_groups(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let name = "owners.end";
    let Some(cluster) = shared(&store, name).await else {
        return;
    };
    make_group(&store, &topic(name), &group("h")).await;
    let (one, two) = (OwnerId::random(), OwnerId::random());
    cluster.begin_lease(&one, LONG).await.unwrap();
    cluster.begin_lease(&two, LONG).await.unwrap();
    for name_of_group in ["g", "h"] {
        epoch(write(&store, claim(name, name_of_group, &one)).await);
    }
    cluster.end_lease(&one).await.unwrap();
    for name_of_group in ["g", "h"] {
        epoch(write(&store, claim(name, name_of_group, &two)).await);
    }
    assert!(!cluster.renew_lease(&one, LONG).await.unwrap());
    cluster.end_lease(&one).await.unwrap();
}

pub async fn others_hear_how_far_a_topic_is(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let name = "owners.news";
    let Some(cluster) = shared(&store, name).await else {
        return;
    };
    let watched = cluster.watch().await.unwrap();
    append(&store, &topic(name), events("a", 3)).await.unwrap();
    append(&store, &topic(name), events("b", 2)).await.unwrap();
    let asked = vec![topic("owners.nothing"), topic(name)];
    assert_eq!(cluster.tails(asked).await.unwrap(), [None, Some(5)]);
    // A store without news is asked for its tails instead.
    let Some(mut news) = watched else { return };
    let heard = async {
        let told = TopicMoved {
            topic: topic(name),
            tail: 5,
        };
        while let Some(moved) = news.next().await {
            if moved == told {
                return;
            }
        }
        panic!("the news ended");
    };
    tokio::time::timeout(DEADLINE, heard).await.expect("news of the topic");
}
