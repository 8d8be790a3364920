//! Owners that are frozen or cut off from the store: another takes over, and what they do later counts for nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pair::pair;

const LEASE: &str = "1s";

fn ids(frames: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = frames.iter().map(|frame| frame["event"]["id"].to_string()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_frozen_owner_is_followed_by_another_and_changes_nothing_when_it_thaws() {
    let (_store, one, two) = pair(LEASE);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({})).await;
    b.subscribe("t", "g", json!({})).await;
    for n in 0..4 {
        b.publish("t", json!(n)).await;
    }
    let got = a.events(4).await;
    a.ack("t", "g", &got[0]["event"]["id"]).await;

    one.freezer.freeze();
    let since = Instant::now();
    let again = b.events(3).await;
    assert!(since.elapsed() < Duration::from_secs(6), "within cluster.lease + 5 s");
    assert_eq!(ids(&again), ids(&got[1..]), "what was acked does not come again");
    assert!(again.iter().all(|frame| frame["ctx"]["attempt"] == 1), "not counted");
    b.ack("t", "g", &again[0]["event"]["id"]).await;

    one.freezer.thaw();
    // It had the event, and says so too late: the answer is no OK that would not hold.
    let late = a
        .err(
            json!({"op": "ACK", "topic": "t", "group": "g", "id": again[1]["event"]["id"]}),
            "ack_failed",
        )
        .await;
    assert!(late["retry_after_ms"].is_u64(), "{late}");
    b.publish("t", json!("new")).await;
    let new = b.event().await;
    assert_eq!(new["event"]["payload"], "new", "the new owner goes on");
    for frame in again[1..].iter().chain([&new]) {
        b.ack("t", "g", &frame["event"]["id"]).await;
    }
    assert!(
        a.events_so_far().await.is_empty(),
        "the old owner delivers nothing any more"
    );

    // It stands by, and takes its turn when the other is gone.
    drop(two);
    a.publish("t", json!("back")).await;
    let back = a.event().await;
    assert_eq!(back["event"]["payload"], "back", "all that was acked there stays acked");
    a.ack("t", "g", &back["event"]["id"]).await;
}

#[tokio::test]
async fn what_a_frozen_owner_was_about_to_write_is_not_written() {
    let (_store, one, two) = pair(LEASE);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({})).await;
    b.subscribe("t", "g", json!({})).await;
    // It has decided to deliver, and is frozen before the connection gets it.
    one.freezer.freeze_at("group.deliver");
    b.publish("t", json!(1)).await;
    let frame = b.event().await;
    assert!(
        one.freezer.stopped.load(Ordering::SeqCst),
        "the owner was frozen in the middle of a delivery"
    );
    b.ack("t", "g", &frame["event"]["id"]).await;
    one.freezer.thaw();
    b.publish("t", json!(2)).await;
    let frame = b.event().await;
    assert_eq!(frame["event"]["payload"], 2);
    assert!(
        a.events_so_far().await.is_empty(),
        "its OK'd ack was before: it must not come again"
    );
}

#[tokio::test]
async fn an_owner_that_is_cut_off_from_the_store_stops_and_goes_on_by_itself() {
    let (_store, one, two) = pair(LEASE);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({"maxInFlight": 1})).await;
    for n in 0..3 {
        b.publish("t", json!(n)).await;
    }
    let first = a.event().await;
    one.store.cut();
    let failed = a
        .call(json!({"op": "ACK", "topic": "t", "group": "g", "id": first["event"]["id"]}))
        .await;
    assert_eq!(failed["op"], "ERR", "an ack that is not durable is not OK: {failed}");
    one.until_lost(1).await;
    // While the lease lasted it may have gone on with what it had in memory.
    a.events_so_far().await;
    b.publish("t", json!(3)).await;
    for _ in 0..10 {
        assert!(
            a.events_so_far().await.is_empty(),
            "nothing is delivered without a lease"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.store.mend();
    for n in 0..4 {
        let frame = a.event().await;
        assert_eq!(
            (&frame["event"]["payload"], &frame["ctx"]["attempt"]),
            (&json!(n), &json!(1))
        );
        a.ack("t", "g", &frame["event"]["id"]).await;
    }
}

#[tokio::test]
async fn an_owner_that_is_cut_off_is_followed_by_another() {
    let (_store, one, two) = pair(LEASE);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({"autoAck": true})).await;
    b.subscribe("t", "g", json!({})).await;
    b.publish("t", json!(1)).await;
    a.event().await;
    one.store.cut();
    b.publish("t", json!(2)).await;
    // What was on its way when the line was cut may come to both; what follows comes to the new owner alone.
    let mut payloads = vec![];
    while payloads.last() != Some(&json!(2)) {
        let frame = b.event().await;
        b.ack("t", "g", &frame["event"]["id"]).await;
        payloads.push(frame["event"]["payload"].clone());
    }
    a.events_so_far().await;
    one.store.mend();
    for n in 3..20 {
        a.publish("t", json!(n)).await;
        let frame = b.event().await;
        assert_eq!(frame["event"]["payload"], n);
        b.ack("t", "g", &frame["event"]["id"]).await;
    }
    assert!(a.events_so_far().await.is_empty());
}
