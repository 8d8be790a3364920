//! Groups over HTTP: how they are, pause, resume, seek, delete.

use serde_json::{Value, json};

use crate::http::{becomes, expect, get};
use crate::support::{Client, TestGateway};

async fn seqs(client: &mut Client, count: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    for frame in client.events(count).await {
        seqs.push(frame["event"]["seq"].as_u64().unwrap());
    }
    seqs
}

async fn publish(client: &mut Client, count: usize) -> Vec<Value> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(client.publish("t", json!(n)).await["id"].clone());
    }
    ids
}

#[actix::test]
async fn a_group_is_seen_whether_somebody_is_connected_or_not() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxInFlight": 2})).await;
    publish(&mut client, 5).await;
    let held = client.events(2).await;
    let lag = get(gateway.address, "/lag?topic=t&group=g").await;
    assert_eq!(
        (
            &lag["lag"],
            &lag["inflight"],
            &lag["members"],
            &lag["floor"],
            &lag["tail"],
            &lag["paused"]
        ),
        (&json!(5), &json!(2), &json!(1), &json!(0), &json!(5), &json!(false))
    );
    client.ack("t", "g", &held[1]["event"]["id"]).await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    let lag = get(gateway.address, "/lag?topic=t&group=g").await;
    assert_eq!(
        (&lag["lag"], &lag["inflight"], &lag["members"], &lag["floor"]),
        (&json!(4), &json!(0), &json!(0), &json!(0))
    );
    let listed = get(gateway.address, "/groups").await;
    assert_eq!(listed["groups"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["groups"][0]["topic"], &listed["groups"][0]["lag"]),
        (&json!("t"), &json!(4))
    );
    assert_eq!(get(gateway.address, "/groups?topic=other").await, json!({"groups": []}));
    let cursors = get(gateway.address, "/cursors?topic=t").await;
    let cursor = &cursors["cursors"][0];
    assert_eq!((&cursor["group"], &cursor["floor"]), (&json!("g"), &json!(0)));
    assert_eq!(cursor["partitions"].as_array().unwrap().len(), 8);
    let unknown = expect(gateway.address, "GET /lag?topic=t&group=none", "", 404).await;
    assert_eq!(unknown["code"], "not_found");
}

