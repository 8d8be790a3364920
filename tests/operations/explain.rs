//! Every reason why a group does not move, made to happen on a real gateway and named rightly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;

use crate::http::{becomes, expect};
use crate::support::{Client, TestGateway};

const EXPLAIN: &str = "/groups/t/g/explain";

async fn explained(gateway: &TestGateway, state: &str) -> Value {
    let found = becomes(gateway.address, EXPLAIN, |found| found["state"] == state).await;
    let sentence = found["sentence"].as_str().unwrap();
    assert!(sentence.contains(char::is_numeric), "no number in {sentence:?}");
    assert!(sentence.ends_with('.') && !sentence.contains('\n'), "{sentence:?}");
    assert!(found["next"]["what"].is_string(), "{found}");
    found
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// A moment is in the future, and not further than this.
fn assert_soon(ms: &Value, most_ms: u64) {
    let at = ms.as_u64().unwrap_or_else(|| panic!("no moment: {ms}"));
    let now = now_ms();
    assert!(
        at + 5_000 > now && at < now + most_ms,
        "{at} is not within {most_ms} ms of {now}"
    );
}

async fn publish(client: &mut Client, count: usize) {
    for n in 0..count {
        client.publish("t", json!(n)).await;
    }
}

#[actix::test]
async fn caught_up_and_moving() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxInFlight": 1})).await;
    let found = explained(&gateway, "caught_up").await;
    assert_eq!((&found["lag"], &found["next"]["what"]), (&json!(0), &json!("publish")));
    publish(&mut client, 30).await;
    for _ in 0..20 {
        let event = client.event().await;
        client.ack("t", "g", &event["event"]["id"]).await;
    }
    let found = explained(&gateway, "moving").await;
    assert_eq!((&found["lag"], &found["moving"]), (&json!(10), &json!(true)));
    assert!(found["settledPerSecond"].as_f64().unwrap() > 0.0, "{found}");
    // It settles fewer than were published: it says so, or when it will be done.
    let zero = &found["zeroLagInMs"];
    assert!(zero.is_null() || zero.as_u64().unwrap() > 0, "{found}");
    assert!(found["next"]["atMs"].as_u64().is_some(), "{found}");
}

#[actix::test]
async fn paused_by_whom_and_since_when() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    expect(gateway.address, "POST /groups/t/g/pause", "", 200).await;
    publish(&mut client, 3).await;
    let found = explained(&gateway, "paused").await;
    assert_eq!((&found["lag"], &found["events"]), (&json!(3), &json!(3)));
    assert_eq!(found["paused"]["by"], "an operator");
    assert!(now_ms().abs_diff(found["paused"]["sinceMs"].as_u64().unwrap()) < 20_000);
    assert_eq!(found["next"], json!({"what": "resume", "atMs": null, "inMs": null}));
    assert!(client.events_so_far().await.is_empty(), "nothing is delivered");
    expect(gateway.address, "POST /groups/t/g/resume", "", 200).await;
    assert_eq!(client.events(3).await.len(), 3);
}

#[actix::test]
async fn no_members_and_when_retention_takes_the_oldest() {
    let gateway = TestGateway::start(&["topic=[{name=\"t\",retention={age=\"1h\"}}]"]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    publish(&mut client, 2).await;
    let found = explained(&gateway, "no_members").await;
    assert_eq!((&found["lag"], &found["oldest"]["seq"]), (&json!(2), &json!(1)));
    assert_eq!(found["next"]["what"], "expiry");
    assert_soon(&found["next"]["atMs"], 3_600_000 + 1);
}

#[actix::test]
async fn all_members_paused() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    publish(&mut client, 2).await;
    let found = explained(&gateway, "members_paused").await;
    assert_eq!(found["members"][0]["paused"], true);
    assert_eq!(found["next"]["what"], "member_resume");
}

#[actix::test]
async fn all_members_at_max_in_flight_and_who_holds_what() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"maxInFlight": 2, "ackTimeoutMs": 60_000}))
        .await;
    publish(&mut client, 5).await;
    let events = client.events(2).await;
    let found = explained(&gateway, "max_in_flight").await;
    assert_eq!((&found["lag"], &found["inFlight"]), (&json!(5), &json!(2)));
    let member = &found["members"][0];
    assert_eq!((&member["inFlight"], &member["maxInFlight"]), (&json!(2), &json!(2)));
    assert_eq!(member["client"], "127.0.0.1");
    for (held, event) in member["holds"].as_array().unwrap().iter().zip(&events) {
        assert_eq!(held["id"], event["event"]["id"]);
        assert!(held["sinceMs"].as_u64().unwrap() <= now_ms() + 1_000);
        assert_soon(&held["untilMs"], 61_000);
    }
    assert_eq!(found["next"]["what"], "lease_ends");
    assert_soon(&found["next"]["atMs"], 61_000);
}

