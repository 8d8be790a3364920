//! `POST /publish/{topic}`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{get, post, request};
use crate::stores::{Kind, on_every_store};
use crate::support::TestGateway;

on_every_store!(
    an_event_has_what_the_request_gave,
    a_publish_can_be_sent_again_with_its_id,
    every_wrong_request_is_named,
    the_rate_is_limited_and_retry_after_is_enough,
    subscribers_get_it_and_the_topic_has_a_limit_too,
);

async fn an_event_has_what_the_request_gave(kind: Kind) {
    let world = kind.start(&[]);
    let headers = [("X-Event-Trace", "abc"), ("x-event-b.c", "é ü"), ("X-Other", "no")];
    let line = "POST /publish/orders.eu?key=k%20%26&id=my/id&ts=5&tag=a&tag=b%2Bc";
    let answer = request(world.gateway.address, line, &headers, br#"{"total": 1.0}"#).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"id": "my/id", "seq": 1})));
    let event = get(&world.gateway, "/replay?topic=orders.eu").await.events().remove(0);
    let expected = json!({
        "id": "my/id", "seq": 1, "ts": 5, "topic": "orders.eu", "key": "k &", "partition": event["partition"],
        "headers": {"trace": "abc", "b.c": "é ü"}, "payload": {"total": 1.0}, "tags": ["a", "b+c"],
    });
    assert_eq!(event, expected);
    let bare = post(&world.gateway, "/publish/orders.eu", "null").await;
    assert_eq!(bare.json()["seq"], 2);
    let event = get(&world.gateway, "/replay?topic=orders.eu&from=afterSeq&afterSeq=1")
        .await
        .events()
        .remove(0);
    assert_eq!(
        (&event["payload"], event.get("headers"), event.get("tags")),
        (&Value::Null, None, None)
    );
    assert_eq!(event["id"], bare.json()["id"]);
}

async fn a_publish_can_be_sent_again_with_its_id(kind: Kind) {
    let world = kind.start(&[]);
    let first = post(&world.gateway, "/publish/t?id=a", r#"{"n": 1}"#).await;
    let again = post(&world.gateway, "/publish/t?id=a", r#"{ "n":1 }"#).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = post(&world.gateway, "/publish/t?id=a", r#"{"n": 2}"#).await;
    assert_eq!((other.status, other.json()["code"].as_str()), (409, Some("conflict")));
    assert_eq!(get(&world.gateway, "/replay?topic=t").await.seqs(), [1]);
}

async fn every_wrong_request_is_named(kind: Kind) {
    let world = kind.start(&["limits.frame_bytes=10000"]);
    let (long, large) = ("x".repeat(129), format!("\"{}\"", "x".repeat(10_000)));
    let (deep, deep_enough) = ("[".repeat(64) + &"]".repeat(64), "[".repeat(63) + &"]".repeat(63));
    let many_tags = (0..17).map(|n| format!("tag={n}")).collect::<Vec<_>>().join("&");
    let cases: [(String, &str, u16, &str, &str); 19] = [
        ("T".into(), "1", 400, "bad_topic", "topic: "),
        ("a%20b".into(), "1", 400, "bad_topic", "topic: "),
        ("a%ffb".into(), "1", 400, "bad_topic", "topic: "),
        ("dlq.t".into(), "1", 403, "forbidden", "topic: only the gateway"),
        ("t.snapshot".into(), "1", 403, "forbidden", "topic: only the gateway"),
        (
            "t?key=".into(),
            "1",
            400,
            "bad_request",
            "key: expected a string of 1 to 512 bytes",
        ),
        (
            format!("t?id={long}"),
            "1",
            400,
            "bad_request",
            "id: expected a string of 1 to 128 bytes",
        ),
        ("t?id=a&id=b".into(), "1", 400, "bad_request", "id: given twice"),
        (
            "t?ts=yesterday".into(),
            "1",
            400,
            "bad_request",
            "ts: expected an integer",
        ),
        (
            format!("t?tag={long}"),
            "1",
            400,
            "bad_request",
            "tag: expected a string of at most 128 bytes",
        ),
        (
            format!("t?{many_tags}"),
            "1",
            400,
            "bad_request",
            "tag: expected it at most 16 times",
        ),
        (
            "t?tags=a".into(),
            "1",
            400,
            "bad_request",
            "tags: unknown; did you mean `tag`?",
        ),
        ("t".into(), "", 400, "bad_json", "not JSON: "),
        ("t".into(), "{oops}", 400, "bad_json", "not JSON: "),
        ("t".into(), "1 2", 400, "bad_json", "not JSON: "),
        ("t".into(), r#""\ud800""#, 400, "bad_json", "not JSON: "),
        ("t".into(), &deep, 400, "bad_request", "nesting: "),
        (
            "t".into(),
            &large,
            413,
            "too_large",
            "the body has more than 10000 bytes",
        ),
        ("t".into(), "\u{feff}1", 400, "bad_json", "not JSON: "),
    ];
    for (path, body, status, code, message) in cases {
        let answer = post(&world.gateway, &format!("/publish/{path}"), body).await;
        let json = answer.json();
        assert_eq!(
            (answer.status, json["code"].as_str()),
            (status, Some(code)),
            "{path}: {json}"
        );
        let error = json["error"].as_str().unwrap();
        assert!(error.starts_with(message), "{path}: {error}");
    }
    let address = world.gateway.address;
    let long_name = format!("x-event-{}", "n".repeat(129));
    let long_value = "v".repeat(4_097);
    for (headers, message) in [
        (vec![("x-event-a", "1"), ("X-Event-A", "2")], "x-event-a: given twice"),
        (vec![("x-event-", "1")], "x-event-: expected a string of 1 to 128 bytes"),
        (vec![(long_name.as_str(), "1")], "x-event-nnn"),
        (
            vec![("x-event-a", long_value.as_str())],
            "x-event-a: expected a string of at most 4,096 bytes",
        ),
    ] {
        let answer = request(address, "POST /publish/t", &headers, b"1").await;
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(answer.status == 400 && error.starts_with(message), "{error}");
    }
    let not_text = request(address, "POST /publish/t", &[], b"\"\xff\"").await;
    assert_eq!(
        (not_text.status, not_text.json()["code"].as_str()),
        (400, Some("bad_json"))
    );
    assert_eq!(
        get(&world.gateway, "/replay?topic=t").await.seqs(),
        [0; 0],
        "nothing of all that was published"
    );
    assert_eq!(post(&world.gateway, "/publish/t", &deep_enough).await.status, 200);
}

async fn the_rate_is_limited_and_retry_after_is_enough(kind: Kind) {
    let world = kind.start(&["limits.connection={capacity=3,refill_per_sec=1}"]);
    let mut refused = 0;
    for n in 0..6 {
        let answer = post(&world.gateway, "/publish/t", &n.to_string()).await;
        if answer.status == 200 {
            continue;
        }
        refused += 1;
        let json = answer.json();
        assert_eq!(
            (answer.status, json["code"].as_str()),
            (429, Some("rate_limited")),
            "{json}"
        );
        assert_eq!(json["error"], "conn publish rate exceeded");
        let (ms, seconds) = (json["retry_after_ms"].as_u64().unwrap(), answer.header("retry-after"));
        assert_eq!(seconds, Some(ms.div_ceil(1_000).to_string().as_str()));
        assert!((1..=1_000).contains(&ms), "{ms}");
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let again = post(&world.gateway, "/publish/t", &n.to_string()).await;
        assert_eq!(again.status, 200, "waiting that long is enough: {again:?}");
    }
    assert!(refused >= 1, "no publish was refused");
    assert_eq!(get(&world.gateway, "/replay?topic=t").await.seqs(), [1, 2, 3, 4, 5, 6]);
}

async fn subscribers_get_it_and_the_topic_has_a_limit_too(kind: Kind) {
    let world = kind.start(&["limits.topic={capacity=1,refill_per_sec=0.001}"]);
    let mut follower = world.gateway.connect().await;
    follower.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    assert_eq!(post(&world.gateway, "/publish/t", "7").await.status, 200);
    assert_eq!(follower.event().await["event"]["payload"], 7);
    let refused = post(&world.gateway, "/publish/t", "8").await;
    assert_eq!(
        (refused.status, &refused.json()["error"]),
        (429, &json!("topic publish rate exceeded"))
    );
    assert_eq!(post(&world.gateway, "/publish/other", "8").await.status, 200);
}

/// Chunks instead of a length, a body that never comes, one that breaks off: nobody else notices.
#[tokio::test]
async fn bodies_that_come_in_chunks_are_taken() {
    let gateway = TestGateway::start(&[]);
    let headers = [("Transfer-Encoding", "chunked")];
    let mut reading = crate::client::Reading::begin(gateway.address, "POST /publish/t", &headers, b"").await;
    use tokio::io::AsyncWriteExt;
    for piece in ["2\r\n[1\r\n", "3\r\n,2]\r\n", "0\r\n\r\n"] {
        reading.socket.write_all(piece.as_bytes()).await.unwrap();
    }
    let answer = reading.end().await;
    assert_eq!((answer.status, answer.json()["seq"].as_u64()), (200, Some(1)));
    let broken = crate::client::Reading::begin(gateway.address, "POST /publish/t", &headers, b"").await;
    drop(broken);
    assert_eq!(post(&gateway, "/publish/t", "2").await.json()["seq"], 2);
}
