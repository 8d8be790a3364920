//! Many connections: idle ones, ones that come and go, one too many.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::json;
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;
use tokio_tungstenite::tungstenite::Message;

use crate::process::{Process, http_get, raise_open_files};
use crate::raw::{Raw, text};
use crate::support::TestGateway;

#[actix::test]
async fn two_thousand_idle_connections_answer_their_pings_and_stay() {
    raise_open_files();
    let timing = Timing {
        ping: Duration::from_secs(1),
        ..Timing::default()
    };
    let gateway = TestGateway::start_with(&[], timing, Faults::default());
    let (sender, mut pinged) = tokio::sync::mpsc::channel(2_000);
    for _ in 0..2_000 {
        let mut client = gateway.connect().await;
        let sender = sender.clone();
        actix::spawn(async move {
            // Four pings: who answered none of the first would be gone by then.
            for _ in 0..4 {
                while !matches!(client.socket.next().await, Some(Ok(Message::Ping(_)))) {}
            }
            let _ = sender.send(()).await;
            while client.socket.next().await.is_some() {}
        });
    }
    for _ in 0..2_000 {
        let one = tokio::time::timeout(Duration::from_secs(30), pinged.recv()).await;
        one.expect("four pings in time").expect("all of them");
    }
    let figures = http_get(gateway.address, "/metrics").await;
    assert!(figures.contains("tidegate_ws_connections 2000"), "{figures}");
}

#[actix::test]
async fn idle_connections_take_little_memory() {
    raise_open_files();
    let gateway = Process::start(&[]);
    drop(gateway.connect().await);
    let (base, _) = gateway.memory_kib();
    let mut all = Vec::new();
    for _ in 0..2_000 {
        all.push(Raw::connect(gateway.address).await);
    }
    let (now, _) = gateway.memory_kib();
    let each = (now - base) as f64 / 2_000.0;
    println!("an idle connection takes {each:.1} KiB");
    assert!(each < 64.0, "{each:.1} KiB");
}

#[actix::test]
async fn a_storm_of_connections_leaves_nothing_behind() {
    let gateway = Process::start(&[]);
    let mut member = gateway.connect().await;
    member.subscribe("t", "g", json!({})).await;
    let round = async || {
        let mut all = Vec::new();
        for at in 0..200 {
            let mut raw = Raw::connect(gateway.address).await;
            if at % 2 == 0 {
                raw.send(&text(r#"{"op":"SUBSCRIBE","topic":"t","group":"g"}"#)).await;
            }
            all.push(raw);
        }
    };
    let gone = async |gateway: &Process| gateway.figure("tidegate_ws_connections").await == 1.0;
    round().await;
    gateway.until("the first are gone", gone).await;
    let (base, _) = gateway.memory_kib();
    let files = gateway.open_files();
    let began = Instant::now();
    let mut rounds = 0;
    while began.elapsed() < Duration::from_secs(4) {
        round().await;
        rounds += 1;
    }
    gateway.until("all are gone", gone).await;
    gateway
        .until("their files are closed", async |gateway| {
            gateway.open_files() <= files + 4
        })
        .await;
    let (now, _) = gateway.memory_kib();
    println!(
        "{} connections opened and shut: memory {base} KiB before, {now} KiB after",
        rounds * 200
    );
    assert!(now < base + (16 << 10), "{base} KiB before, {now} KiB after");
    // No member is left that would be given an event.
    for n in 0..20 {
        member.publish("t", json!(n)).await;
    }
    assert_eq!(member.events(20).await.len(), 20);
}

#[actix::test]
async fn a_closed_connection_frees_its_place() {
    let gateway = TestGateway::start(&["gateway.max_connections=2"]);
    let one = gateway.connect().await;
    let _two = Raw::connect(gateway.address).await;
    for _ in 0..3 {
        assert_eq!(gateway.connect().await.closed().await, 1013);
    }
    drop(one);
    for _ in 0..200 {
        let mut next = gateway.connect().await;
        next.send(json!({"op": "AUTH"})).await;
        match next.next_frame().await {
            Some(Message::Text(_)) => return,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the place was not freed");
}

#[actix::test]
async fn names_alone_do_not_fill_the_memory_and_their_places_are_freed() {
    let gateway = TestGateway::start(&["gateway.max_topics=10", "gateway.max_groups_per_topic=10"]);
    let mut client = gateway.connect().await;
    client.publish("t", json!(1)).await;
    let subscribe = |n: usize| json!({"op": "SUBSCRIBE", "topic": "t", "group": format!("g{n}")});
    for n in 0..10 {
        client.ok(subscribe(n)).await;
    }
    for n in 10..200 {
        let answer = client.call(subscribe(n)).await;
        let code = answer["code"].as_str().unwrap_or("none");
        assert!(["bad_request", "overloaded"].contains(&code), "{answer}");
    }
    // The groups that there are go on.
    let mut other = gateway.connect().await;
    other.ok(subscribe(3)).await;
    for n in 0..200 {
        let answer = client
            .call(json!({"op": "PUBLISH", "topic": format!("u{n}"), "payload": 1}))
            .await;
        if n >= 10 {
            assert_eq!(answer["code"], "bad_request", "{answer}");
        }
    }
    client.publish("t", json!(2)).await;
}

#[actix::test]
async fn topics_that_do_not_exist_keep_nobody_from_those_that_do() {
    let gateway = TestGateway::start(&["gateway.max_topics=4"]);
    let (mut crowd, mut other) = (gateway.connect().await, gateway.connect().await);
    other.publish("real", json!(1)).await;
    let subscribe = |n: usize| json!({"op": "SUBSCRIBE", "topic": format!("ghost{n}")});
    let mut refused = None;
    for n in 0..20 {
        let answer = crowd.call(subscribe(n)).await;
        if answer["op"] == "ERR" {
            assert_eq!(answer["code"], "overloaded", "{answer}");
            refused.get_or_insert(n);
        }
    }
    assert_eq!(refused, Some(4), "as many as there may be topics");
    other.publish("real", json!(2)).await;
    other.publish("new", json!(1)).await;
    let metrics = http_get(gateway.address, "/metrics").await;
    assert!(!metrics.contains("ghost"), "a name alone takes no label");
    // Their places are free as soon as nobody is subscribed.
    crowd.ok(json!({"op": "UNSUBSCRIBE", "topic": "ghost0"})).await;
    other.ok(subscribe(100)).await;
}

#[actix::test]
async fn a_subscription_that_ended_frees_its_place() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let frame = |op: &str, n: usize| json!({"op": op, "topic": "t", "group": format!("g{n}")});
    for n in 0..256 {
        client.ok(frame("SUBSCRIBE", n)).await;
    }
    client.err(frame("SUBSCRIBE", 256), "bad_request").await;
    client.ok(frame("UNSUBSCRIBE", 7)).await;
    client.ok(frame("SUBSCRIBE", 256)).await;
}