#[actix::test]
async fn window_full_and_its_oldest_event() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let events: Vec<Value> = (0..1_000).map(|n| json!({"payload": n})).collect();
    for _ in 0..11 {
        client
            .ok(json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}))
            .await;
    }
    let opts = json!({"from": "earliest", "maxInFlight": 10_000, "ackTimeoutMs": 600_000, "batchSize": 1_000});
    client.subscribe("t", "g", opts).await;
    // All of the window but the first two, one of which was given back once.
    let mut ids = Vec::new();
    for frame in client.events(10_000).await {
        ids.push(frame["event"]["id"].clone());
    }
    client
        .ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": ids[0], "delay_ms": 0}))
        .await;
    assert_eq!(client.event().await["ctx"]["attempt"], 2);
    for ids in ids[2..].chunks(500) {
        client
            .ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": ids}))
            .await;
    }
    let found = explained(&gateway, "window_full").await;
    assert_eq!(found["lag"], 1_002);
    assert_eq!(
        (&found["oldest"]["seq"], &found["oldest"]["attempts"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(found["next"]["what"], "lease_ends");
    client.ack("t", "g", &ids[0]).await;
    client.ack("t", "g", &ids[1]).await;
    assert_eq!(client.event().await["event"]["seq"], 10_001, "it goes on");
}

#[actix::test]
async fn waiting_for_a_token_and_for_how_long() {
    for (set, bucket) in [
        (
            "limits.connection={capacity=3,refill_per_sec=0.05}",
            "limits.connection",
        ),
        ("limits.push={capacity=3,refill_per_sec=0.05}", "limits.push"),
    ] {
        let gateway = TestGateway::start(&[set]);
        let (mut publisher, mut other) = (gateway.connect().await, gateway.connect().await);
        let mut member = gateway.connect().await;
        member.subscribe("t", "g", json!({})).await;
        for n in 0..5 {
            let client = if n < 3 { &mut publisher } else { &mut other };
            client.publish("t", json!(n)).await;
        }
        for frame in member.events(3).await {
            member.ack("t", "g", &frame["event"]["id"]).await;
        }
        let found = explained(&gateway, "waiting_for_token").await;
        assert_eq!((&found["lag"], &found["bucket"]), (&json!(2), &json!(bucket)));
        assert_eq!(
            (&found["inFlight"], &found["ready"]),
            (&json!(0), &json!(2)),
            "no lease, no attempt"
        );
        assert_eq!(found["next"]["what"], "token");
        assert_soon(&found["next"]["atMs"], 20_100);
        assert!(found["sentence"].as_str().unwrap().contains(bucket));
    }
}

#[actix::test]
async fn a_client_that_does_not_read() {
    let gateway = TestGateway::start(&["gateway.write_timeout=20s", "limits.frame_bytes=1048576"]);
    let mut publisher = gateway.connect().await;
    let mut member = gateway.connect().await;
    member.subscribe("t", "g", json!({"maxInFlight": 10_000})).await;
    let payload = "x".repeat(500_000);
    // The kernel's buffers take some; then nothing moves, as the member does not read.
    for _ in 0..60 {
        publisher.publish("t", json!(payload)).await;
    }
    let found = explained(&gateway, "not_reading").await;
    let silent = &found["members"][0];
    assert!(silent["blockedSinceMs"].as_u64().is_some(), "{found}");
    assert!(silent["waitingBytes"].as_u64().unwrap() > 0);
    assert_eq!(found["next"]["what"], "cut_off");
    assert_soon(&found["next"]["atMs"], 20_100);
}

#[actix::test]
async fn a_key_blocked_by_an_event_that_is_not_acked() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"ordered": true, "ackTimeoutMs": 60_000}))
        .await;
    for n in 0..4 {
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": n, "opts": {"key": "k"}}))
            .await;
    }
    let first = client.event().await;
    let found = explained(&gateway, "key_blocked").await;
    assert_eq!((&found["lag"], &found["events"]), (&json!(4), &json!(3)));
    let key = &found["blockedKey"];
    assert_eq!((&key["key"], &key["waiting"]), (&json!("k"), &json!(3)));
    assert_eq!(key["behind"]["id"], first["event"]["id"]);
    assert_soon(&key["behind"]["untilMs"], 61_000);
    assert_eq!(found["next"]["what"], "lease_ends");
}

#[actix::test]
async fn waiting_in_back_off_and_in_flight() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    publish(&mut client, 1).await;
    let event = client.event().await;
    let found = explained(&gateway, "in_flight").await;
    assert_eq!(
        (&found["events"], &found["next"]["what"]),
        (&json!(1), &json!("lease_ends"))
    );
    let nack = json!({"op": "NACK", "topic": "t", "group": "g", "id": event["event"]["id"], "delay_ms": 50_000});
    client.ok(nack).await;
    let found = explained(&gateway, "back_off").await;
    assert_eq!(
        (&found["waiting"], &found["oldest"]["attempts"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(found["next"]["what"], "redelivery");
    assert_soon(&found["next"]["atMs"], 51_000);
}

#[actix::test]
async fn a_store_that_fails() {
    let broken = Arc::new(AtomicBool::new(false));
    let flag = broken.clone();
    let faults = Faults::new(move |place| {
        if place == "store.cursors" && flag.load(Ordering::Relaxed) {
            panic!("the store fails, as the test wants it");
        }
    });
    let gateway = TestGateway::start_with(&[], Timing::default(), faults);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    publish(&mut client, 2).await;
    let event = client.event().await;
    broken.store(true, Ordering::Relaxed);
    let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]});
    client.err(ack.clone(), "store_unavailable").await;
    let found = explained(&gateway, "store_unavailable").await;
    assert!(
        found["store"]["why"].as_str().is_some_and(|why| !why.is_empty()),
        "{found}"
    );
    assert_eq!(found["next"]["what"], "store_retry");
    assert_soon(&found["next"]["atMs"], 2_000);
    broken.store(false, Ordering::Relaxed);
    becomes(gateway.address, EXPLAIN, |found| found["state"] != "store_unavailable").await;
}

#[actix::test]
async fn a_group_that_is_not_there() {
    let gateway = TestGateway::start(&[]);
    let found = expect(gateway.address, &format!("GET {EXPLAIN}"), "", 404).await;
    assert_eq!(found["code"], "not_found");
}