#[actix::test]
async fn seek_goes_back_and_forth_with_the_members_that_are_connected() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let ids = publish(&mut client, 6).await;
    client.subscribe("t", "g", json!({"from": "earliest"})).await;
    for frame in client.events(4).await {
        client.ack("t", "g", &frame["event"]["id"]).await;
    }
    assert_eq!(seqs(&mut client, 2).await, [5, 6]);
    let seek = "POST /groups/t/g/seek";
    expect(gateway.address, seek, r#"{"from": "earliest"}"#, 200).await;
    assert_eq!(seqs(&mut client, 6).await, [1, 2, 3, 4, 5, 6]);
    let body = json!({"from": "afterId", "afterId": ids[3]}).to_string();
    expect(gateway.address, seek, &body, 200).await;
    let frames = client.events(2).await;
    assert_eq!(
        (&frames[0]["event"]["seq"], &frames[0]["ctx"]["attempt"]),
        (&json!(5), &json!(1))
    );
    expect(gateway.address, seek, r#"{"from": "latest"}"#, 200).await;
    assert_eq!(get(gateway.address, "/lag?topic=t&group=g").await["lag"], 0);
    publish(&mut client, 1).await;
    assert_eq!(seqs(&mut client, 1).await, [7]);
    expect(gateway.address, seek, r#"{"from": "ts", "ts": 0}"#, 200).await;
    assert_eq!(seqs(&mut client, 7).await, [1, 2, 3, 4, 5, 6, 7]);
    for (body, says) in [
        ("{}", "from: missing"),
        (r#"{"from": "yesterday"}"#, "from: expected one of"),
        (r#"{"from": "ts"}"#, "ts: missing"),
        (r#"{"from": "earliest", "tz": 1}"#, "tz: unknown"),
        ("[1]", "body: expected a JSON object"),
    ] {
        let refused = expect(gateway.address, seek, body, 400).await;
        assert!(refused["error"].as_str().unwrap().starts_with(says), "{refused}");
    }
    let unknown = expect(gateway.address, seek, r#"{"from": "afterId", "afterId": "none"}"#, 404).await;
    assert_eq!(unknown["code"], "unknown_id");
}

#[actix::test]
async fn after_a_seek_the_filter_holds_for_all() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    for key in ["a", "b", "a", "b"] {
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": {"key": key}}))
            .await;
    }
    assert_eq!(client.events(4).await.len(), 4);
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    // A new filter does not touch what the group had looked at ...
    client.subscribe("t", "g", json!({"filter": {"keys": ["b"]}})).await;
    assert_eq!(seqs(&mut client, 4).await, [1, 2, 3, 4]);
    // ... but what it looks at anew.
    expect(gateway.address, "POST /groups/t/g/seek", r#"{"from": "earliest"}"#, 200).await;
    assert_eq!(seqs(&mut client, 2).await, [2, 4]);
    assert!(client.events_so_far().await.is_empty());
}

#[actix::test]
async fn what_was_pushed_before_a_seek_acks_nothing_after_it() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    publish(&mut client, 50).await;
    client
        .subscribe("t", "g", json!({"from": "earliest", "autoAck": true}))
        .await;
    for _ in 0..20 {
        expect(gateway.address, "POST /groups/t/g/seek", r#"{"from": "earliest"}"#, 200).await;
        // Whatever was on its way before: after it, all of them come.
        let mut wanted = 1;
        while wanted <= 50 {
            let seq = client.event().await["event"]["seq"].as_u64().unwrap();
            wanted = match seq {
                1 => 2,
                seq if seq == wanted => wanted + 1,
                _ => wanted,
            };
        }
    }
}

#[actix::test]
async fn pause_holds_whoever_comes() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    expect(gateway.address, "POST /groups/t/g/pause", "", 200).await;
    expect(gateway.address, "POST /groups/t/g/pause", "", 200).await;
    publish(&mut client, 2).await;
    client.subscribe("t", "g", json!({})).await;
    let lag = get(gateway.address, "/lag?topic=t&group=g").await;
    assert_eq!((&lag["paused"], &lag["lag"]), (&json!(true), &json!(2)));
    assert!(client.events_so_far().await.is_empty());
    expect(gateway.address, "POST /groups/t/g/resume", "", 200).await;
    assert_eq!(seqs(&mut client, 2).await, [1, 2]);
    expect(gateway.address, "POST /groups/t/none/pause", "", 404).await;
}

#[actix::test]
async fn delete_needs_that_nobody_is_connected_and_forgets_all() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({"maxAttempts": 7})).await;
    publish(&mut client, 3).await;
    let held = client.events(3).await;
    client.ack("t", "g", &held[0]["event"]["id"]).await;
    let refused = expect(gateway.address, "DELETE /groups/t/g", "", 409).await;
    assert_eq!(refused["code"], "conflict");
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    expect(gateway.address, "DELETE /groups/t/g", "", 200).await;
    expect(gateway.address, "DELETE /groups/t/g", "", 404).await;
    expect(gateway.address, "GET /lag?topic=t&group=g", "", 404).await;
    let (_, figures) = crate::http::call(gateway.address, "GET /metrics", "").await;
    assert!(!figures.contains("group=\"g\""), "nothing is told of it any more");
    client.subscribe("t", "g", json!({"from": "earliest"})).await;
    let frame = client.event().await;
    assert_eq!(
        (&frame["event"]["seq"], &frame["ctx"]["max_attempts"]),
        (&json!(1), &json!(5))
    );
}

#[actix::test]
async fn the_newest_event_of_a_key() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for payload in [json!(1), json!({"_deleted": true})] {
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": payload, "opts": {"key": "k"}}))
            .await;
    }
    let found = get(gateway.address, "/latest-by-key?topic=t&key=k").await;
    assert_eq!(
        (&found["seq"], &found["payload"]),
        (&json!(2), &json!({"_deleted": true}))
    );
    let unknown = expect(gateway.address, "GET /latest-by-key?topic=t&key=none", "", 404).await;
    assert_eq!(unknown["code"], "not_found");
    let refused = expect(gateway.address, "GET /latest-by-key?topic=t", "", 400).await;
    assert_eq!(refused["error"], "key: missing");
}

#[actix::test]
async fn a_member_that_went_without_a_word_does_not_keep_its_group() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    client.subscribe("t", "g", json!({})).await;
    drop(client);
    becomes(gateway.address, "/lag?topic=t&group=g", |lag| lag["members"] == 0).await;
    expect(gateway.address, "DELETE /groups/t/g", "", 200).await;
}
