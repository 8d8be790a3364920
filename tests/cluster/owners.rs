//! One group on two gateways, both well: one delivers, the other stands by and takes over when it may.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::pair::pair;

/// So long that nothing in a test happens because it is over.
const LONG: &str = "10m";

#[tokio::test]
async fn one_gateway_delivers_what_both_published() {
    let (_store, one, two) = pair(LONG);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({"maxInFlight": 1_000})).await;
    b.subscribe("t", "g", json!({})).await;
    for n in 0..20 {
        a.publish("t", json!({"a": n})).await;
        b.publish("t", json!({"b": n})).await;
    }
    let mut seqs = Vec::new();
    for frame in a.events(40).await {
        assert_eq!(frame["ctx"]["attempt"], 1, "{frame}");
        a.ack("t", "g", &frame["event"]["id"]).await;
        seqs.push(frame["event"]["seq"].as_u64().unwrap());
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=40).collect::<Vec<_>>());
    assert!(b.events_so_far().await.is_empty(), "who stands by gets nothing");
}

#[tokio::test]
async fn who_stands_by_takes_over_when_the_owners_members_left() {
    let (_store, one, two) = pair(LONG);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({"maxAttempts": 3})).await;
    b.subscribe("t", "g", json!({"maxAttempts": 7})).await;
    for n in 0..3 {
        a.publish("t", json!(n)).await;
    }
    let got = a.events(3).await;
    a.ack("t", "g", &got[1]["event"]["id"]).await;
    a.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    let again = b.events(2).await;
    for (frame, before) in again.iter().zip([&got[0], &got[2]]) {
        assert_eq!(frame["event"]["id"], before["event"]["id"]);
        assert_eq!(frame["ctx"]["attempt"], 1, "it was not counted");
        assert_eq!(frame["ctx"]["max_attempts"], 7, "what was asked for while it stood by");
        b.ack("t", "g", &frame["event"]["id"]).await;
    }
    // And back: the other finds it free.
    drop(b);
    a.subscribe("t", "g", json!({})).await;
    a.publish("t", json!("new")).await;
    assert_eq!(a.event().await["event"]["payload"], "new");
    assert!(
        a.events_so_far().await.is_empty(),
        "what was acked there does not come here"
    );
}

#[tokio::test]
async fn who_stands_by_takes_over_at_once_when_the_owner_goes_down_in_order() {
    let (_store, one, two) = pair(LONG);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({})).await;
    b.subscribe("t", "g", json!({})).await;
    a.publish("t", json!(1)).await;
    a.event().await;
    drop(one);
    let frame = b.event().await;
    assert_eq!(
        (&frame["event"]["payload"], &frame["ctx"]["attempt"]),
        (&json!(1), &json!(1))
    );
    b.ack("t", "g", &frame["event"]["id"]).await;
}

#[tokio::test]
async fn what_a_member_of_a_group_that_stands_by_may_do() {
    let (_store, one, two) = pair(LONG);
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    a.subscribe("t", "g", json!({"ordered": true})).await;
    a.publish("t", json!(1)).await;
    let id = a.event().await["event"]["id"].clone();
    let subscribe = |opts| json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts});
    let refused = b.err(subscribe(json!({"ordered": false})), "conflict").await;
    assert!(refused["msg"].as_str().unwrap().contains("opts.ordered"), "{refused}");
    b.ok(subscribe(json!({"ordered": true, "backoffMs": 5}))).await;
    let about = |op: &str| json!({"op": op, "topic": "t", "group": "g", "id": id, "extend_ms": 5_000});
    b.ok(about("NACK")).await;
    b.err(about("MODACK"), "unknown_id").await;
    b.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    b.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    assert!(a.events_so_far().await.is_empty() && b.events_so_far().await.is_empty());
    b.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    a.ack("t", "g", &id).await;
}

#[tokio::test]
async fn two_gateways_make_one_group_at_once() {
    let (_store, one, two) = pair(LONG);
    for round in 0..20 {
        let topic = format!("race.{round}");
        let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
        let opts = json!({"from": "earliest"});
        tokio::join!(
            a.subscribe(&topic, "g", opts.clone()),
            b.subscribe(&topic, "g", opts.clone())
        );
        a.publish(&topic, json!(round)).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let (mut at_a, mut at_b) = (vec![], vec![]);
        while at_a.len() + at_b.len() == 0 {
            assert!(tokio::time::Instant::now() < deadline, "nobody got it");
            at_a.extend(a.events_so_far().await);
            at_b.extend(b.events_so_far().await);
        }
        at_a.extend(a.events_so_far().await);
        at_b.extend(b.events_so_far().await);
        assert_eq!(at_a.len() + at_b.len(), 1, "one of them gets it, once");
    }
}

#[tokio::test]
async fn operators_change_a_group_where_it_is_owned_or_free() {
    let (_store, one, two) = pair(LONG);
    let mut a = one.gateway.connect().await;
    a.subscribe("t", "g", json!({})).await;
    a.publish("t", json!(1)).await;
    let id = a.event().await["event"]["id"].clone();
    a.ack("t", "g", &id).await;
    for (method, path) in [
        ("POST", "/groups/t/g/pause"),
        ("DELETE", "/groups/t/g"),
        ("DELETE", "/topics/t"),
    ] {
        let answer = ask(two.gateway.address, method, path).await;
        assert!(answer.starts_with("HTTP/1.1 409"), "{method} {path}: {answer}");
        assert!(answer.contains("another gateway"), "{answer}");
    }
    assert!(
        ask(one.gateway.address, "POST", "/groups/t/g/pause")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        ask(one.gateway.address, "POST", "/groups/t/g/resume")
            .await
            .starts_with("HTTP/1.1 200")
    );
    a.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    // It is free as soon as the owner has let it go.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask(two.gateway.address, "DELETE", "/topics/t").await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ask(address: std::net::SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
