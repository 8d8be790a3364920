//! Subscriptions without a group: every one gets every event, in order.

use serde_json::{Value, json};

use crate::support::TestGateway;

fn seqs(events: &[Value]) -> Vec<u64> {
    events
        .iter()
        .map(|frame| frame["event"]["seq"].as_u64().unwrap())
        .collect()
}

#[actix::test]
async fn each_gets_every_event_in_order() {
    let gateway = TestGateway::start(&[]);
    let mut publisher = gateway.connect().await;
    let (mut one, mut two) = (gateway.connect().await, gateway.connect().await);
    one.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    two.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    for n in 0..500 {
        publisher
            .send(json!({"op": "PUBLISH", "topic": "t", "payload": n}))
            .await;
    }
    let expected: Vec<u64> = (1..=500).collect();
    assert_eq!(seqs(&one.events(500).await), expected);
    assert_eq!(seqs(&two.events(500).await), expected);
}

#[actix::test]
async fn it_starts_where_it_was_asked_to() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for (n, ts) in [(1, 100), (2, 300), (3, 200), (4, 400)] {
        let opts = json!({"id": format!("e{n}"), "ts": ts});
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": n, "opts": opts}))
            .await;
    }
    let cases = [
        (json!({"from": "earliest"}), vec![1, 2, 3, 4]),
        (json!({"from": "ts", "ts": 300}), vec![2, 3, 4]),
        (json!({"from": "ts", "ts": 301}), vec![4]),
        (json!({"from": "afterId", "afterId": "e3"}), vec![4]),
    ];
    for (opts, expected) in cases {
        client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "opts": opts})).await;
        assert_eq!(seqs(&client.events(expected.len()).await), expected);
        client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t"})).await;
    }
    let opts = json!({"from": "afterId", "afterId": "nobody"});
    client
        .err(json!({"op": "SUBSCRIBE", "topic": "t", "opts": opts}), "unknown_id")
        .await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    client.publish("t", json!(5)).await;
    assert_eq!(seqs(&[client.event().await]), [5]);
}

#[actix::test]
async fn one_for_a_topic_and_a_filter_holds() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let filter = json!({"tags": ["red", "blue"], "keyPrefix": "a"});
    client
        .ok(json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"filter": filter}}))
        .await;
    client
        .err(json!({"op": "SUBSCRIBE", "topic": "t"}), "already_subscribed")
        .await;
    for (key, tag) in [("a1", "red"), ("b1", "red"), ("a2", "green"), ("a3", "blue")] {
        let opts = json!({"key": key, "tags": [tag]});
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": opts}))
            .await;
    }
    assert_eq!(seqs(&client.events(2).await), [1, 4]);
    assert!(client.events_so_far().await.is_empty());
}

#[actix::test]
async fn paused_it_gets_nothing_and_resumed_it_gets_all() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    client.ok(json!({"op": "PAUSE", "topic": "t"})).await;
    for n in 0..3 {
        client.publish("t", json!(n)).await;
    }
    assert!(client.events_so_far().await.is_empty());
    client.ok(json!({"op": "RESUME", "topic": "t"})).await;
    assert_eq!(seqs(&client.events(3).await), [1, 2, 3]);
}

#[actix::test]
async fn many_large_events_reach_a_reader_that_starts_late() {
    let gateway = TestGateway::start(&[]);
    let mut publisher = gateway.connect().await;
    for _ in 0..200 {
        publisher.publish("t", json!("x".repeat(100_000))).await;
    }
    let mut reader = gateway.connect().await;
    reader
        .ok(json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}}))
        .await;
    assert_eq!(seqs(&reader.events(200).await), (1..=200).collect::<Vec<u64>>());
}

#[actix::test]
async fn two_hundred_fifty_six_subscriptions_and_no_more() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for n in 0..256 {
        client.ok(json!({"op": "SUBSCRIBE", "topic": format!("t{n}")})).await;
    }
    let answer = client
        .err(json!({"op": "SUBSCRIBE", "topic": "one-more"}), "bad_request")
        .await;
    assert!(answer["msg"].as_str().unwrap().contains("256"), "{answer}");
    client.publish("t200", json!(1)).await;
    assert_eq!(client.event().await["topic"], "t200");
}
