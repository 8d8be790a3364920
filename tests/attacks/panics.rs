//! Actors that panic under load: nothing that was answered OK is lost, and the service is back at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;

use crate::process::http_get;
use crate::support::{Client, TestGateway};

/// A gateway in which the actor at `place` panics, `times` times, whenever it is armed.
struct Faulty {
    gateway: TestGateway,
    left: Arc<AtomicI64>,
}

impl Faulty {
    fn start(place: &'static str) -> Faulty {
        Faulty::start_with(place, &[])
    }

    fn start_with(place: &'static str, set: &[&str]) -> Faulty {
        let left = Arc::new(AtomicI64::new(0));
        let armed = left.clone();
        let faults = Faults::new(move |passed| {
            if passed == place && armed.fetch_sub(1, Ordering::SeqCst) > 0 {
                panic!("a fault at {passed}");
            }
        });
        Faulty {
            gateway: TestGateway::start_with(set, Timing::default(), faults),
            left,
        }
    }

    fn arm(&self, times: i64) {
        self.left.store(times, Ordering::SeqCst);
    }
}

/// Publishes until it is OK; how often it was not.
async fn publish_stubbornly(gateway: &TestGateway, client: &mut Client, n: u64) -> u64 {
    let frame = json!({"op": "PUBLISH", "topic": "t", "payload": n, "opts": {"id": format!("e{n}")}, "corr": n});
    let mut failures = 0;
    loop {
        client.send_text(frame.to_string()).await;
        // A panic of the connection's own actor ends the connection: then the next one tries.
        let answer = match client.next_frame().await {
            Some(message) if message.is_text() => serde_json::from_str::<Value>(message.to_text().unwrap()).unwrap(),
            _ => {
                *client = gateway.connect().await;
                failures += 1;
                continue;
            }
        };
        if answer["op"] == "OK" {
            return failures;
        }
        assert!(answer["retry_after_ms"].is_u64(), "not to be retried: {answer}");
        failures += 1;
        assert!(failures < 200, "{answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn survives(place: &'static str) {
    survives_on(place, Faulty::start(place)).await;
}

async fn survives_on(place: &'static str, faulty: Faulty) {
    let (mut publisher, mut member, mut follower) = (
        faulty.gateway.connect().await,
        faulty.gateway.connect().await,
        faulty.gateway.connect().await,
    );
    member.subscribe("t", "g", json!({"from": "earliest"})).await;
    follower.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    let mut slowest = Duration::ZERO;
    let mut failures = 0;
    for n in 1..=60 {
        if n % 20 == 0 {
            faulty.arm(1);
        }
        let began = Instant::now();
        failures += publish_stubbornly(&faulty.gateway, &mut publisher, n).await;
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{place}: a publish took {slowest:?}");
    // The member gets every event, none is lost; acks are taken.
    let mut seen = HashSet::new();
    while seen.len() < 60 {
        let event = member.event().await;
        let id = event["event"]["id"].as_str().unwrap().to_owned();
        let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": id});
        while member.call(ack.clone()).await["op"] != "OK" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        seen.insert(id);
    }
    // The ephemeral subscription too, in order, none twice.
    let seqs: Vec<u64> = follower
        .events(60)
        .await
        .iter()
        .map(|frame| frame["event"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=60).collect::<Vec<u64>>(), "{place}");
    let figures = http_get(faulty.gateway.address, "/metrics").await;
    let restarts = figures
        .lines()
        .filter(|line| line.starts_with("tidegate_actor_restarts_total{"))
        .count();
    assert!(restarts > 0, "{place}: not counted");
    println!("{place}: slowest publish {slowest:?}, {failures} refusals");
}

#[actix::test]
async fn a_topic_that_panics_is_back_with_all_its_subscribers() {
    survives("topic.publish").await;
    survives("topic.appended").await;
}

#[actix::test]
async fn a_group_that_panics_is_back_with_its_members() {
    survives("group.tail").await;
}

#[actix::test]
async fn a_store_that_panics_is_back_and_nobody_waits_for_ever() {
    survives("store.append").await;
    survives("store.committed").await;
}

#[actix::test]
async fn nothing_is_lost_on_a_disk_either() {
    for place in [
        "topic.publish",
        "topic.appended",
        "group.tail",
        "store.append",
        "store.committed",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("store.path={}", folder.path().join("data").display());
        survives_on(place, Faulty::start_with(place, &["store.kind=embedded", &path])).await;
    }
}

#[actix::test]
async fn a_connection_that_panics_ends_alone() {
    let faulty = Faulty::start("connection.text");
    let (mut bad, mut good) = (faulty.gateway.connect().await, faulty.gateway.connect().await);
    bad.subscribe("t", "g", json!({})).await;
    good.subscribe("t", "g", json!({})).await;
    for n in 0..10 {
        good.publish("t", json!(n)).await;
    }
    faulty.arm(1);
    bad.send(json!({"op": "AUTH"})).await;
    while bad.next_frame().await.is_some() {}
    // All its events go to the other member.
    let mut seen = HashSet::new();
    while seen.len() < 10 {
        seen.insert(good.event().await["event"]["seq"].as_u64().unwrap());
    }
    let figures = http_get(faulty.gateway.address, "/metrics").await;
    assert!(
        figures.contains(r#"tidegate_actor_restarts_total{actor="connection"} 1"#),
        "{figures}"
    );
    assert!(figures.contains("tidegate_ws_connections 1"), "{figures}");
}

#[actix::test]
async fn acks_survive_panics_of_their_group_and_of_the_store() {
    for place in ["group.ack", "store.cursors"] {
        let faulty = Faulty::start(place);
        let mut client = faulty.gateway.connect().await;
        client.subscribe("t", "g", json!({})).await;
        for n in 0..20 {
            client.publish("t", json!(n)).await;
        }
        let (mut acked, mut failed) = (HashSet::new(), HashSet::new());
        while acked.len() < 20 {
            let event = client.event().await;
            let seq = event["event"]["seq"].as_u64().unwrap();
            assert!(!acked.contains(&seq), "{place}: {seq} came again after its OK");
            if seq % 7 == 0 && failed.insert(seq) {
                faulty.arm(1);
            }
            let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]});
            // Its lease goes on, whoever died: the client acks again.
            let mut answer = client.call(ack.clone()).await;
            while answer["op"] != "OK" {
                assert!(answer["retry_after_ms"].is_u64(), "{answer}");
                faulty.arm(0);
                tokio::time::sleep(Duration::from_millis(10)).await;
                answer = client.call(ack.clone()).await;
            }
            acked.insert(seq);
        }
        assert_eq!(failed.len(), 2, "{place}");
        assert_eq!(
            client.events_so_far().await,
            Vec::<Value>::new(),
            "{place}: nothing came twice"
        );
    }
}

#[actix::test]
async fn an_event_is_with_one_member_at_a_time_whoever_dies() {
    for place in ["group.ack", "group.tail", "topic.publish"] {
        let faulty = Faulty::start(place);
        let mut members = Vec::new();
        for _ in 0..3 {
            let mut member = faulty.gateway.connect().await;
            member.subscribe("t", "g", json!({"maxInFlight": 5})).await;
            members.push(member);
        }
        let mut publisher = faulty.gateway.connect().await;
        let mut held: HashMap<u64, (usize, Value)> = HashMap::new();
        for n in 1..=15 {
            publish_stubbornly(&faulty.gateway, &mut publisher, n).await;
        }
        for (at, member) in members.iter_mut().enumerate() {
            for event in member.events(5).await {
                let before = held.insert(
                    event["event"]["seq"].as_u64().unwrap(),
                    (at, event["event"]["id"].clone()),
                );
                assert!(before.is_none(), "{event}");
            }
        }
        // All are full. Whoever dies now, nobody else gets what they hold; what is new waits.
        for n in 16..=30 {
            faulty.arm(i64::from(n % 5 == 0));
            publish_stubbornly(&faulty.gateway, &mut publisher, n).await;
            let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": "no such event"});
            members[0].call(ack).await;
        }
        faulty.arm(0);
        // Its holder acks an event, and gets a new one for it, never an old one.
        let mut order: Vec<u64> = held.keys().copied().collect();
        order.sort_unstable();
        for seq in order {
            let (at, id) = held.remove(&seq).unwrap();
            let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": id});
            while members[at].call(ack.clone()).await["op"] != "OK" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let event = members[at].event().await;
            let new = event["event"]["seq"].as_u64().unwrap();
            assert!(
                (16..=30).contains(&new),
                "{place}: {new} came again, while {seq} was with member {at}"
            );
            assert_eq!(event["ctx"]["attempt"], 1, "{place}: {event}");
        }
        let figures = http_get(faulty.gateway.address, "/metrics").await;
        assert!(
            figures.contains("tidegate_actor_restarts_total{"),
            "{place}: nobody died"
        );
    }
}

#[actix::test]
async fn a_topic_that_panics_again_and_again_is_left_alone_and_the_others_go_on() {
    let faulty = Faulty::start("topic.publish");
    let mut client = faulty.gateway.connect().await;
    faulty.arm(i64::MAX);
    let publish = json!({"op": "PUBLISH", "topic": "bad", "payload": 1});
    let mut answer = Value::Null;
    for _ in 0..20 {
        answer = client.call(publish.clone()).await;
        assert_eq!(answer["op"], "ERR");
        if answer["code"] == "store_unavailable" {
            break;
        }
    }
    assert_eq!(answer["code"], "store_unavailable", "{answer}");
    assert!(answer["retry_after_ms"].as_u64().unwrap() > 5_000, "{answer}");
    faulty.arm(0);
    client.publish("good", json!(1)).await;
    let ready = http_get(faulty.gateway.address, "/readyz").await;
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains(r#""unavailable":["bad"]"#),
        "{ready}"
    );
}
