//! What the embedded store costs: commits of several sizes beside a bare append and fsync on the same disk, opening, and
//! reading pages. Prints tables; see `README.md` beside this file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark may break off")]
#![allow(missing_docs, reason = "a program of its own")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate::domain::{NewEvent, TopicName};
use tidegate::store::{EmbeddedStore, Store, StoreOptions, Write};

/// How long each line of the first table is measured.
const MEASURE: Duration = Duration::from_secs(2);
/// Of an event's payload: with its envelope about 300 bytes of JSON.
const PAYLOAD_BYTES: usize = 200;

fn event(n: u64) -> NewEvent {
    NewEvent {
        id: uuid::Uuid::now_v7().to_string().into(),
        id_given: false,
        ts: n,
        key: Some(format!("key-{}", n % 1_000).into()),
        headers: vec![],
        payload: format!("\"{}\"", "x".repeat(PAYLOAD_BYTES)).into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

fn topics(count: usize) -> Vec<TopicName> {
    (0..count).map(|n| format!("bench.{n}").parse().unwrap()).collect()
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1_024
}

struct Figure {
    events: u64,
    took: Duration,
    cpu: Duration,
}

impl Figure {
    fn cells(&self) -> String {
        let rate = self.events as f64 / self.took.as_secs_f64();
        let cpu = self.cpu.as_secs_f64() * 1e6 / self.events as f64;
        format!("{rate:.0} | {cpu:.1}")
    }
}

/// The same bytes to a plain file, synced after each commit.
fn bare(folder: &Path, events: usize) -> Figure {
    let mut file = File::create(folder.join("bare")).unwrap();
    let bytes = vec![b'x'; 300 * events];
    let (began, cpu_before, mut written) = (Instant::now(), cpu(), 0);
    while began.elapsed() < MEASURE {
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        written += events as u64;
    }
    Figure {
        events: written,
        took: began.elapsed(),
        cpu: cpu() - cpu_before,
    }
}

async fn commits(folder: &Path, events: usize, topic_count: usize) -> Figure {
    let folder = folder.join(format!("store-{events}-{topic_count}"));
    let store = EmbeddedStore::open(&folder, StoreOptions::default()).unwrap();
    let topics = topics(topic_count);
    let (began, cpu_before, mut written) = (Instant::now(), cpu(), 0_u64);
    while began.elapsed() < MEASURE {
        let mut batch: Vec<Write> = Vec::new();
        let share = events.div_ceil(topic_count.min(events));
        let mut left = events;
        while left > 0 {
            let count = share.min(left);
            let topic = topics[(written as usize / share) % topics.len()].clone();
            let events = (0..count as u64).map(|n| event(written + n)).collect();
            batch.push(Write::Append { topic, events });
            written += count as u64;
            left -= count;
        }
        let answers = store.commit(batch, written).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
    let figure = Figure {
        events: written,
        took: began.elapsed(),
        cpu: cpu() - cpu_before,
    };
    store.close().await.unwrap();
    figure
}

async fn fill(folder: &Path, events: u64) {
    let store = EmbeddedStore::open(folder, StoreOptions::default()).unwrap();
    let topic: TopicName = "bench.large".parse().unwrap();
    for start in (0..events).step_by(5_000) {
        let events = (start..events.min(start + 5_000)).map(event).collect();
        let topic = topic.clone();
        store
            .commit(vec![Write::Append { topic, events }], start)
            .await
            .unwrap();
    }
    store.close().await.unwrap();
}

/// Opens the folder and reads pages of 100 at places that are spread over it.
async fn open_and_read(folder: &Path, events: u64) {
    let before = resident_mib();
    let began = Instant::now();
    let store = EmbeddedStore::open(folder, StoreOptions::default()).unwrap();
    let opened = began.elapsed();
    println!(
        "| opening {events} events | {opened:.0?}, RSS {before} MiB before, {} MiB after |",
        resident_mib()
    );
    let topic: TopicName = "bench.large".parse().unwrap();
    let mut took = Vec::new();
    let mut place = 0x9E37_79B9_u64;
    for _ in 0..1_000 {
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let from = (place >> 16) % (events - 100) + 1;
        let began = Instant::now();
        let page = store.read(&topic, from, 100, usize::MAX).await.unwrap();
        took.push(began.elapsed());
        assert_eq!((page.len(), page[0].seq), (100, from));
    }
    took.sort();
    println!(
        "| a page of 100 at a random place of {events} | p50 {:.0?}, p99 {:.0?}, RSS {} MiB |",
        took[500],
        took[990],
        resident_mib()
    );
    store.close().await.unwrap();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    // Beside the build: a folder for temporary files may be in memory, where an fsync costs nothing.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    println!(
        "| commit | bare append + fsync: events/s | CPU us | store, 1 topic: events/s | CPU us | store, 1,000 topics: events/s | CPU us |"
    );
    println!("|---|---|---|---|---|---|---|");
    for events in [1, 10, 100, 1_000] {
        let bare = bare(folder.path(), events);
        let one = runtime.block_on(commits(folder.path(), events, 1));
        let many = runtime.block_on(commits(folder.path(), events, 1_000));
        println!("| {events} | {} | {} | {} |", bare.cells(), one.cells(), many.cells());
    }
    let events = std::env::var("TIDEGATE_BENCH_EVENTS").map_or(1_000_000, |text| text.parse().unwrap());
    let large = folder.path().join("large");
    println!("\n| what | figure |\n|---|---|");
    let began = Instant::now();
    runtime.block_on(fill(&large, events));
    println!("| writing {events} events, 5,000 a commit | {:.0?} |", began.elapsed());
    runtime.block_on(open_and_read(&large, events));
}
