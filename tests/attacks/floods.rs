//! Too much of everything.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::{Process, p99};
use crate::raw::{Raw, frame, head, text};
use crate::support::{Client, TestGateway};

#[actix::test]
async fn a_declared_terabyte_and_fragments_of_a_byte_take_no_memory() {
    let gateway = Process::start(&[]);
    drop(gateway.connect().await);
    let (base, _) = gateway.memory_kib();
    let mut raw = Raw::connect(gateway.address).await;
    raw.send(&head(0x82, 1 << 40)).await;
    for _ in 0..100 {
        raw.send(&vec![0; 512 << 10]).await;
    }
    let mut raw = Raw::connect(gateway.address).await;
    raw.send(&frame(0x01, b"x")).await;
    let fragments = frame(0x00, b"x").repeat(64 << 10);
    for _ in 0..160 {
        raw.send(&fragments).await;
    }
    assert_eq!(raw.close_code().await, 1009);
    let (_, peak) = gateway.memory_kib();
    println!("1 TiB declared, 10 MiB in fragments: memory +{} KiB", peak - base);
    assert!(peak - base < 16 << 10, "{base} KiB before, {peak} KiB at most");
}

#[actix::test]
async fn every_publish_of_a_flood_is_answered() {
    let gateway = TestGateway::start(&[
        "limits.connection={capacity=200,refill_per_sec=200}",
        "limits.topic={capacity=100,refill_per_sec=100}",
    ]);
    let mut client = gateway.connect().await;
    let (mut ok, mut limited) = (0, 0);
    for _ in 0..20 {
        for n in 0..1_000 {
            client.send(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await;
        }
        for _ in 0..1_000 {
            let answer = client.answer().await;
            match (answer["op"].as_str(), answer["code"].as_str()) {
                (Some("OK"), _) => ok += 1,
                (_, Some("rate_limited")) => limited += 1,
                _ => panic!("{answer}"),
            }
        }
    }
    assert_eq!(ok + limited, 20_000);
    assert!(ok >= 100 && limited > 10_000, "{ok} OK, {limited} limited");
}

async fn latency(client: &mut Client, publishes: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..publishes {
        let began = Instant::now();
        client.publish("quiet", json!(1)).await;
        times.push(began.elapsed());
    }
    p99(times)
}

/// Floods with these bytes, whose answers nobody reads, while another client works; the other's p99 before and during.
async fn flooded(gateway: &Process, bytes: &[u8]) -> (Duration, Duration) {
    let mut other = gateway.connect().await;
    let before = latency(&mut other, 500).await;
    let mut raw = Raw::connect(gateway.address).await;
    let flood = async {
        loop {
            raw.send(bytes).await;
            tokio::task::yield_now().await;
        }
    };
    let during = tokio::select! {
        during = latency(&mut other, 500) => during,
        () = flood => unreachable!("a flood has no end"),
    };
    (before, during)
}

#[actix::test]
async fn a_flood_of_pings_does_not_move_others() {
    let gateway = Process::start(&["gateway.write_timeout=2s"]);
    let (base, _) = gateway.memory_kib();
    let (before, during) = flooded(&gateway, &frame(0x89, &[b'p'; 125]).repeat(200)).await;
    let (_, peak) = gateway.memory_kib();
    println!(
        "pings: others' p99 {before:?} before, {during:?} during; memory +{} KiB",
        peak - base
    );
    assert!(
        during < before * 10 + Duration::from_millis(50),
        "{before:?} before, {during:?} during"
    );
    assert!(peak - base < 32 << 10, "{base} KiB before, {peak} KiB at most");
}

#[actix::test]
async fn a_flooded_topic_does_not_move_another() {
    let gateway = Process::start(&["gateway.write_timeout=2s"]);
    let publish = text(r#"{"op":"PUBLISH","topic":"loud","payload":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#);
    let (before, during) = flooded(&gateway, &publish.repeat(100)).await;
    println!("a flooded topic: another's p99 {before:?} before, {during:?} during");
    assert!(
        during < before * 10 + Duration::from_millis(50),
        "{before:?} before, {during:?} during"
    );
}
