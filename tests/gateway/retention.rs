//! Retention in a running gateway: what is over leaves, nobody waits for it, and what a group had not acked is counted.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Client, DEADLINE, TestGateway};

const SWEEP: &str = "store.sweep_interval=20ms";

/// The seq of the oldest event that a new subscription gets. The topic must not be empty.
async fn oldest(client: &mut Client) -> u64 {
    client
        .ok(json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}}))
        .await;
    let seq = client.event().await["event"]["seq"].as_u64().unwrap();
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t"})).await;
    client.events_so_far().await;
    seq
}

async fn oldest_becomes(client: &mut Client, expected: u64) {
    let reached = async {
        loop {
            let seq = oldest(client).await;
            assert!(seq <= expected, "retention took {seq}, and {expected} is to be kept");
            if seq == expected {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, reached)
        .await
        .expect("retention in time");
}

/// `events_expired_unacked_total` of a group.
async fn expired(gateway: &TestGateway, group: &str) -> u64 {
    let mut stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        gateway.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let name = format!("tidegate_events_expired_unacked_total{{topic=\"t\",group=\"{group}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |number| number.trim().parse().unwrap())
}

async fn expired_becomes(gateway: &TestGateway, group: &str, expected: u64) {
    let reached = async {
        loop {
            let count = expired(gateway, group).await;
            assert!(count <= expected, "{count} counted, {expected} expired");
            if count == expected {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, reached).await.expect("counted in time");
}

fn ids(frames: &[Value]) -> Vec<Value> {
    frames.iter().map(|frame| frame["event"]["id"].clone()).collect()
}

#[actix::test]
async fn more_than_the_count_goes_and_is_counted_where_it_was_not_acked() {
    let gateway = TestGateway::start(&[SWEEP, "topic=[{name=\"t\",retention={count=5}}]"]);
    let (mut client, mut member) = (gateway.connect().await, gateway.connect().await);
    member
        .subscribe("t", "g", json!({"from": "earliest", "maxInFlight": 4}))
        .await;
    for n in 1..=4 {
        client.publish("t", json!(n)).await;
    }
    let held = ids(&member.events(4).await);
    member.ack("t", "g", &held[1]).await;
    for n in 5..=20 {
        client.publish("t", json!(n)).await;
    }
    oldest_becomes(&mut client, 16).await;
    expired_becomes(&gateway, "g", 14).await;
    // An event that is gone can still be acked; what is kept is delivered.
    member.ack("t", "g", &held[0]).await;
    let mut kept = Vec::new();
    while kept.len() < 5 {
        let frame = member.event().await;
        if frame["event"]["seq"].as_u64() >= Some(16) {
            member.ack("t", "g", &frame["event"]["id"]).await;
            kept.push(frame["event"]["seq"].as_u64().unwrap());
        }
    }
    assert_eq!(kept, [16, 17, 18, 19, 20]);
    assert_eq!(client.publish("t", json!(21)).await["seq"], 21, "publishing goes on");
    oldest_becomes(&mut client, 17).await;
    assert_eq!(expired(&gateway, "g").await, 14, "16 was acked");
}

#[actix::test]
async fn what_is_too_old_or_too_large_goes() {
    let gateway = TestGateway::start(&[SWEEP, "topic=[{name=\"t\",retention={bytes=1000}}]"]);
    let mut client = gateway.connect().await;
    for n in 0..10 {
        client.publish("t", json!(format!("{n}{}", "x".repeat(300)))).await;
    }
    // Each has 300 bytes and some: two are kept.
    oldest_becomes(&mut client, 9).await;

    let gateway = TestGateway::start(&[SWEEP, "topic=[{name=\"t\",retention={age=\"100ms\"}}]"]);
    let mut client = gateway.connect().await;
    for n in 0..10 {
        client.publish("t", json!(n)).await;
    }
    let gone = async {
        while oldest(&mut client).await <= 10 {
            client.publish("t", json!("later")).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone)
        .await
        .expect("the first ten expire");
}

#[actix::test]
async fn what_expired_while_a_group_was_not_loaded_is_counted_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("store.path={}", folder.path().display());
    let embedded = ["store.kind=embedded", path.as_str(), SWEEP];
    {
        let gateway = TestGateway::start(&embedded);
        let mut client = gateway.connect().await;
        for n in 1..=20 {
            client.publish("t", json!(n)).await;
        }
        client
            .subscribe("t", "g", json!({"from": "earliest", "maxInFlight": 20}))
            .await;
        let held = client.events(20).await;
        for frame in held
            .iter()
            .filter(|frame| [1, 4, 18].contains(&frame["event"]["seq"].as_u64().unwrap()))
        {
            client.ack("t", "g", &frame["event"]["id"]).await;
        }
    }
    let retention = "topic=[{name=\"t\",retention={count=5}}]";
    let gateway = TestGateway::start(&[&embedded[..], &[retention]].concat());
    let mut client = gateway.connect().await;
    oldest_becomes(&mut client, 16).await;
    assert_eq!(expired(&gateway, "g").await, 0);
    client.subscribe("t", "g", json!({})).await;
    let mut seqs: Vec<u64> = Vec::new();
    for frame in client.events(4).await {
        seqs.push(frame["event"]["seq"].as_u64().unwrap());
    }
    seqs.sort_unstable();
    assert_eq!(seqs, [16, 17, 19, 20]);
    expired_becomes(&gateway, "g", 13).await;
}
