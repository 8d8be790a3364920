//! Groups: each event to one member, leases, redelivery, dead letters, settings.

use serde_json::{Value, json};

use crate::support::{Client, TestGateway};

fn seq(frame: &Value) -> u64 {
    frame["event"]["seq"].as_u64().unwrap()
}

async fn publish_many(client: &mut Client, topic: &str, n: u64) {
    for payload in 0..n {
        client.publish(topic, json!(payload)).await;
    }
}

#[actix::test]
async fn two_groups_get_every_event_and_two_members_share_them() {
    let gateway = TestGateway::start(&[]);
    let mut publisher = gateway.connect().await;
    let (mut a1, mut a2, mut b) = (
        gateway.connect().await,
        gateway.connect().await,
        gateway.connect().await,
    );
    let opts = json!({"maxInFlight": 10});
    a1.subscribe("t", "a", opts.clone()).await;
    a2.subscribe("t", "a", opts.clone()).await;
    b.subscribe("t", "b", json!({})).await;
    publish_many(&mut publisher, "t", 20).await;
    let mut shared: Vec<u64> = a1.events(10).await.iter().map(seq).collect();
    shared.extend(a2.events(10).await.iter().map(seq));
    shared.sort_unstable();
    let all: Vec<u64> = (1..=20).collect();
    assert_eq!(shared, all);
    assert_eq!(b.events(20).await.iter().map(seq).collect::<Vec<_>>(), all);
}

#[actix::test]
async fn an_event_says_how_long_it_may_be_kept() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"ackTimeoutMs": 5_000, "maxAttempts": 7}))
        .await;
    client.publish("t", json!(1)).await;
    let frame = client.event().await;
    assert_eq!(frame["group"], "g");
    assert_eq!(
        frame["ctx"],
        json!({"attempt": 1, "max_attempts": 7, "ack_deadline_ms": 5_000})
    );
}

#[actix::test]
async fn what_was_not_acked_in_time_comes_again() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"ackTimeoutMs": 1_000})).await;
    client.publish("t", json!(1)).await;
    assert_eq!(client.event().await["ctx"]["attempt"], 1);
    let again = client.event().await;
    assert_eq!(again["ctx"]["attempt"], 2);
    client.ack("t", "g", &again["event"]["id"]).await;
    client.publish("t", json!(2)).await;
    assert_eq!(seq(&client.event().await), 2);
}

#[actix::test]
async fn a_nack_comes_again_after_its_delay_and_ends_in_the_dead_letters() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"maxAttempts": 3, "backoffMs": 10}))
        .await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "dlq.t"})).await;
    let published = client
        .ok(json!({"op": "PUBLISH", "topic": "t", "payload": {"x": 1}, "opts": {"key": "k"}}))
        .await;
    for attempt in 1..=3 {
        let frame = client.event().await;
        assert_eq!(
            (&frame["topic"], &frame["ctx"]["attempt"]),
            (&json!("t"), &json!(attempt))
        );
        let nack = json!({"op": "NACK", "topic": "t", "group": "g", "id": published["id"], "reason": "no luck"});
        client.ok(nack).await;
    }
    let letter = client.event().await;
    assert_eq!(letter["topic"], "dlq.t");
    assert_eq!(letter["event"]["key"], "k");
    let payload = &letter["event"]["payload"];
    assert_eq!(payload["topic"], "t");
    assert_eq!(payload["group"], "g");
    assert_eq!(payload["err"], "no luck");
    assert_eq!(payload["attempts"], 3);
    assert_eq!(payload["original"]["id"], published["id"]);
    assert_eq!(payload["original"]["payload"], json!({"x": 1}));
    assert!(payload["ts"].is_u64());
    client.publish("t", json!(2)).await;
    assert_eq!(seq(&client.event().await), 2, "the dead one is acked");
}

#[actix::test]
async fn dead_letters_can_be_consumed_by_a_group_and_have_none_of_their_own() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxAttempts": 1})).await;
    client.subscribe("dlq.t", "mortician", json!({"maxAttempts": 1})).await;
    for n in 0..2 {
        client.publish("t", json!(n)).await;
        let frame = client.event().await;
        client
            .ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": frame["event"]["id"]}))
            .await;
        let letter = client.event().await;
        assert_eq!((&letter["topic"], seq(&letter)), (&json!("dlq.t"), n + 1));
        let nack = json!({"op": "NACK", "topic": "dlq.t", "group": "mortician", "id": letter["event"]["id"]});
        client.ok(nack).await;
    }
}

#[actix::test]
async fn a_member_that_breaks_off_gives_its_events_to_the_others() {
    let gateway = TestGateway::start(&[]);
    let mut publisher = gateway.connect().await;
    let mut first = gateway.connect().await;
    first.subscribe("t", "g", json!({})).await;
    publish_many(&mut publisher, "t", 3).await;
    first.events(3).await;
    let mut second = gateway.connect().await;
    second.subscribe("t", "g", json!({})).await;
    drop(first);
    let again = second.events(3).await;
    assert_eq!(again.iter().map(seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        again.iter().all(|frame| frame["ctx"]["attempt"] == 2),
        "a broken connection counts"
    );
}

#[actix::test]
async fn who_unsubscribes_leaves_no_attempt_behind() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    client.publish("t", json!(1)).await;
    client.event().await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    client.subscribe("t", "g", json!({})).await;
    assert_eq!(client.event().await["ctx"]["attempt"], 1);
}

