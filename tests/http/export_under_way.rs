//! `GET /export` while something else happens: publishing, retention, a reader that leaves, a fault, a shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::actors::supervision::Faults;

use crate::client::{Reading, get, publish_many};
use crate::stores::{Kind, World, on_every_store};

on_every_store!(
    what_comes_later_is_not_part_of_it,
    retention_does_not_disturb_it,
    a_reader_that_is_gone_stops_the_work,
    a_fault_in_the_middle_does_not_look_like_the_end,
    a_shutdown_in_the_middle_does_not_look_like_the_end,
    a_reader_that_does_not_read_is_cut_off,
);

/// Far more than the sockets' buffers hold.
const EVENTS: u64 = 30_000;

async fn filled(kind: Kind, set: &[&str], faults: Faults) -> World {
    let world = kind.start_with(set, faults);
    let mut client = world.gateway.connect().await;
    let padding = "p".repeat(900);
    publish_many(&mut client, "t", (1..=EVENTS).map(|n| json!({"payload": [n, padding]}))).await;
    world
}

async fn begun(world: &World) -> Reading {
    let mut reading = Reading::begin(world.gateway.address, "GET /export?topic=t", &[], b"").await;
    reading.until("\"seq\":1,").await;
    reading
}

async fn exports_under_way(world: &World) -> String {
    let figures = get(&world.gateway, "/metrics").await;
    let line = figures
        .text()
        .lines()
        .find(|line| line.starts_with("tidegate_exports "));
    line.expect("the figure").to_owned()
}

async fn until_no_export_is_under_way(world: &World) {
    for _ in 0..1_000 {
        if exports_under_way(world).await == "tidegate_exports 0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("an export is still under way");
}

async fn what_comes_later_is_not_part_of_it(kind: Kind) {
    let world = filled(kind, &[], Faults::default()).await;
    let reading = begun(&world).await;
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", (0..100).map(|n| json!({"payload": n}))).await;
    let export = reading.end().await;
    assert_eq!(export.header("x-tidegate-last-seq"), Some(EVENTS.to_string().as_str()));
    assert!(export.seqs() == (1..=EVENTS).collect::<Vec<_>>());
}

async fn retention_does_not_disturb_it(kind: Kind) {
    let rules = "topic=[{name=\"t\",retention={count=40000}}]";
    let world = filled(kind, &[rules, "store.sweep_interval=50ms"], Faults::default()).await;
    let mut reading = begun(&world).await;
    let mut client = world.gateway.connect().await;
    // So many that of the first ones only the last 5,000 stay.
    publish_many(&mut client, "t", (0..35_000).map(|n| json!({"payload": n}))).await;
    let first = async || get(&world.gateway, "/replay?topic=t&limit=1").await.seqs()[0];
    while first().await < 25_001 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    reading.more().await;
    let seqs = reading.end().await.seqs();
    assert!(seqs.is_sorted_by(|one, next| one < next), "in order, each once");
    assert_eq!((seqs[0], *seqs.last().unwrap()), (1, EVENTS));
    let kept = seqs.iter().filter(|seq| **seq >= 25_001).count();
    assert_eq!(kept, 5_000, "what was kept all the time is all there");
    assert!(seqs.len() < EVENTS as usize, "and the rest went while it ran");
}

async fn a_reader_that_is_gone_stops_the_work(kind: Kind) {
    let world = filled(kind, &[], Faults::default()).await;
    let reading = begun(&world).await;
    assert_eq!(exports_under_way(&world).await, "tidegate_exports 1");
    drop(reading);
    until_no_export_is_under_way(&world).await;
}

async fn a_fault_in_the_middle_does_not_look_like_the_end(kind: Kind) {
    let left = Arc::new(AtomicI64::new(5));
    let faults = Faults::new(move |place| {
        if place == "export.read" && left.fetch_sub(1, Ordering::SeqCst) == 0 {
            panic!("a fault at {place}");
        }
    });
    let world = filled(kind, &[], faults).await;
    for headers in [&[][..], &[("Accept-Encoding", "gzip")][..]] {
        let export = Reading::begin(world.gateway.address, "GET /export?topic=t", headers, b"").await;
        let export = export.end().await;
        assert_eq!(export.status, 200);
        assert!(!export.complete || !headers.is_empty(), "it looks complete");
        if !headers.is_empty() {
            // The fault comes once: this one is whole.
            assert!(export.complete);
        }
    }
    until_no_export_is_under_way(&world).await;
}

async fn a_shutdown_in_the_middle_does_not_look_like_the_end(kind: Kind) {
    let World { gateway, _folder } = filled(kind, &["gateway.shutdown_grace=2s"], Faults::default()).await;
    let reading = Reading::begin(gateway.address, "GET /export?topic=t", &[], b"").await;
    let mut reading = reading;
    reading.until("\"seq\":1,").await;
    let ended = tokio::task::spawn_blocking(move || drop(gateway));
    let export = reading.end().await;
    assert!(!export.complete, "it looks complete");
    ended.await.unwrap();
}

async fn a_reader_that_does_not_read_is_cut_off(kind: Kind) {
    let world = filled(kind, &["gateway.write_timeout=300ms"], Faults::default()).await;
    let reading = begun(&world).await;
    until_no_export_is_under_way(&world).await;
    let figures = get(&world.gateway, "/metrics").await;
    let cut = "tidegate_connections_cut_total{reason=\"write_timeout\"} 1";
    assert!(figures.text().contains(cut), "{}", figures.text());
    let export = reading.end().await;
    assert!(!export.complete);
    let lines = String::from_utf8_lossy(&export.body).into_owned();
    let whole = lines.lines().next().expect("a line");
    assert!(serde_json::from_str::<Value>(whole).is_ok());
}
