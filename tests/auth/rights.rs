//! Every frame is checked against the token's rights.

use serde_json::{Value, json};

use crate::issuer::{SECRET, Signer, seconds};
use crate::support::{Client, TestGateway};

pub fn gateway() -> TestGateway {
    TestGateway::start(&["auth.mode=jwt", &format!("auth.jwt.secret={SECRET}")])
}

pub async fn client(gateway: &TestGateway, claims: Value) -> Client {
    let mut claims = claims;
    if claims.get("exp").is_none() {
        claims["exp"] = json!(seconds(60));
    }
    let mut client = gateway.connect().await;
    let token = Signer::secret(SECRET).sign(&claims);
    client.ok(json!({"op": "AUTH", "token": token})).await;
    client
}

fn publish(topic: &str) -> Value {
    json!({"op": "PUBLISH", "topic": topic, "payload": 1})
}

fn subscribe(topic: &str, group: Option<&str>) -> Value {
    match group {
        Some(group) => json!({"op": "SUBSCRIBE", "topic": topic, "group": group}),
        None => json!({"op": "SUBSCRIBE", "topic": topic}),
    }
}

#[actix::test]
async fn scopes_decide_frame_by_frame() {
    let gateway = gateway();
    let mut writer = client(&gateway, json!({"scopes": ["publish:orders.*"]})).await;
    writer.ok(publish("orders.eu")).await;
    writer
        .ok(json!({"op": "PUBLISH_BATCH", "topic": "orders.eu", "events": [{"payload": 1}]}))
        .await;
    for topic in ["orders", "orders.eu.de", "logs", "dlq.orders.eu", "orders.eu.snapshot"] {
        writer.err(publish(topic), "forbidden").await;
    }
    writer
        .err(
            json!({"op": "PUBLISH_BATCH", "topic": "logs", "events": [{"payload": 1}]}),
            "forbidden",
        )
        .await;
    // Neither a topic that exists nor one that does not can be told apart.
    let exists = writer.err(subscribe("orders.eu", None), "forbidden").await;
    let not = writer.err(subscribe("orders.xx", None), "forbidden").await;
    let same = |answer: &Value| answer["msg"].as_str().unwrap().replace("orders.eu", "orders.xx");
    assert_eq!(same(&exists), same(&not));

    let mut reader = client(&gateway, json!({"scope": "openid subscribe:orders.**"})).await;
    reader.err(publish("orders.eu"), "forbidden").await;
    for topic in ["orders", "orders.eu", "dlq.orders.eu", "orders.eu.snapshot"] {
        reader.ok(subscribe(topic, Some("g"))).await;
        reader.ok(subscribe(topic, None)).await;
    }
    reader.err(subscribe("logs", None), "forbidden").await;
    for op in [
        json!({"op": "ACK", "topic": "logs", "group": "g", "id": "x"}),
        json!({"op": "NACK", "topic": "logs", "group": "g", "id": "x"}),
        json!({"op": "MODACK", "topic": "logs", "group": "g", "id": "x", "extend_ms": 5}),
        json!({"op": "PAUSE", "topic": "logs", "group": "g"}),
        json!({"op": "RESUME", "topic": "logs"}),
        json!({"op": "UNSUBSCRIBE", "topic": "logs"}),
    ] {
        reader.err(op, "forbidden").await;
    }
    reader
        .err(json!({"op": "PAUSE", "topic": "orders.new"}), "not_subscribed")
        .await;
}

#[actix::test]
async fn a_policy_decides_alone_and_by_group() {
    let gateway = gateway();
    let mut client = client(
        &gateway,
        json!({"scopes": ["*:**"], "policy": {"rules": [
            {"effect": "deny", "action": "publish", "topics": ["orders.closed"]},
            {"effect": "allow", "action": "publish", "topics": ["orders.*"]},
            {"effect": "allow", "action": "subscribe", "topics": ["orders.*"], "groups": ["billing"]},
        ]}}),
    )
    .await;
    client.ok(publish("orders.open")).await;
    client.err(publish("orders.closed"), "forbidden").await;
    client.err(publish("logs"), "forbidden").await;
    client.ok(subscribe("orders.open", Some("billing"))).await;
    client.err(subscribe("orders.open", Some("audit")), "forbidden").await;
    client.err(subscribe("orders.open", None), "forbidden").await;
}

