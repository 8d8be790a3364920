//! Frames that are wrong, and who may send any.

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::http::get;
use crate::support::TestGateway;

#[actix::test]
async fn every_wrong_frame_is_answered_and_the_connection_lives() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let deep = format!(
        r#"{{"op":"PUBLISH","topic":"t","payload":{}1{}}}"#,
        "[".repeat(80),
        "]".repeat(80)
    );
    let cases = [
        ("{", "bad_json", ""),
        (r#"{"op":"PUBLISH","topic":"t","payload":"\ud800"}"#, "bad_json", ""),
        ("[]", "bad_request", "op"),
        (r#"{"topic":"t"}"#, "bad_request", "op"),
        (r#"{"op":"FLY"}"#, "bad_request", "FLY"),
        (r#"{"op":"PUBLISH","topic":"t"}"#, "bad_request", "payload"),
        (r#"{"op":"PUBLISH","topic":"T","payload":1}"#, "bad_topic", ""),
        (r#"{"op":"PUBLISH","topic":5,"payload":1}"#, "bad_request", "topic"),
        (
            r#"{"op":"PUBLISH","topic":"t","payload":1,"opts":{"color":1}}"#,
            "bad_request",
            "color",
        ),
        (
            r#"{"op":"PUBLISH","topic":"t","topic":"t","payload":1}"#,
            "bad_request",
            "topic",
        ),
        (
            r#"{"op":"SUBSCRIBE","topic":"t","opts":{"from":"snapshot"}}"#,
            "bad_request",
            "snapshot",
        ),
        (
            r#"{"op":"SUBSCRIBE","topic":"t","group":"g","opts":{"assignment":"partitioned"}}"#,
            "bad_request",
            "assignment",
        ),
        (r#"{"op":"ACK","topic":"t","group":"g"}"#, "bad_request", "id"),
        (
            r#"{"op":"ACK","topic":"t","group":"g","id":"x"}"#,
            "not_subscribed",
            "group",
        ),
        (r#"{"op":"UNSUBSCRIBE","topic":"t"}"#, "not_subscribed", "topic"),
        (&deep, "bad_request", "64"),
    ];
    for (frame, code, mentions) in cases {
        client.send_text(frame).await;
        let answer = client.answer().await;
        assert_eq!(
            (&answer["op"], &answer["code"]),
            (&json!("ERR"), &json!(code)),
            "{frame}: {answer}"
        );
        assert!(answer["msg"].as_str().unwrap().contains(mentions), "{frame}: {answer}");
    }
    client.socket.send(Message::binary(vec![1, 2])).await.unwrap();
    assert_eq!(client.answer().await["code"], "bad_frame");
    client.publish("t", json!(1)).await;
}

#[actix::test]
async fn corr_is_repeated_as_it_was_written() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    for corr in ["1", "\"a b\"", "1.50", "\"\\u00e9\""] {
        client.send_text(format!(r#"{{"op":"AUTH","corr":{corr}}}"#)).await;
        let frame = client.next_frame().await.unwrap().into_text().unwrap();
        assert!(frame.contains(&format!(r#""corr":{corr}"#)), "{frame}");
    }
}

#[actix::test]
async fn with_a_token_nothing_works_before_auth() {
    let gateway = TestGateway::start(&["auth.mode=token", "auth.token=open-sesame"]);
    let mut client = gateway.connect().await;
    let publish = json!({"op": "PUBLISH", "topic": "t", "payload": 1});
    let refused = client.err(publish.clone(), "unauthorized").await;
    assert_eq!(refused["msg"], "Call AUTH first.");
    client.err(json!({"op": "AUTH"}), "bad_token").await;
    client
        .err(json!({"op": "AUTH", "token": "open-sesam"}), "bad_token")
        .await;
    let answer = client.ok(json!({"op": "AUTH", "token": "open-sesame"})).await;
    assert_eq!(answer.get("expires_ms"), None, "{answer}");
    client.ok(publish.clone()).await;
    client.err(json!({"op": "AUTH", "token": "wrong"}), "bad_token").await;
    client.ok(publish).await;
}

#[actix::test]
async fn who_does_not_authenticate_in_time_is_sent_away() {
    let gateway = TestGateway::start(&["auth.mode=token", "auth.token=x", "gateway.auth_timeout=1s"]);
    let mut client = gateway.connect().await;
    assert_eq!(client.closed().await, 4401);
}

#[actix::test]
async fn a_frame_over_the_limit_closes_the_connection() {
    let gateway = TestGateway::start(&["limits.frame_bytes=2048"]);
    let mut client = gateway.connect().await;
    client.publish("t", json!("x".repeat(1_900))).await;
    client
        .send_text(json!({"op": "PUBLISH", "topic": "t", "payload": "x".repeat(2_100)}).to_string())
        .await;
    assert_eq!(client.closed().await, 1009);
}

#[actix::test]
async fn one_connection_too_many_is_told_to_come_later() {
    let gateway = TestGateway::start(&["gateway.max_connections=1"]);
    let mut first = gateway.connect().await;
    first.publish("t", json!(1)).await;
    let mut second = gateway.connect().await;
    assert_eq!(second.closed().await, 1013);
    first.publish("t", json!(1)).await;
}

#[actix::test]
async fn a_plain_request_learns_that_this_is_a_websocket() {
    let gateway = TestGateway::start(&[]);
    let (status, body) = get(&gateway, "/ws").await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, body["code"].as_str()), (426, Some("upgrade_required")));
    assert_eq!(get(&gateway, "/healthz").await.0, 200);
    assert_eq!(get(&gateway, "/readyz").await.0, 200);
    assert_eq!(get(&gateway, "/nowhere").await.0, 404);
}

#[actix::test]
async fn the_root_is_a_websocket_too() {
    let gateway = TestGateway::start(&[]);
    let url = format!("ws://{}/", gateway.address);
    assert!(tokio_tungstenite::connect_async(url).await.is_ok());
}
