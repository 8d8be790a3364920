//! Too much of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;

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
    assert!(peak - base < 24 << 10, "{base} KiB before, {peak} KiB at most");
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

/// How often a flood is sent, and how many publishes another client makes meanwhile.
const ROUNDS: usize = 10;
const PUBLISHES: usize = 60;

/// How long publishes to a topic of their own take.
async fn latencies(client: &mut Client, publishes: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..publishes {
        let began = Instant::now();
        client.publish("quiet", json!(1)).await;
        times.push(began.elapsed());
    }
    times
}

/// Floods one gateway with these bytes, whose answers nobody reads, while a client of another one works.
async fn beside(flooded: &Process, measured: &mut Client, bytes: &[u8]) -> Vec<Duration> {
    let mut raw = Raw::connect(flooded.address).await;
    let flood = async {
        loop {
            raw.send(bytes).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        times = latencies(measured, PUBLISHES) => times,
        () = flood => unreachable!("a flood has no end"),
    }
}

/// What a flood does to others of the same gateway, next to what the same flood does to them through another gateway on the
/// same machine: that much is the machine's. Turn by turn, so that both have the same noise. On a busy machine a thread that
/// works waits longer for its turn than one that rests, so the bound is wide: it is for stalls.
async fn floods_alike(name: &str, bytes: &[u8]) -> Process {
    let start = || Process::start(&["gateway.write_timeout=2s"]);
    let (own, other) = (start(), start());
    let mut client = own.connect().await;
    let (mut through, mut beside_it) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        through.extend(beside(&own, &mut client, bytes).await);
        beside_it.extend(beside(&other, &mut client, bytes).await);
    }
    let (through, beside_it) = (p99(through), p99(beside_it));
    println!("{name}: others' p99 {through:?}, {beside_it:?} where another gateway is flooded");
    assert!(
        through < beside_it * 10 + Duration::from_millis(500),
        "{name}: {through:?}, and {beside_it:?} by the machine alone"
    );
    own
}

#[actix::test]
async fn a_flood_of_pings_does_not_move_others() {
    let gateway = floods_alike("pings", &frame(0x89, &[b'p'; 125]).repeat(200)).await;
    let (_, peak) = gateway.memory_kib();
    println!("pings: memory at most {peak} KiB");
    assert!(peak < 96 << 10, "{peak} KiB at most");
}

#[actix::test]
async fn a_flooded_topic_does_not_move_another() {
    let publish = text(r#"{"op":"PUBLISH","topic":"loud","payload":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#);
    let gateway = floods_alike("a flooded topic", &publish.repeat(100)).await;
    // However fast the machine: how much of the flood went before each of the other's publishes. A connection has up to 8,192
    // of them waiting; a slice of each actor and the commits that a publish waits for are a fraction of that.
    let loud = gateway.figure("tidegate_events_published_total{topic=\"loud\"}").await;
    let ahead = loud / (ROUNDS * PUBLISHES) as f64;
    println!("a flooded topic: {ahead:.0} of its publishes for each of another topic's");
    assert!(loud > 10_000.0, "no flood: {loud}");
    assert!(
        ahead < 3_000.0,
        "{ahead:.0} of the flood went before each publish of another topic"
    );
}

#[actix::test]
async fn a_flooded_topic_leaves_room_at_the_store_for_others() {
    let held = Arc::new(AtomicBool::new(false));
    let hold = held.clone();
    let faults = Faults::new(move |place| {
        while place == "store.committed" && hold.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let gateway = TestGateway::start_with(&["gateway.write_buffer=67108864"], Timing::default(), faults);
    let (mut loud, mut quiet) = (gateway.connect().await, gateway.connect().await);
    quiet.publish("quiet", json!(1)).await;
    held.store(true, Ordering::SeqCst);
    quiet
        .send(json!({"op": "PUBLISH", "topic": "quiet", "payload": 2}))
        .await;
    // 25 MiB, of which a topic may have 16 waiting.
    let payload = "x".repeat(100 << 10);
    for _ in 0..250 {
        loud.send(json!({"op": "PUBLISH", "topic": "loud", "payload": payload}))
            .await;
    }
    // Its own answers come in their order, after those that wait: others are told at once.
    let mut others = Vec::new();
    let publish = json!({"op": "PUBLISH", "topic": "loud", "payload": payload, "corr": 1});
    let refused = loop {
        let mut other = gateway.connect().await;
        other.send_text(publish.to_string()).await;
        match tokio::time::timeout(Duration::from_millis(200), other.answer()).await {
            Ok(answer) => break answer,
            Err(_) => others.push(other),
        }
        assert!(others.len() < 100, "a topic takes all the room there is");
    };
    assert_eq!(refused["code"], "overloaded", "{refused}");
    quiet
        .send(json!({"op": "PUBLISH", "topic": "quiet", "payload": 3}))
        .await;
    held.store(false, Ordering::SeqCst);
    for _ in 0..2 {
        let answer = quiet.answer().await;
        assert_eq!(answer["op"], "OK", "{answer}");
    }
    let mut taken = 0;
    for _ in 0..250 {
        let answer = loud.answer().await;
        match answer["op"].as_str() {
            Some("OK") => taken += 1,
            _ => assert_eq!(answer["code"], "overloaded", "{answer}"),
        }
    }
    assert!(taken > 100, "{taken}");
}
