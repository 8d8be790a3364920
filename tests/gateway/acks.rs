//! ACK, NACK, MODACK: which ids they take, and from whom.

use serde_json::{Value, json};

use crate::support::TestGateway;

fn ack(id: &Value) -> Value {
    json!({"op": "ACK", "topic": "t", "group": "g", "id": id})
}

#[actix::test]
async fn any_member_acks_any_event_and_twice_is_fine() {
    let gateway = TestGateway::start(&[]);
    let (mut one, mut two) = (gateway.connect().await, gateway.connect().await);
    one.subscribe("t", "g", json!({"ackTimeoutMs": 1_000})).await;
    let published = one.publish("t", json!(1)).await;
    one.event().await;
    two.subscribe("t", "g", json!({})).await;
    two.ok(ack(&published["id"])).await;
    two.ok(ack(&published["id"])).await;
    one.ok(ack(&published["id"])).await;
    one.publish("t", json!(2)).await;
    // Were the first one still leased, its lease would end and it would come before or beside this one's second time.
    let (mut seen, mut attempts) = (Vec::new(), 0);
    while attempts < 2 {
        let frame = tokio::select! { frame = one.event() => frame, frame = two.event() => frame };
        attempts = frame["ctx"]["attempt"].as_u64().unwrap();
        seen.push(frame["event"]["seq"].as_u64().unwrap());
        if attempts == 1 {
            two.ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": frame["event"]["id"], "delay_ms": 0}))
                .await;
            one.ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": frame["event"]["id"], "delay_ms": 0}))
                .await;
        }
    }
    assert!(seen.iter().all(|seq| *seq == 2), "{seen:?}");
}

#[actix::test]
async fn an_event_that_was_not_delivered_yet_can_be_acked() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxInFlight": 1})).await;
    let mut ids = Vec::new();
    for n in 0..300 {
        ids.push(client.publish("t", json!(n)).await["id"].clone());
    }
    client.event().await;
    for id in &ids[1..299] {
        client.ok(ack(id)).await;
    }
    client.ok(ack(&ids[0])).await;
    assert_eq!(client.event().await["event"]["seq"], 300);
}

#[actix::test]
async fn an_id_that_never_was_is_unknown() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    client.publish("t", json!(1)).await;
    client.event().await;
    let answer = client.err(ack(&json!("nobody")), "unknown_id").await;
    assert!(answer["msg"].as_str().unwrap().contains("nobody"), "{answer}");
}

#[actix::test]
async fn an_id_beyond_the_window_is_unknown() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxInFlight": 1})).await;
    for _ in 0..11 {
        let events = vec![json!({"payload": 1}); 1_000];
        client
            .ok(json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}))
            .await;
    }
    let far = client.publish("t", json!(1)).await["id"].clone();
    client.err(ack(&far), "unknown_id").await;
}

#[actix::test]
async fn only_the_holder_can_nack_or_extend() {
    let gateway = TestGateway::start(&[]);
    let (mut holder, mut other) = (gateway.connect().await, gateway.connect().await);
    holder.subscribe("t", "g", json!({})).await;
    let id = holder.publish("t", json!(1)).await["id"].clone();
    holder.event().await;
    other.subscribe("t", "g", json!({})).await;
    other
        .ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": id, "delay_ms": 0}))
        .await;
    other
        .err(
            json!({"op": "MODACK", "topic": "t", "group": "g", "id": id, "extend_ms": 5_000}),
            "unknown_id",
        )
        .await;
    assert!(other.events_so_far().await.is_empty(), "the other's NACK had no effect");
    let answer = holder
        .ok(json!({"op": "MODACK", "topic": "t", "group": "g", "id": id, "extend_ms": 5_000}))
        .await;
    assert_eq!(answer["ack_deadline_ms"], 5_000);
    let answer = holder
        .ok(json!({"op": "MODACK", "topic": "t", "group": "g", "id": id, "extend_ms": 1}))
        .await;
    assert_eq!(answer["ack_deadline_ms"], 1_000, "a lease is not cut below a second");
    holder
        .ok(json!({"op": "NACK", "topic": "t", "group": "g", "ids": [id], "delay_ms": 0}))
        .await;
    let again = tokio::select! { frame = holder.event() => frame, frame = other.event() => frame };
    assert_eq!(again["ctx"]["attempt"], 2);
}

#[actix::test]
async fn an_extended_lease_lasts_longer() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"ackTimeoutMs": 1_000})).await;
    let (long, short) = (
        client.publish("t", json!("long")).await,
        client.publish("t", json!("short")).await,
    );
    client.events(2).await;
    client
        .ok(json!({"op": "MODACK", "topic": "t", "group": "g", "id": long["id"], "extend_ms": 60_000}))
        .await;
    // The other lease ends first, again and again; the extended one does not.
    for _ in 0..2 {
        assert_eq!(client.event().await["event"]["id"], short["id"]);
    }
    client.ok(ack(&long["id"])).await;
}

#[actix::test]
async fn frames_sent_right_behind_a_subscribe_find_it() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .send(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    client.send(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    client
        .send(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    client
        .send(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    let mut codes = Vec::new();
    for _ in 0..4 {
        let answer = client.answer().await;
        codes.push((answer["corr"].as_u64().unwrap(), answer["op"].clone()));
    }
    codes.sort_by_key(|(corr, _)| *corr);
    let ops: Vec<Value> = codes.into_iter().map(|(_, op)| op).collect();
    assert_eq!(ops, ["OK", "OK", "OK", "ERR"]);
}

#[actix::test]
async fn what_follows_a_refused_subscribe_is_told_so() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let opts = json!({"from": "afterId", "afterId": "nobody"});
    client
        .send(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts}))
        .await;
    client.send(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    assert_eq!(client.answer().await["code"], "unknown_id");
    assert_eq!(client.answer().await["code"], "not_subscribed");
    client.subscribe("t", "g", json!({})).await;
}

#[actix::test]
async fn thousands_of_unknown_acks_are_each_answered_in_their_order() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    let published = client.publish("t", json!(1)).await;
    client.event().await;
    let mut corrs = Vec::new();
    for n in 0..3_000 {
        let id = if n % 100 == 0 {
            published["id"].clone()
        } else {
            json!(format!("nobody-{n}"))
        };
        corrs.push((n, client.send(ack(&id)).await));
    }
    for (n, corr) in corrs {
        let answer = client.answer().await;
        assert_eq!(answer["corr"], corr);
        let code = if n % 100 == 0 { json!(null) } else { json!("unknown_id") };
        assert_eq!(answer["code"], code, "{answer}");
    }
}
