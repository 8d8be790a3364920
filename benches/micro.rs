//! What the parts of an event's way cost, each by itself. See `README.md` beside this file.

#![allow(clippy::unwrap_used, reason = "a benchmark may break off")]
#![allow(missing_docs, reason = "a program of its own")]

use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tidegate::actors::limiter::Limiter;
use tidegate::clock::Clock;
use tidegate::config::{Bucket, Limit};
use tidegate::domain::group::Group;
use tidegate::domain::{Event, GroupSettings, MemberSettings, NewEvent, PartitionCursor, Place, TopicName};
use tidegate::protocol::{Answer, Lease, encode_event, encode_ok, parse};
use tidegate::store::{EmbeddedStore, MemoryStore, Store, StoreOptions, Write};

/// Events of a batch, where a batch is measured.
const BATCH: u64 = 100;
/// Connections that an event is spread to.
const SUBSCRIBERS: usize = 8;
const PAYLOAD_BYTES: usize = 256;
const PARTITIONS: u32 = 8;

fn main() {
    divan::main();
}

fn topic() -> TopicName {
    "bench.topic".parse().unwrap()
}

fn payload() -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 11))
}

fn new_event(n: u64) -> NewEvent {
    NewEvent {
        id: uuid::Uuid::now_v7().to_string().into(),
        id_given: false,
        ts: n,
        key: Some(format!("key-{}", n % 1_000).into()),
        headers: vec![],
        payload: payload().into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

fn event(seq: u64) -> Arc<Event> {
    let partition = (seq % u64::from(PARTITIONS)) as u32;
    let place = Place {
        seq,
        at: 1,
        partition,
        ordinal: seq.div_ceil(u64::from(PARTITIONS)),
    };
    Arc::new(Event::place(&topic(), &new_event(seq), place))
}

mod frames {
    use super::*;

    #[divan::bench]
    fn parse_publish(bencher: Bencher) {
        let payload = payload();
        let frame = format!(
            "{{\"op\":\"PUBLISH\",\"topic\":\"bench.topic\",\"payload\":{payload},\"opts\":{{\"key\":\"key-7\"}},\"corr\":1}}"
        );
        bencher.bench(|| parse(black_box(&frame)));
    }

    #[divan::bench]
    fn parse_ack_of_100(bencher: Bencher) {
        let ids: Vec<String> = (0..BATCH).map(|_| format!("\"{}\"", uuid::Uuid::now_v7())).collect();
        let ids = ids.join(",");
        let frame = format!("{{\"op\":\"ACK\",\"topic\":\"bench.topic\",\"group\":\"g\",\"ids\":[{ids}]}}");
        bencher
            .counter(ItemsCount::new(BATCH))
            .bench(|| parse(black_box(&frame)));
    }

    #[divan::bench]
    fn encode_published(bencher: Bencher) {
        let corr = parse("{\"op\":\"AUTH\",\"corr\":12}").corr;
        let answer = Answer::Published {
            id: uuid::Uuid::now_v7().to_string().into(),
            seq: 1_000_000,
        };
        bencher.bench(|| encode_ok(black_box(corr.as_ref()), &answer));
    }

    #[divan::bench]
    fn encode_delivery(bencher: Bencher) {
        let (topic, group, event) = (topic(), "billing".parse().unwrap(), event(7));
        let lease = Lease {
            max_attempts: 5,
            ack_deadline_ms: 30_000,
        };
        bencher.bench(|| encode_event(&topic, Some(&group), black_box(&event), 1, Some(lease)));
    }

    /// What each of the subscribers of a topic is written.
    #[divan::bench]
    fn encode_fan_out_to_8(bencher: Bencher) {
        let (topic, event) = (topic(), event(7));
        bencher.counter(ItemsCount::new(SUBSCRIBERS)).bench(|| {
            for _ in 0..SUBSCRIBERS {
                black_box(encode_event(&topic, None, black_box(&event), 1, None));
            }
        });
    }

    #[divan::bench]
    fn place_event(bencher: Bencher) {
        let (topic, new) = (topic(), new_event(1));
        let place = Place {
            seq: 1,
            at: 1,
            partition: 0,
            ordinal: 1,
        };
        bencher.bench(|| Event::place(&topic, black_box(&new), place));
    }
}

#[divan::bench]
fn limiter_take(bencher: Bencher) {
    let bucket = Bucket {
        capacity: 1_000_000,
        refill_per_sec: 1e9,
    };
    let limiter = Limiter::new(&Limit::Bucket(bucket), Clock::new());
    bencher.bench(|| limiter.take(black_box(1)));
}

/// Reads, hands out, acks and saves: all that a group's rules do for an event that goes well.
#[divan::bench]
fn group_rules(bencher: Bencher) {
    let group = || {
        let cursors = vec![PartitionCursor::default(); PARTITIONS as usize];
        let mut group = Group::new(GroupSettings::default(), cursors, Vec::new(), true);
        group.join(1, MemberSettings::default());
        group.credit(1, 1_000, 1 << 20);
        (group, (1..=BATCH).map(event).collect::<Vec<_>>())
    };
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(group)
        .bench_local_values(|(mut group, events)| {
            group.offer(events, BATCH);
            let deliveries = group.deliver(1, BATCH as usize);
            assert_eq!(deliveries.len(), BATCH as usize);
            for delivery in &deliveries {
                group.ack(&delivery.event.id);
            }
            black_box(group.take_changes());
            group.saved();
            group
        });
}

mod store {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    fn commits(bencher: Bencher, store: &dyn Store, events: u64) {
        let runtime = runtime();
        let batch = || {
            let events = (0..events).map(new_event).collect();
            vec![Write::Append { topic: topic(), events }]
        };
        bencher
            .counter(ItemsCount::new(events))
            .with_inputs(batch)
            .bench_local_values(|batch| runtime.block_on(store.commit(batch, 1)).unwrap());
    }

    fn reads(bencher: Bencher, store: &dyn Store) {
        let runtime = runtime();
        let events = (0..BATCH * 10).map(new_event).collect();
        let write = Write::Append { topic: topic(), events };
        runtime.block_on(store.commit(vec![write], 1)).unwrap();
        bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
            let page = runtime.block_on(store.read(&topic(), 300, BATCH as usize, usize::MAX));
            assert_eq!(page.unwrap().len(), BATCH as usize);
        });
    }

    fn embedded() -> (tempfile::TempDir, EmbeddedStore) {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = EmbeddedStore::open(folder.path().join("store"), StoreOptions::default()).unwrap();
        (folder, store)
    }

    #[divan::bench(args = [1, 100])]
    fn commit_memory(bencher: Bencher, events: u64) {
        commits(bencher, &MemoryStore::new(StoreOptions::default()), events);
    }

    /// With its fsync.
    #[divan::bench(args = [1, 100])]
    fn commit_embedded(bencher: Bencher, events: u64) {
        let (_folder, store) = embedded();
        commits(bencher, &store, events);
    }

    #[divan::bench]
    fn read_100_memory(bencher: Bencher) {
        reads(bencher, &MemoryStore::new(StoreOptions::default()));
    }

    #[divan::bench]
    fn read_100_embedded(bencher: Bencher) {
        let (_folder, store) = embedded();
        reads(bencher, &store);
    }
}
