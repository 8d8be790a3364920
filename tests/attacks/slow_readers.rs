//! Clients that do not read what is written to them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::{Process, p99};
use crate::raw::{Raw, text};
use crate::support::Client;

const TIMEOUT: &str = "gateway.write_timeout=2s";

/// A client that subscribes and reads nothing, not even the answer.
async fn stalled(gateway: &Process, frame: &str) -> Raw {
    let mut raw = Raw::with_receive_buffer(gateway.address, Some(4_096)).await;
    raw.send(&text(frame)).await;
    raw
}

async fn publish_large(client: &mut Client, topic: &str, events: usize) {
    let payload = "x".repeat(100 << 10);
    for _ in 0..events {
        client.publish(topic, json!(payload)).await;
    }
}

/// The 99th percentile of publishes to a topic of its own.
async fn latency(client: &mut Client, publishes: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..publishes {
        let began = Instant::now();
        client.publish("quiet", json!(1)).await;
        times.push(began.elapsed());
    }
    p99(times)
}

fn cut(reason: &str) -> String {
    format!("tidegate_connections_cut_total{{reason=\"{reason}\"}}")
}

#[actix::test]
async fn a_member_that_does_not_read_is_cut_off_and_its_events_go_to_another() {
    let gateway = Process::start(&[TIMEOUT, "gateway.write_buffer=2097152"]);
    let (mut publisher, mut other) = (gateway.connect().await, gateway.connect().await);
    let before = latency(&mut other, 300).await;
    let _stalled = stalled(
        &gateway,
        r#"{"op":"SUBSCRIBE","topic":"t","group":"g","opts":{"maxInFlight":10000}}"#,
    )
    .await;
    gateway
        .until("the member is there", async |gateway| {
            gateway.figure("tidegate_ws_connections").await == 3.0
        })
        .await;
    let (base, _) = gateway.memory_kib();
    publish_large(&mut publisher, "t", 150).await;
    let stuck = Instant::now();
    let during = latency(&mut other, 300).await;
    let reason = cut("write_timeout");
    gateway
        .until("it is cut off", async |gateway| gateway.figure(&reason).await == 1.0)
        .await;
    let took = stuck.elapsed();
    assert!(took < Duration::from_secs(4), "cut off after {took:?}");
    gateway
        .until("it is gone", async |gateway| {
            gateway.figure("tidegate_ws_connections").await == 2.0
        })
        .await;
    // All of its events go to the next member.
    let mut member = gateway.connect().await;
    member
        .subscribe("t", "g", json!({"maxInFlight": 10_000, "ackTimeoutMs": 60_000}))
        .await;
    let mut seen = HashSet::new();
    while seen.len() < 150 {
        seen.insert(member.event().await["event"]["seq"].as_u64().unwrap());
    }
    let (_, peak) = gateway.memory_kib();
    let grown = peak.saturating_sub(base);
    println!("cut off after {took:?}; others' p99 {before:?} before, {during:?} during; memory +{grown} KiB");
    // The store keeps 15 MiB of events.
    assert!(grown < 50 << 10, "{grown} KiB");
    assert!(
        during < before * 5 + Duration::from_millis(50),
        "{before:?} before, {during:?} during"
    );
}

#[actix::test]
async fn a_hundred_of_them_take_no_more_than_their_buffers() {
    let gateway = Process::start(&[TIMEOUT, "gateway.write_buffer=524288"]);
    let mut publisher = gateway.connect().await;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(stalled(&gateway, r#"{"op":"SUBSCRIBE","topic":"t"}"#).await);
    }
    let (base, _) = gateway.memory_kib();
    publish_large(&mut publisher, "t", 120).await;
    let reason = cut("write_timeout");
    gateway
        .until("all are cut off", async |gateway| {
            gateway.figure(&reason).await == 100.0
        })
        .await;
    gateway
        .until("all are gone", async |gateway| {
            gateway.figure("tidegate_ws_connections").await == 1.0
        })
        .await;
    let (_, peak) = gateway.memory_kib();
    let grown = peak.saturating_sub(base);
    println!("100 stalled clients: memory +{grown} KiB");
    // Each its buffer of 512 KiB and the socket's; and the store's 12 MiB.
    assert!(grown < 110 << 10, "{grown} KiB");
}

#[actix::test]
async fn answers_that_nobody_reads_are_bounded() {
    // One answer has its place; several do not.
    let gateway = Process::start(&["gateway.write_timeout=60s", "gateway.write_buffer=65536"]);
    let mut raw = Raw::with_receive_buffer(gateway.address, Some(4_096)).await;
    let events = vec![json!({"payload": 1}); 1_000];
    let batch = text(&json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}).to_string());
    let flood = async {
        for _ in 0..2_000 {
            raw.send(&batch).await;
        }
    };
    let reason = cut("write_buffer");
    let cut_off = gateway.until("it is cut off", async |gateway| gateway.figure(&reason).await == 1.0);
    tokio::select! {
        () = cut_off => {}
        () = async { flood.await; std::future::pending().await } => {}
    }
}

#[actix::test]
async fn who_can_still_be_told_is_told_why() {
    let gateway = Process::start(&["gateway.write_buffer=4096"]);
    let mut client = gateway.connect().await;
    client.publish("t", json!(1)).await;
    // The answer alone is more than may wait, and the socket takes the close all the same.
    let events = vec![json!({"payload": 1}); 1_000];
    client
        .send(json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}))
        .await;
    assert_eq!(client.closed().await, 4408);
    assert_eq!(gateway.figure(&cut("write_buffer")).await, 1.0);
}

#[actix::test]
async fn over_the_budget_the_largest_is_cut_off() {
    let gateway = Process::start(&[
        "gateway.write_timeout=60s",
        "gateway.write_buffer=2097152",
        "gateway.write_budget=2097152",
    ]);
    let mut publisher = gateway.connect().await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(stalled(&gateway, r#"{"op":"SUBSCRIBE","topic":"t"}"#).await);
    }
    publish_large(&mut publisher, "t", 150).await;
    let reason = cut("write_budget");
    gateway
        .until("some are cut off", async |gateway| gateway.figure(&reason).await >= 2.0)
        .await;
    publisher.publish("t", json!(1)).await;
}
