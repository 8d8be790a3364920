//! Publishing: numbers, ids, batches, the payload's text.

use serde_json::{Value, json};

use crate::support::TestGateway;

#[actix::test]
async fn seqs_rise_from_one_and_ids_are_uuids() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for expected in 1..=5 {
        let answer = client.publish("t", json!({"n": expected})).await;
        assert_eq!(answer["seq"], expected);
        assert_eq!(
            uuid::Uuid::parse_str(answer["id"].as_str().unwrap())
                .unwrap()
                .get_version_num(),
            7
        );
    }
}

#[actix::test]
async fn answers_to_pipelined_publishes_come_in_their_order() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let mut corrs = Vec::new();
    for n in 0..1_000 {
        corrs.push(client.send(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await);
    }
    for (at, corr) in corrs.into_iter().enumerate() {
        let answer = client.answer().await;
        assert_eq!((&answer["corr"], &answer["seq"]), (&json!(corr), &json!(at + 1)));
    }
}

#[actix::test]
async fn a_batch_is_answered_with_all_its_ids_and_seqs() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let events: Vec<Value> = (0..3)
        .map(|n| json!({"payload": n, "opts": {"id": format!("id-{n}")}}))
        .collect();
    let batch = json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events});
    for _ in 0..2 {
        let answer = client.ok(batch.clone()).await;
        assert_eq!(answer["ids"], json!(["id-0", "id-1", "id-2"]));
        assert_eq!(answer["seqs"], json!([1, 2, 3]), "the second time it is known already");
    }
    let one = client
        .ok(json!({"op": "PUBLISH_BATCH", "topic": "t", "events": [{"payload": 1}]}))
        .await;
    assert_eq!(one["seqs"], json!([4]));
}

#[actix::test]
async fn a_batch_with_a_conflict_publishes_nothing() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": {"id": "x"}}))
        .await;
    let events = json!([{"payload": 5}, {"payload": 2, "opts": {"id": "x"}}]);
    client
        .err(
            json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}),
            "conflict",
        )
        .await;
    assert_eq!(client.publish("t", json!(1)).await["seq"], 2);
}

#[actix::test]
async fn a_known_id_is_answered_with_the_first_seq_whatever_its_white_space() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let publish = |payload: &str| format!(r#"{{"op":"PUBLISH","topic":"t","payload":{payload},"opts":{{"id":"x"}}}}"#);
    for payload in [r#"{"a":1.0}"#, "{ \"a\" :\n 1.0 }"] {
        client.send_text(publish(payload)).await;
        let answer = client.answer().await;
        assert_eq!((&answer["id"], &answer["seq"]), (&json!("x"), &json!(1)), "{answer}");
    }
    client.send_text(publish(r#"{"a":1}"#)).await;
    assert_eq!(client.answer().await["code"], "conflict");
}

#[actix::test]
async fn ugly_json_keeps_its_text() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "ugly"})).await;
    let ugly = [
        "1.0",
        "1e400",
        "-0",
        "123456789012345678901234567890",
        r#"{"a":1,"a":2,"":{"$x":[]}}"#,
        r#""\u00e9\ud83d\ude00\/\u2028""#,
        "\"\u{2028}é\"",
        "null",
    ];
    for payload in ugly {
        client
            .send_text(format!(r#"{{"op":"PUBLISH","topic":"ugly","payload":{payload}}}"#))
            .await;
    }
    let mut seen = 0;
    while seen < ugly.len() {
        let frame = client.next_frame().await.unwrap().into_text().unwrap();
        if frame.contains("\"EVENT\"") {
            assert!(frame.contains(&format!(r#""payload":{}"#, ugly[seen])), "{frame}");
            seen += 1;
        }
    }
}

#[actix::test]
async fn an_event_has_what_its_publisher_gave() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    let opts =
        json!({"id": "i", "ts": 5, "key": "k", "headers": {"h": "v"}, "tags": ["a"], "caused_by": ["c"], "sid": "s"});
    client
        .ok(json!({"op": "PUBLISH", "topic": "t", "payload": {"x": 1}, "opts": opts}))
        .await;
    let frame = client.event().await;
    assert_eq!(frame["ctx"], json!({"attempt": 1}));
    assert_eq!(frame["group"], Value::Null);
    let partition = tidegate::domain::partition_of("k", 8);
    assert_eq!(
        frame["event"],
        json!({"id": "i", "seq": 1, "ts": 5, "topic": "t", "key": "k", "partition": partition, "headers": {"h": "v"},
               "payload": {"x": 1}, "tags": ["a"], "caused_by": ["c"], "sid": "s"})
    );
}

#[actix::test]
async fn nobody_publishes_to_what_the_gateway_derives() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for topic in ["dlq.t", "t.snapshot"] {
        client
            .err(json!({"op": "PUBLISH", "topic": topic, "payload": 1}), "forbidden")
            .await;
    }
}

#[actix::test]
async fn one_topic_too_many_is_refused_and_the_others_go_on() {
    let gateway = TestGateway::start(&["gateway.max_topics=2"]);
    let mut client = gateway.connect().await;
    client.publish("a", json!(1)).await;
    client.publish("b", json!(1)).await;
    let answer = client
        .err(json!({"op": "PUBLISH", "topic": "c", "payload": 1}), "bad_request")
        .await;
    assert!(answer["msg"].as_str().unwrap().contains("max_topics"), "{answer}");
    assert_eq!(client.publish("a", json!(1)).await["seq"], 2);
}
