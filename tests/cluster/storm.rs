//! Gateways that are frozen and cut off at random while clients work on all of them, judged by what the clients saw.
//!
//! `TIDEGATE_STORM_SECONDS=300 cargo test --test cluster storm` lasts longer than the usual 12 s; `TIDEGATE_STORM_SEED`
//! repeats the order of things.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::domain::{GroupName, TopicName};
use tidegate::store::{MemoryStore, Store, StoreOptions};
use tokio::sync::watch;

use crate::dice::Dice;
use crate::pair::{Member, join};
use crate::support::Client;

/// What comes so long after the answer to its ack was certainly sent after it: clients read all the time.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// What all clients saw.
#[derive(Default)]
struct History {
    published: HashSet<String>,
    acked: HashMap<String, Instant>,
    deliveries: u64,
    /// Acks that were answered with an error: the event comes again.
    refused: u64,
    /// Which gateway delivered last.
    owner: usize,
}

impl History {
    fn delivered(&mut self, frame: &Value) -> String {
        let id = frame["event"]["id"].as_str().expect("an id").to_owned();
        self.deliveries += 1;
        assert_eq!(
            frame["ctx"]["attempt"], 1,
            "no client failed, and none is blamed: {frame}"
        );
        if let Some(acked) = self.acked.get(&id) {
            assert!(acked.elapsed() < ON_ITS_WAY, "{id} came after its ack was answered OK");
        }
        id
    }
}

type Shared = Arc<Mutex<History>>;

/// Publishes until it is told to stop; what is not answered OK is sent again.
async fn publish(mut client: Client, name: usize, history: Shared, stop: watch::Receiver<bool>) {
    for n in 0.. {
        let id = format!("{name}-{n}");
        let frame =
            json!({"op": "PUBLISH", "topic": "t", "payload": n, "opts": {"id": id, "key": format!("k{}", n % 7)}});
        while client.call(frame.clone()).await["op"] != "OK" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        history.lock().unwrap().published.insert(id);
        if *stop.borrow() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

/// Acks what comes, a few at a time and not in order, until all that was published is acked and nobody publishes any more.
async fn consume(mut client: Client, name: usize, history: Shared, mut dice: Dice, done: watch::Receiver<bool>) {
    let mut held: Vec<String> = Vec::new();
    let mut asked: HashMap<u64, String> = HashMap::new();
    while !*done.borrow() {
        let wait = Duration::from_millis(dice.below(5));
        if let Ok(frame) = tokio::time::timeout(wait, client.any()).await {
            if frame["op"] == "EVENT" {
                let mut history = history.lock().unwrap();
                history.owner = name;
                held.push(history.delivered(&frame));
                continue;
            }
            let id = asked
                .remove(&frame["corr"].as_u64().unwrap())
                .expect("an answer to an ack");
            let mut history = history.lock().unwrap();
            if frame["op"] == "OK" {
                history.acked.entry(id).or_insert_with(Instant::now);
            } else {
                assert!(frame["retry_after_ms"].is_u64(), "{frame}");
                history.refused += 1;
                // Perhaps it counts and perhaps it does not: who was not told OK says it again.
                held.push(id);
            }
        } else if !held.is_empty() {
            let id = held.swap_remove(usize::try_from(dice.below(held.len() as u64)).unwrap());
            let corr = client
                .send(json!({"op": "ACK", "topic": "t", "group": "g", "id": id}))
                .await;
            asked.insert(corr, id);
        }
    }
}

/// Freezes or cuts off one of them after another, sometimes two at once.
async fn disturb(gateways: &[Member], history: &Shared, mut dice: Dice, until: Instant) -> u32 {
    let mut times = 0;
    while Instant::now() < until {
        // Mostly the one that has something to lose.
        let at = match dice.below(4) {
            0 => usize::try_from(dice.below(gateways.len() as u64)).unwrap(),
            _ => history.lock().unwrap().owner,
        };
        let gateway = &gateways[at];
        let frozen = dice.below(2) == 0;
        if frozen {
            gateway.freezer.freeze();
        } else {
            gateway.store.cut();
        }
        times += 1;
        tokio::time::sleep(Duration::from_millis(100 + dice.below(2_000))).await;
        gateway.freezer.thaw();
        gateway.store.mend();
        tokio::time::sleep(Duration::from_millis(dice.below(500))).await;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_handled_whatever_happens_to_the_gateways() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let seconds = number("TIDEGATE_STORM_SECONDS").unwrap_or(12);
    let seed = number("TIDEGATE_STORM_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("TIDEGATE_STORM_SEED={seed}");
    let mut dice = Dice::new(seed);
    let store = MemoryStore::shared(StoreOptions::default());
    let gateways: Vec<Member> = (0..3).map(|_| join(&store, &["cluster.lease=1s"])).collect();
    let history = Shared::default();
    let (stop, stopped) = watch::channel(false);
    let (done, is_done) = watch::channel(false);
    let (mut publishers, mut consumers) = (vec![], vec![]);
    for (name, gateway) in gateways.iter().enumerate() {
        let client = gateway.gateway.connect().await;
        publishers.push(tokio::spawn(publish(client, name, history.clone(), stopped.clone())));
        let mut client = gateway.gateway.connect().await;
        let opts = json!({"from": "earliest", "maxInFlight": 20, "ackTimeoutMs": 600_000});
        client.subscribe("t", "g", opts).await;
        consumers.push(tokio::spawn(consume(
            client,
            name,
            history.clone(),
            dice.fork(),
            is_done.clone(),
        )));
    }
    let times = disturb(
        &gateways,
        &history,
        dice.fork(),
        Instant::now() + Duration::from_secs(seconds),
    )
    .await;
    stop.send(true).unwrap();
    for publisher in publishers {
        publisher.await.unwrap();
    }
    let all_acked = async {
        loop {
            {
                let history = history.lock().unwrap();
                if history.published.iter().all(|id| history.acked.contains_key(id)) {
                    return;
                }
            }
            if consumers.iter().any(|consumer| consumer.is_finished()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), all_acked).await;
    done.send(true).unwrap();
    for consumer in consumers {
        consumer.await.unwrap();
    }
    let (topic, group): (TopicName, GroupName) = ("t".parse().unwrap(), "g".parse().unwrap());
    let log = store.topic(&topic).await.unwrap().unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    let history = history.lock().unwrap();
    let missing: Vec<_> = history
        .published
        .iter()
        .filter(|id| !history.acked.contains_key(*id))
        .collect();
    assert!(in_time.is_ok() && missing.is_empty(), "never acked: {missing:?}");
    assert_eq!(log.tail, history.published.len() as u64, "each id is in the topic once");
    let acked = state.cursors.iter().zip(&log.ordinals);
    for (cursor, newest) in acked {
        assert_eq!(
            cursor.floor_ordinal + cursor.acked_count,
            *newest,
            "what was answered OK is in the store"
        );
    }
    eprintln!(
        "{times} disturbances, {} claims, {} published, {} deliveries, {} acks refused",
        state.epoch,
        history.published.len(),
        history.deliveries,
        history.refused
    );
    assert!(state.epoch > 2 && history.published.len() > 100, "something was tried");
}