#[actix::test]
async fn fewer_rights_end_what_they_do_not_cover() {
    let gateway = gateway();
    let signer = Signer::secret(SECRET);
    let mut member = client(&gateway, json!({"scopes": ["*:**"]})).await;
    for topic in ["orders", "logs"] {
        member.subscribe(topic, "g", json!({"from": "earliest"})).await;
        member.publish(topic, json!(1)).await;
        let event = member.event().await;
        assert_eq!((&event["topic"], &event["ctx"]["attempt"]), (&json!(topic), &json!(1)));
    }
    member.ok(subscribe("logs", None)).await;

    let narrow = signer.scopes(&["subscribe:orders"]);
    member.ok(json!({"op": "AUTH", "token": narrow})).await;
    let mut ended = Vec::new();
    for _ in 0..2 {
        let frame = member.answer().await;
        assert_eq!(
            (&frame["op"], &frame["code"]),
            (&json!("ERR"), &json!("forbidden")),
            "{frame}"
        );
        assert_eq!((&frame["topic"], frame.get("corr")), (&json!("logs"), None), "{frame}");
        ended.push(frame["group"].clone());
    }
    ended.sort_by_key(Value::to_string);
    assert_eq!(ended, [json!("g"), Value::Null]);
    member
        .err(
            json!({"op": "ACK", "topic": "logs", "group": "g", "id": "x"}),
            "forbidden",
        )
        .await;
    member.err(publish("orders"), "forbidden").await;

    // The lease went back, and the delivery does not count.
    let mut other = client(&gateway, json!({"scopes": ["*:**"]})).await;
    other.subscribe("logs", "g", json!({})).await;
    let event = other.event().await;
    assert_eq!(event["ctx"]["attempt"], 1, "{event}");
    // What is still covered goes on.
    other.publish("orders", json!(2)).await;
    assert_eq!(member.event().await["topic"], "orders");
}

#[actix::test]
async fn a_failed_second_auth_leaves_the_old_rights() {
    let gateway = gateway();
    let mut client = client(&gateway, json!({"scopes": ["*:**"]})).await;
    client.ok(subscribe("orders", None)).await;
    let expired = Signer::secret(SECRET).sign(&json!({"exp": seconds(-60), "scopes": []}));
    for token in [expired.as_str(), "nonsense"] {
        client.err(json!({"op": "AUTH", "token": token}), "jwt_invalid").await;
    }
    client.publish("orders", json!(1)).await;
    assert_eq!(client.event().await["topic"], "orders");
}

#[actix::test]
async fn rights_lost_while_a_subscription_begins_end_it_too() {
    let gateway = gateway();
    let mut member = client(&gateway, json!({"scopes": ["*:**"]})).await;
    member.publish("logs", json!(1)).await;
    let narrow = Signer::secret(SECRET).scopes(&["publish:**"]);
    let subscribe = member
        .send(json!({"op": "SUBSCRIBE", "topic": "logs", "group": "g", "opts": {"from": "earliest"}}))
        .await;
    let auth = member.send(json!({"op": "AUTH", "token": narrow})).await;
    let publish = member.send(publish("logs")).await;
    // Whether it had begun by then or not: each request has one answer, and the subscription's end is told once.
    let (mut answered, mut ended) = (Vec::new(), 0);
    while answered.len() < 3 || ended < 1 {
        let frame = member.answer().await;
        match frame["corr"].as_u64() {
            Some(corr) => answered.push(corr),
            None => {
                assert_eq!(
                    (&frame["code"], &frame["topic"]),
                    (&json!("forbidden"), &json!("logs")),
                    "{frame}"
                );
                ended += 1;
            }
        }
    }
    answered.sort_unstable();
    assert_eq!((answered, ended), (vec![subscribe, auth, publish], 1));
    // Nothing more comes, and the event is there for others, as if it had never been handed out.
    let mut other = client(&gateway, json!({"scopes": ["*:**"]})).await;
    other.subscribe("logs", "g", json!({"from": "earliest"})).await;
    let attempts: Vec<Value> = other
        .events(2)
        .await
        .iter()
        .map(|event| event["ctx"]["attempt"].clone())
        .collect();
    assert_eq!(attempts, [1, 1]);
}
