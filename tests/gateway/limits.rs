//! Token buckets: of connections, of topics, of pushes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::TestGateway;

#[actix::test]
async fn a_connection_over_its_limit_is_told_when_to_come_back() {
    let gateway = TestGateway::start(&["limits.connection={capacity=5,refill_per_sec=0.5}"]);
    let (mut client, mut other) = (gateway.connect().await, gateway.connect().await);
    for _ in 0..5 {
        client.publish("t", json!(1)).await;
    }
    let publish = json!({"op": "PUBLISH", "topic": "t", "payload": 1});
    let answer = client.err(publish.clone(), "rate_limited").await;
    assert_eq!(answer["msg"], "conn publish rate exceeded");
    let wait = answer["retry_after_ms"].as_u64().unwrap();
    assert!((1..=2_000).contains(&wait), "{wait}");
    other.ok(publish.clone()).await;
    tokio::time::sleep(Duration::from_millis(wait)).await;
    client.ok(publish).await;
}

#[actix::test]
async fn a_topic_over_its_limit_refuses_everyone_but_other_topics_do_not() {
    let gateway = TestGateway::start(&["limits.topic={capacity=3,refill_per_sec=0.1}"]);
    let (mut one, mut two) = (gateway.connect().await, gateway.connect().await);
    for _ in 0..3 {
        one.publish("t", json!(1)).await;
    }
    let answer = two
        .err(json!({"op": "PUBLISH", "topic": "t", "payload": 1}), "rate_limited")
        .await;
    assert_eq!(answer["msg"], "topic publish rate exceeded");
    assert!(answer["retry_after_ms"].as_u64().unwrap() <= 10_000);
    two.publish("u", json!(1)).await;
}

#[actix::test]
async fn a_refusal_by_the_topic_keeps_its_place_among_the_answers() {
    let gateway = TestGateway::start(&["limits.topic={capacity=3,refill_per_sec=0.001}"]);
    let mut client = gateway.connect().await;
    let mut corrs = Vec::new();
    for n in 0..6 {
        corrs.push(client.send(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await);
    }
    for (at, corr) in corrs.into_iter().enumerate() {
        let answer = client.answer().await;
        assert_eq!(answer["corr"], corr);
        assert_eq!(answer["op"], if at < 3 { "OK" } else { "ERR" });
    }
}

#[actix::test]
async fn a_batch_above_a_buckets_capacity_is_a_bad_request_that_says_it() {
    let batch = |n: usize| json!({"op": "PUBLISH_BATCH", "topic": "t", "events": vec![json!({"payload": 1}); n]});
    for set in [
        "limits.connection={capacity=5,refill_per_sec=1}",
        "limits.topic={capacity=5,refill_per_sec=1}",
    ] {
        let gateway = TestGateway::start(&[set]);
        let mut client = gateway.connect().await;
        let answer = client.err(batch(6), "bad_request").await;
        assert!(answer["msg"].as_str().unwrap().contains('5'), "{answer}");
        client.ok(batch(5)).await;
        client.err(batch(1), "rate_limited").await;
    }
}

#[actix::test]
async fn pushes_over_the_limit_wait_and_come() {
    let gateway = TestGateway::start(&["limits.push={capacity=2,refill_per_sec=20}"]);
    let (mut publisher, mut consumer) = (gateway.connect().await, gateway.connect().await);
    consumer.subscribe("t", "g", json!({})).await;
    for n in 0..12 {
        publisher.publish("t", json!(n)).await;
    }
    let began = Instant::now();
    let events = consumer.events(12).await;
    let seqs: Vec<u64> = events
        .iter()
        .map(|frame| frame["event"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=12).collect::<Vec<u64>>());
    // Ten of them had to wait for tokens at 20 a second; some of that time passed while they were published.
    assert!(began.elapsed() > Duration::from_millis(200), "{:?}", began.elapsed());
    assert!(events.iter().all(|frame| frame["ctx"]["attempt"] == 1));
}

#[actix::test]
async fn pushes_take_from_the_connections_bucket_unless_they_have_their_own() {
    let gateway = TestGateway::start(&["limits.connection={capacity=4,refill_per_sec=0.01}"]);
    let mut client = gateway.connect().await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    for n in 0..2 {
        client.publish("t", json!(n)).await;
        client.event().await;
    }
    client
        .err(json!({"op": "PUBLISH", "topic": "t", "payload": 1}), "rate_limited")
        .await;
}

#[actix::test]
async fn what_waits_for_a_token_has_no_lease_and_goes_to_another_member() {
    let gateway = TestGateway::start(&["limits.push={capacity=1,refill_per_sec=0.01}"]);
    let (mut publisher, mut slow) = (gateway.connect().await, gateway.connect().await);
    slow.subscribe("t", "g", json!({"ackTimeoutMs": 1_000})).await;
    for n in 0..2 {
        publisher.publish("t", json!(n)).await;
    }
    let first = slow.event().await;
    slow.ack("t", "g", &first["event"]["id"]).await;
    let mut other = gateway.connect().await;
    other.subscribe("t", "g", json!({})).await;
    let second = other.event().await;
    assert_eq!(
        (&second["event"]["seq"], &second["ctx"]["attempt"]),
        (&json!(2), &json!(1))
    );
}