#[actix::test]
async fn paused_a_member_gets_nothing_and_the_others_go_on() {
    let gateway = TestGateway::start(&[]);
    let (mut paused, mut other) = (gateway.connect().await, gateway.connect().await);
    paused.subscribe("t", "g", json!({})).await;
    other.subscribe("t", "g", json!({"maxInFlight": 3})).await;
    paused.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    publish_many(&mut other, "t", 5).await;
    assert_eq!(other.events(3).await.iter().map(seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(paused.events_so_far().await.is_empty());
    paused.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    assert_eq!(paused.events(2).await.iter().map(seq).collect::<Vec<_>>(), [4, 5]);
}

#[actix::test]
async fn a_group_goes_on_where_it_was() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    publish_many(&mut client, "t", 4).await;
    let events = client.events(4).await;
    // A later ack does not hide an earlier event that is not acked.
    for at in [1, 3] {
        client.ack("t", "g", &events[at]["event"]["id"]).await;
    }
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    client.subscribe("t", "g", json!({"from": "earliest"})).await;
    assert_eq!(client.events(2).await.iter().map(seq).collect::<Vec<_>>(), [1, 3]);
}

#[actix::test]
async fn keys_of_an_ordered_group_come_one_after_the_other() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"ordered": true})).await;
    for key in ["a", "a", "b"] {
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": {"key": key}}))
            .await;
    }
    let first = client.events(2).await;
    assert_eq!(first.iter().map(seq).collect::<Vec<_>>(), [1, 3]);
    assert!(client.events_so_far().await.is_empty());
    client.ack("t", "g", &first[0]["event"]["id"]).await;
    assert_eq!(seq(&client.event().await), 2);
}

#[actix::test]
async fn other_settings_are_a_conflict_while_others_are_connected() {
    let gateway = TestGateway::start(&[]);
    let (mut one, mut two) = (gateway.connect().await, gateway.connect().await);
    one.subscribe("t", "g", json!({"ordered": true})).await;
    let subscribe = |opts: Value| json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts});
    two.err(subscribe(json!({"ordered": false})), "conflict").await;
    two.err(subscribe(json!({"filter": {"keys": ["a"]}})), "conflict").await;
    two.ok(subscribe(json!({"maxAttempts": 9}))).await;
    two.err(subscribe(json!({})), "already_subscribed").await;
    two.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    one.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    two.ok(subscribe(json!({"ordered": false}))).await;
    two.publish("t", json!(1)).await;
    assert_eq!(two.event().await["ctx"]["max_attempts"], 9, "what was not named stays");
}

#[actix::test]
async fn a_filter_leaves_out_and_the_rest_is_whole() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"filter": {"headers": {"kind": ["x", "y"]}}}))
        .await;
    for kind in ["x", "z", "y", "z", "x"] {
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": {"headers": {"kind": kind}}}))
            .await;
    }
    assert_eq!(client.events(3).await.iter().map(seq).collect::<Vec<_>>(), [1, 3, 5]);
}

#[actix::test]
async fn what_was_written_is_acked_with_auto_ack() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"autoAck": true, "maxInFlight": 1}))
        .await;
    publish_many(&mut client, "t", 5).await;
    let events = client.events(5).await;
    assert!(events.iter().all(|frame| frame["ctx"] == json!({"attempt": 1})));
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    client.publish("t", json!(6)).await;
    client.subscribe("t", "g", json!({})).await;
    assert_eq!(seq(&client.event().await), 6);
}

#[actix::test]
async fn a_long_backlog_is_drained_in_order_and_once() {
    let gateway = TestGateway::start(&[]);
    let mut publisher = gateway.connect().await;
    for batch in 0..30 {
        let events: Vec<Value> = (0..1_000).map(|n| json!({"payload": batch * 1_000 + n})).collect();
        publisher
            .ok(json!({"op": "PUBLISH_BATCH", "topic": "t", "events": events}))
            .await;
    }
    let mut consumer = gateway.connect().await;
    consumer
        .subscribe("t", "g", json!({"from": "earliest", "maxInFlight": 500}))
        .await;
    let mut expected = 1;
    while expected <= 30_000 {
        let events = consumer.events(500).await;
        let ids: Vec<&Value> = events.iter().map(|frame| &frame["event"]["id"]).collect();
        for frame in &events {
            assert_eq!(seq(frame), expected);
            expected += 1;
        }
        consumer
            .ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": ids}))
            .await;
    }
    assert!(consumer.events_so_far().await.is_empty());
}

#[actix::test]
async fn one_group_too_many_is_refused() {
    let gateway = TestGateway::start(&["gateway.max_groups_per_topic=1"]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    let answer = client
        .err(json!({"op": "SUBSCRIBE", "topic": "t", "group": "h"}), "bad_request")
        .await;
    assert!(
        answer["msg"].as_str().unwrap().contains("max_groups_per_topic"),
        "{answer}"
    );
    client.publish("t", json!(1)).await;
    client.event().await;
}

#[actix::test]
async fn figures_follow_a_group_that_does_not_move() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"maxInFlight": 2, "maxAttempts": 1}))
        .await;
    publish_many(&mut client, "t", 7).await;
    let events = client.events(2).await;
    let figures = crate::http::get(&gateway, "/metrics").await.1;
    for line in [
        r#"tidegate_group_lag_events{topic="t",group="g"} 7"#,
        r#"tidegate_events_inflight{topic="t",group="g"} 2"#,
        "tidegate_publish_latency_seconds_count 7",
    ] {
        assert!(figures.contains(line), "{line} in {figures}");
    }
    client
        .ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": events[0]["event"]["id"]}))
        .await;
    client.ack("t", "g", &events[1]["event"]["id"]).await;
    client.events(2).await;
    let figures = crate::http::get(&gateway, "/metrics").await.1;
    for line in [
        r#"tidegate_group_lag_events{topic="t",group="g"} 5"#,
        r#"tidegate_events_published_total{topic="dlq.t"} 1"#,
    ] {
        assert!(figures.contains(line), "{line} in {figures}");
    }
}
