//! Topics over HTTP: how they are, and their end.

use serde_json::json;

use crate::http::{becomes, expect, get};
use crate::support::TestGateway;

#[actix::test]
async fn topics_say_what_they_hold() {
    let set = "topic=[{name=\"t\",retention={age=\"1h\",count=100},limit={capacity=50,refill_per_sec=2.5}}]";
    let gateway = TestGateway::start(&[set]);
    let mut client = gateway.connect().await;
    assert_eq!(get(gateway.address, "/topics").await, json!({"topics": []}));
    for n in 0..4 {
        client.publish("t", json!(n)).await;
    }
    client.publish("other", json!(0)).await;
    let found = get(gateway.address, "/topics").await;
    let topics = found["topics"].as_array().unwrap();
    assert_eq!((topics.len(), &topics[0]["topic"]), (2, &json!("other")));
    let topic = &topics[1];
    assert_eq!(
        (&topic["first"], &topic["tail"], &topic["events"]),
        (&json!(1), &json!(4), &json!(4))
    );
    assert_eq!(topic["limit"], json!({"capacity": 50, "refill_per_sec": 2.5}));
    assert_eq!(topic["retention"], json!({"age_ms": 3_600_000, "count": 100}));
    assert_eq!((&topic["partitions"], &topics[0]["limit"]), (&json!(8), &json!("off")));
    assert!(topic["rate"].as_f64().unwrap() > 0.0 && topic["bytes"].as_u64().unwrap() > 0);
}

#[actix::test]
async fn a_deleted_topic_begins_anew_at_seq_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("store.path={}", folder.path().display());
    for store in [&["store.kind=memory"][..], &["store.kind=embedded", &path]] {
        let gateway = TestGateway::start(store);
        let mut client = gateway.connect().await;
        client.subscribe("t", "g", json!({})).await;
        for n in 0..5 {
            client.publish("t", json!(n)).await;
        }
        let held = client.events(5).await;
        client.ack("t", "g", &held[0]["event"]["id"]).await;
        expect(gateway.address, "DELETE /topics/t", "", 409).await;
        client
            .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
            .await;
        client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
        expect(gateway.address, "DELETE /topics/t", "", 409).await;
        client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t"})).await;
        expect(gateway.address, "DELETE /topics/t", "", 200).await;
        expect(gateway.address, "DELETE /topics/t", "", 404).await;
        assert_eq!(get(gateway.address, "/topics").await, json!({"topics": []}));
        assert_eq!(get(gateway.address, "/groups?topic=t").await, json!({"groups": []}));
        assert_eq!(client.publish("t", json!("new")).await["seq"], 1);
        client.subscribe("t", "g", json!({"from": "earliest"})).await;
        assert_eq!(client.event().await["event"]["payload"], "new");
        client.publish("t", json!("newer")).await;
        assert_eq!(client.event().await["event"]["seq"], 2);
        let lag = get(gateway.address, "/lag?topic=t&group=g").await;
        assert_eq!((&lag["lag"], &lag["tail"]), (&json!(2), &json!(2)));
    }
}

/// Publishers go on while the topic is deleted again and again: every seq that is answered is of the topic as it then is,
/// and a connection's publishes stay in their order.
#[actix::test]
async fn deleted_under_load_no_actor_goes_on_with_the_old_end() {
    let gateway = TestGateway::start(&[]);
    let address = gateway.address;
    let mut client = gateway.connect().await;
    client.publish("t", json!(0)).await;
    let (mut sent, mut answered, mut last, mut begins) = (0, 0, 1, 0);
    for round in 0..10 {
        let deletion = actix::spawn(async move { expect(address, "DELETE /topics/t", "", 200).await });
        for _ in 0..200 {
            client
                .send(json!({"op": "PUBLISH", "topic": "t", "payload": sent, "opts": {"headers": {"n": format!("{sent}")}}}))
                .await;
            sent += 1;
        }
        while answered < sent {
            let answer = client.answer().await;
            assert_eq!(answer["op"], "OK", "{answer}");
            let seq = answer["seq"].as_u64().unwrap();
            assert!(seq == last + 1 || seq == 1, "round {round}: {seq} after {last}");
            begins += u64::from(seq == 1);
            (last, answered) = (seq, answered + 1);
        }
        deletion.await.unwrap();
        if get(address, "/topics").await["topics"].as_array().unwrap().is_empty() {
            last = 0;
        }
    }
    assert!(begins >= 1, "the topic began anew");
    // A publish after the last deletion is seen by whoever comes.
    client.publish("t", json!("last")).await;
    let tail = becomes(address, "/topics", |found| found["topics"][0]["tail"].is_u64()).await;
    let tail = tail["topics"][0]["tail"].as_u64().unwrap();
    let mut reader = gateway.connect().await;
    reader
        .ok(json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}}))
        .await;
    for seq in 1..=tail {
        assert_eq!(reader.event().await["event"]["seq"], seq);
    }
}
