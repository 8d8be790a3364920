//! The memory store is the plainest reading of the contract. Whatever is written to it and to the embedded store, in
//! whatever order and over any number of restarts, both must give the same answers.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate::domain::{CursorUpdate, GroupName, GroupSettings, NewEvent, Retention, Retry, TopicName};
use tidegate::store::{EmbeddedStore, MemoryStore, OwnerId, Pause, Store, StoreOptions, Write};

use crate::bench::*;

/// One write, in small numbers that meet each other often.
#[derive(Debug, Clone)]
enum Op {
    Append {
        topic: u8,
        ids: Vec<(u8, u8)>,
        ts: u8,
    },
    AppendMany {
        topic: u8,
        count: u16,
    },
    Group {
        topic: u8,
        group: u8,
        what: u8,
    },
    Save {
        topic: u8,
        group: u8,
        epoch: u8,
        seq: u8,
        letter: Option<u8>,
    },
    Delete {
        topic: u8,
    },
    Mark {
        topic: u8,
        group: u8,
        id: u8,
        until: u8,
    },
    Trim {
        topic: u8,
        age: Option<u8>,
        count: Option<u8>,
        bytes: Option<u16>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let topic = 0..3_u8;
    let group = 0..2_u8;
    let ids = prop::collection::vec((0..12_u8, 0..3_u8), 1..5);
    prop_oneof![
        6 => (topic.clone(), ids, any::<u8>()).prop_map(|(topic, ids, ts)| Op::Append { topic, ids, ts }),
        2 => (topic.clone(), 1..400_u16).prop_map(|(topic, count)| Op::AppendMany { topic, count }),
        3 => (topic.clone(), group.clone(), 0..5_u8).prop_map(|(topic, group, what)| Op::Group { topic, group, what }),
        3 => (topic.clone(), group.clone(), 0..8_u8, 0..20_u8, prop::option::of(0..5_u8))
            .prop_map(|(topic, group, epoch, seq, letter)| Op::Save { topic, group, epoch, seq, letter }),
        1 => topic.clone().prop_map(|topic| Op::Delete { topic }),
        2 => (topic.clone(), group, 0..5_u8, 0..30_u8)
            .prop_map(|(topic, group, id, until)| Op::Mark { topic, group, id, until }),
        2 => (topic, prop::option::of(0..10_u8), prop::option::of(0..200_u8), prop::option::of(0..9_000_u16))
            .prop_map(|(topic, age, count, bytes)| Op::Trim { topic, age, count, bytes }),
    ]
}

fn topic_of(n: u8) -> TopicName {
    topic(["m", "m.a", "m-b"][usize::from(n)])
}

fn group_of(n: u8) -> GroupName {
    group(["g", "g:h"][usize::from(n)])
}

/// `step` makes ids that the gateway would make: never twice.
fn write_of(op: &Op, step: usize) -> Write {
    match op.clone() {
        Op::Append { topic, ids, ts } => Write::Append {
            topic: topic_of(topic),
            events: ids
                .into_iter()
                .map(|(id, payload)| NewEvent {
                    payload: payload.to_string().into(),
                    key: (id % 3 > 0).then(|| format!("key-{}", id % 4).into()),
                    ts: u64::from(ts),
                    ..event(&format!("id-{id}"))
                })
                .collect(),
        },
        Op::AppendMany { topic, count } => Write::Append {
            topic: topic_of(topic),
            events: events(&format!("many-{step}"), usize::from(count)),
        },
        Op::Group { topic, group, what } => {
            let (topic, group) = (topic_of(topic), group_of(group));
            match what {
                0 | 1 => Write::CreateGroup {
                    topic,
                    group,
                    settings: GroupSettings::default(),
                    cursors: vec![floor(1); 4],
                },
                2 => Write::ClaimGroup {
                    topic,
                    group,
                    owner: OwnerId::random(),
                },
                3 => Write::DeleteGroup { topic, group },
                _ => Write::SaveGroup {
                    topic,
                    group,
                    epoch: 1,
                    settings: GroupSettings::default(),
                    paused: Some(Pause {
                        by: "x".into(),
                        since_ms: 1,
                    }),
                },
            }
        }
        Op::Save {
            topic,
            group,
            epoch,
            seq,
            letter,
        } if seq < 18 => Write::SaveCursors {
            topic: topic_of(topic),
            group: group_of(group),
            epoch: u64::from(epoch),
            updates: vec![CursorUpdate {
                partition: u32::from(seq % 5),
                cursor: floor(u64::from(seq)),
                retries: vec![Retry {
                    seq: u64::from(seq),
                    attempts: 1,
                    due_ms: 2,
                    reason: "r".into(),
                }],
                settled: vec![u64::from(seq / 2)],
            }],
            dead_letters: letter.map(|id| event(&format!("letter-{id}"))).into_iter().collect(),
        },
        Op::Save {
            topic, group, epoch, ..
        } => Write::SeekGroup {
            topic: topic_of(topic),
            group: group_of(group),
            epoch: u64::from(epoch),
            cursors: vec![floor(7); 3],
        },
        Op::Delete { topic } => Write::DeleteTopic { topic: topic_of(topic) },
        Op::Mark {
            topic,
            group,
            id,
            until,
        } => Write::MarkSeen {
            topic: topic_of(topic),
            group: group_of(group),
            id: format!("id-{id}").into(),
            until_ms: u64::from(until),
        },
        Op::Trim {
            topic,
            age,
            count,
            bytes,
        } => Write::Trim {
            topic: topic_of(topic),
            retention: Retention {
                age_ms: age.map(u64::from),
                count: count.map(u64::from),
                bytes: bytes.map(u64::from),
            },
        },
    }
}

/// Asks both stores everything.
async fn compare(one: &Arc<dyn Store>, other: &Arc<dyn Store>, now_ms: u64) {
    let topics = one.topics().await.unwrap();
    assert_eq!(topics, other.topics().await.unwrap());
    let names = (0..3).map(topic_of).flat_map(|topic| [topic.dead_letters(), topic]);
    for topic in names {
        assert_eq!(all(one, &topic).await, all(other, &topic).await);
        let tail = one.topic(&topic).await.unwrap().map_or(0, |state| state.tail);
        for seq in [0, 1, tail / 3, tail / 2, tail.saturating_sub(1), tail, tail + 1] {
            let ordinals = one.ordinals_at(&topic, seq).await.unwrap();
            assert_eq!(ordinals, other.ordinals_at(&topic, seq).await.unwrap(), "{topic} {seq}");
            let read = one.read(&topic, seq, 7, 900).await.unwrap();
            assert_eq!(read, other.read(&topic, seq, 7, 900).await.unwrap());
        }
        for ts in [0, 3, 100, 200, 255, 500, 501] {
            let found = one.seq_at_ts(&topic, ts).await.unwrap();
            assert_eq!(found, other.seq_at_ts(&topic, ts).await.unwrap(), "{topic} ts {ts}");
        }
        let ids: Vec<Box<str>> = (0..12).map(|id| format!("id-{id}").into()).collect();
        let found = one.seqs_of_ids(&topic, ids.clone()).await.unwrap();
        assert_eq!(found, other.seqs_of_ids(&topic, ids).await.unwrap());
        for key in 0..4 {
            let key = format!("key-{key}");
            let newest = one.newest_by_key(&topic, &key).await.unwrap();
            assert_eq!(newest, other.newest_by_key(&topic, &key).await.unwrap());
        }
        let groups = one.groups(&topic).await.unwrap();
        assert_eq!(groups, other.groups(&topic).await.unwrap());
        for group in groups {
            let state = one.group(&topic, &group).await.unwrap();
            assert_eq!(state, other.group(&topic, &group).await.unwrap());
            for id in 0..5 {
                let id = format!("id-{id}");
                let seen = one.seen(&topic, &group, &id, now_ms).await.unwrap();
                assert_eq!(seen, other.seen(&topic, &group, &id, now_ms).await.unwrap());
            }
        }
    }
}

async fn run(batches: Vec<(Vec<Op>, bool)>) {
    let limited = StoreOptions {
        max_topics: 3,
        ..options()
    };
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(EmbeddedStore::open(folder.path(), limited.clone()).unwrap()) as Arc<dyn Store>;
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(limited.clone()));
    let mut embedded = open();
    let mut latest_ms = 0;
    for (step, (ops, reopen)) in batches.into_iter().enumerate() {
        // A clock that steps back now and then.
        let now_ms = step as u64 * 3 - if step % 4 == 3 { 5 } else { 0 };
        let batch: Vec<Write> = ops
            .iter()
            .enumerate()
            .map(|(n, op)| write_of(op, step * 100 + n))
            .collect();
        let expected = memory.commit(batch.clone(), now_ms).await.unwrap();
        assert_eq!(embedded.commit(batch, now_ms).await.unwrap(), expected);
        if reopen {
            embedded.close().await.unwrap();
            embedded = open();
        }
        // A mark that was over may be gone for good: whether a clock that stepped back still sees it is left open.
        latest_ms = now_ms.max(latest_ms);
        compare(&memory, &embedded, latest_ms).await;
    }
    embedded.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_say_the_same(
        batches in prop::collection::vec((prop::collection::vec(op(), 0..8), prop::bool::weighted(0.1)), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(batches));
    }
}
