//! What gateways hear of each other's publishes.

use serde_json::{Value, json};
use tidegate::domain::TopicName;
use tidegate::store::{Store, Write};

use crate::pair::pair;
use crate::support::Client;

fn seqs(frames: &[Value]) -> Vec<u64> {
    frames
        .iter()
        .map(|frame| frame["event"]["seq"].as_u64().unwrap())
        .collect()
}

async fn follow(client: &mut Client, topic: &str) {
    client.ok(json!({"op": "SUBSCRIBE", "topic": topic})).await;
}

#[tokio::test]
async fn everybody_gets_everything_in_order() {
    let (_store, one, two) = pair("10m");
    let (mut at_one, mut at_two) = (one.gateway.connect().await, two.gateway.connect().await);
    follow(&mut at_one, "t").await;
    follow(&mut at_two, "t").await;
    let publish = async |client: &mut Client, from: u64| {
        for n in from..from + 300 {
            client.publish("t", json!(n)).await;
        }
    };
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    tokio::join!(publish(&mut a, 0), publish(&mut b, 1_000));
    for client in [&mut at_one, &mut at_two] {
        assert_eq!(seqs(&client.events(600).await), (1..=600).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn latest_is_what_any_gateway_answered_ok() {
    let (_store, one, two) = pair("10m");
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    // The topic runs on both, so that one of them could be behind.
    follow(&mut b, "t").await;
    for round in 0..50 {
        a.publish("t", json!({"before": round})).await;
        let mut late = two.gateway.connect().await;
        late.subscribe("t", &format!("g{round}"), json!({"from": "latest"}))
            .await;
        a.publish("t", json!({"after": round})).await;
        let first = late.event().await;
        assert_eq!(first["event"]["payload"], json!({"after": round}));
    }
}

#[tokio::test]
async fn a_topic_that_was_made_anew_elsewhere_is_followed() {
    let (store, one, two) = pair("10m");
    let (mut a, mut b) = (one.gateway.connect().await, two.gateway.connect().await);
    follow(&mut b, "t").await;
    b.subscribe("t", "g", json!({"from": "earliest"})).await;
    for n in 0..10 {
        a.publish("t", json!(n)).await;
    }
    b.events(20).await;
    let topic: TopicName = "t".parse().unwrap();
    store
        .commit(vec![Write::DeleteTopic { topic: topic.clone() }], 1)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    // The other gateway notices too, by itself or because of what it wrote.
    a.publish("t", json!("anew")).await;
    let frame = b.event().await;
    assert_eq!(
        (&frame["event"]["seq"], &frame["event"]["payload"]),
        (&json!(1), &json!("anew"))
    );
    let frame = b.event().await;
    assert_eq!(
        (&frame["event"]["seq"], &frame["event"]["payload"]),
        (&json!(1), &json!("anew"))
    );
}
