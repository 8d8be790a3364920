//! Lag against a count by hand, over random histories: acks in any order, filters, retention, several partitions, members
//! that come and go.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::http::get;
use crate::support::{Client, DEADLINE, TestGateway};

/// A small generator, so that a history can be made again from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What happened, as a list: every question is a walk over it.
#[derive(Default)]
struct History {
    /// Of each event, by seq: whether the group's filter lets it pass, and its time.
    events: Vec<(bool, u64)>,
    acked: BTreeSet<u64>,
}

impl History {
    fn unacked(&self, first: u64) -> Vec<u64> {
        (first.max(1)..=self.events.len() as u64)
            .filter(|seq| self.events[*seq as usize - 1].0 && !self.acked.contains(seq))
            .collect()
    }
}

struct World {
    gateway: TestGateway,
    history: History,
    random: Random,
    filtered: bool,
    client: Client,
    member: Option<Client>,
    held: Vec<Value>,
}

impl World {
    async fn publish(&mut self) {
        for _ in 0..=self.random.below(40) {
            let key = format!("k{}", self.random.below(6));
            let tagged = self.random.below(3) > 0;
            let opts = json!({"key": key, "tags": if tagged { json!(["in"]) } else { json!([]) }});
            self.client
                .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": opts}))
                .await;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            self.history.events.push((tagged || !self.filtered, now));
        }
    }

    /// Takes what has come, and acks some of it, in any order.
    async fn ack(&mut self) {
        let Some(member) = &mut self.member else { return };
        self.held.extend(member.events_so_far().await);
        for _ in 0..self.random.below(30) {
            if self.held.is_empty() {
                return;
            }
            let at = self.random.below(self.held.len() as u64) as usize;
            let frame = self.held.swap_remove(at);
            member.ack("t", "g", &frame["event"]["id"]).await;
            self.history.acked.insert(frame["event"]["seq"].as_u64().unwrap());
        }
    }

    async fn join(&mut self) {
        if self.member.is_none() {
            let mut member = self.gateway.connect().await;
            let filter = if self.filtered {
                json!({"tags": ["in"]})
            } else {
                Value::Null
            };
            let mut opts = json!({"from": "earliest", "maxInFlight": 10_000, "ackTimeoutMs": 600_000});
            if self.filtered {
                opts["filter"] = filter;
            }
            member.subscribe("t", "g", opts).await;
            self.member = Some(member);
        }
    }

    async fn leave(&mut self) {
        if let Some(mut member) = self.member.take() {
            member
                .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
                .await;
            self.held.clear();
        }
    }

    async fn first(&self) -> u64 {
        get(self.gateway.address, "/topics").await["topics"][0]["first"]
            .as_u64()
            .unwrap()
    }

    /// The lag becomes what is counted by hand, and is never less. `read`: whether the group has looked at everything, so
    /// that its filter has passed all.
    async fn check(&self, read: bool, seed: u64) {
        let mut last = String::new();
        let reached = async {
            loop {
                let first = self.first().await;
                let lag = get(self.gateway.address, "/lag?topic=t&group=g").await;
                if self.first().await != first {
                    continue;
                }
                let unacked = self.history.unacked(first);
                let told = lag["lag"].as_u64().unwrap();
                last = format!(
                    "seed {seed}: told {lag}, by hand {} of {unacked:?}, first {first}",
                    unacked.len()
                );
                assert!(told >= unacked.len() as u64, "{last}");
                assert_eq!(lag["tail"], self.history.events.len() as u64, "{last}");
                let floor = unacked.first().map_or(self.history.events.len() as u64, |seq| seq - 1);
                let as_counted = told == unacked.len() as u64 && lag["floor"] == floor;
                if as_counted {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
                    let age = unacked
                        .first()
                        .map_or(0, |seq| now - self.history.events[*seq as usize - 1].1);
                    let told = lag["lagMs"].as_u64().unwrap();
                    assert!(told.abs_diff(age) < 5_000, "{last}: {age} ms by hand");
                }
                if as_counted || !read {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, reached).await.is_err() {
            panic!("{last}");
        }
    }
}

#[actix::test]
async fn lag_is_what_a_count_by_hand_says() {
    for seed in 1..=8_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let folder = tempfile::tempdir().unwrap();
        let path = format!("store.path={}", folder.path().display());
        let partitions = [1, 3, 8][random.below(3) as usize];
        let retention = if seed % 2 == 0 { ",retention={count=60}" } else { "" };
        let rule = format!("topic=[{{name=\"t\",partitions={partitions}{retention},durability=\"os\"}}]");
        let store = if seed % 3 == 0 {
            "store.kind=embedded"
        } else {
            "store.kind=memory"
        };
        let gateway = TestGateway::start(&[store, &path, &rule, "store.sweep_interval=20ms"]);
        let client = gateway.connect().await;
        let mut world = World {
            gateway,
            history: History::default(),
            random,
            filtered: seed % 4 > 1,
            client,
            member: None,
            held: Vec::new(),
        };
        world.publish().await;
        world.join().await;
        for _ in 0..12 {
            match world.random.below(6) {
                0 => world.leave().await,
                1 => world.join().await,
                2 | 3 => world.publish().await,
                _ => world.ack().await,
            }
            // Without a member nobody has looked at what is new.
            world.check(world.member.is_some() || !world.filtered, seed).await;
        }
        // Connected and not, all must agree in the end.
        world.join().await;
        world.ack().await;
        world.check(true, seed).await;
        world.leave().await;
        world.check(true, seed).await;
    }
}
