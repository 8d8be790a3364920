//! Large exports from the program itself, whose memory can be read from outside.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Reading, publish_many};
use crate::process::Process;
use crate::stores::{Kind, on_every_store};

on_every_store!(a_slow_reader_costs_no_memory_and_no_publisher);

const EVENTS: u64 = 200_000;
/// What an export may take: two pieces, and what the allocator keeps for more of them.
const EXTRA_KIB: u64 = 32 << 10;

async fn a_slow_reader_costs_no_memory_and_no_publisher(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let settings = kind.settings(&folder);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let process = Process::start(&settings);
    let mut publisher = process.connect().await;
    let padding = "p".repeat(150);
    publish_many(
        &mut publisher,
        "t",
        (1..=EVENTS).map(|n| json!({"payload": [n, padding]})),
    )
    .await;
    // Reading fills the store's own cache, once and whoever reads.
    assert!(
        Reading::begin(process.address, "GET /export?topic=t", &[], b"")
            .await
            .end()
            .await
            .complete
    );
    let before = process.memory_kib().0;
    let mut most = before;
    let mut reading = Reading::begin(process.address, "GET /export?topic=t", &[], b"").await;
    // Slowly at first, while others publish and measure.
    let mut slowest = Duration::ZERO;
    for n in 0..100 {
        assert!(reading.more().await);
        let began = Instant::now();
        publisher.publish("other", json!(n)).await;
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
        most = most.max(process.memory_kib().0);
    }
    assert!(reading.bytes.len() < 20 << 20, "it was read slowly");
    while reading.more().await {
        if reading.bytes.len() % 64 == 0 {
            most = most.max(process.memory_kib().0);
        }
    }
    most = most.max(process.memory_kib().0);
    let export = reading.end().await;
    assert!(export.complete);
    assert_eq!(export.body.iter().filter(|byte| **byte == b'\n').count() as u64, EVENTS);
    assert!(
        most - before < EXTRA_KIB,
        "{kind:?}: {before} KiB before, {most} KiB at most"
    );
    // A publish that waits for the reader would wait for its two seconds.
    assert!(slowest < Duration::from_millis(1_500), "{slowest:?}");
}
