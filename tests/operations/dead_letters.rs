//! Dead letters that are published again: each once, however often it is asked for.

use serde_json::{Value, json};

use crate::http::{expect, get};
use crate::running::{Running, stderr, stdout};
use crate::support::{Client, TestGateway};

/// Lets `count` events die in a group.
async fn let_die(client: &mut Client, count: usize) {
    client.subscribe("t", "g", json!({"maxAttempts": 1})).await;
    for n in 0..count {
        let opts = json!({"key": format!("k{n}"), "headers": {"trace": "x"}, "tags": ["new"], "ts": 1_000 + n});
        client
            .ok(json!({"op": "PUBLISH", "topic": "t", "payload": {"n": 1.50}, "opts": opts}))
            .await;
        let event = client.event().await;
        let nack = json!({"op": "NACK", "topic": "t", "group": "g", "id": event["event"]["id"], "reason": "no"});
        client.ok(nack).await;
    }
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
}

#[actix::test]
async fn each_original_once_however_often_it_is_asked_for() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    let replay = "POST /dlq/t/replay";
    let none = json!({"replayed": 0, "skipped": 0, "left": 0});
    assert_eq!(expect(gateway.address, replay, "", 200).await, none);
    let_die(&mut client, 5).await;
    let some = expect(gateway.address, "POST /dlq/t/replay?limit=2", "", 200).await;
    assert_eq!(some, json!({"replayed": 2, "skipped": 0, "left": 3}));
    let rest = expect(gateway.address, replay, "", 200).await;
    assert_eq!(rest, json!({"replayed": 3, "skipped": 0, "left": 0}));
    for _ in 0..3 {
        assert_eq!(expect(gateway.address, replay, "", 200).await, none);
    }
    let events = get(gateway.address, "/replay?topic=t").await;
    let letters = get(gateway.address, "/replay?topic=dlq.t").await;
    let events = events["events"].as_array().unwrap();
    assert_eq!(events.len(), 10);
    for (n, letter) in letters["events"].as_array().unwrap().iter().enumerate() {
        let (first, again) = (&events[n], &events[n + 5]);
        assert_eq!(again["caused_by"], json!([letter["id"]]));
        for same in ["key", "headers", "tags", "ts", "payload"] {
            assert_eq!(first[same], again[same], "{same}");
        }
        assert_ne!(first["id"], again["id"]);
    }
    // Where what is remembered is lost, the ids still say which were published.
    expect(gateway.address, "DELETE /groups/dlq.t/tidegate:dlq-replay", "", 200).await;
    assert_eq!(expect(gateway.address, replay, "", 200).await["replayed"], 5);
    assert_eq!(
        get(gateway.address, "/replay?topic=t").await["count"],
        10,
        "none is doubled"
    );
    let_die(&mut client, 1).await;
    assert_eq!(expect(gateway.address, replay, "", 200).await["replayed"], 1);
    expect(gateway.address, "POST /dlq/dlq.t/replay", "", 400).await;
}

#[actix::test]
async fn a_limit_slows_a_replay_and_does_not_break_it() {
    let gateway = TestGateway::start(&["topic=[{name=\"t\",limit={capacity=8,refill_per_sec=40}}]"]);
    let mut client = gateway.connect().await;
    let_die(&mut client, 8).await;
    let done = expect(gateway.address, "POST /dlq/t/replay", "", 200).await;
    assert_eq!(done, json!({"replayed": 8, "skipped": 0, "left": 0}));
    assert_eq!(get(gateway.address, "/replay?topic=t").await["count"], 16);
}

#[actix::test]
async fn from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Running::start(folder.path(), &[]);
    let cli = |args: &[&str]| gateway.client(folder.path(), args);
    let (socket, _) = tokio_tungstenite::connect_async(gateway.url.as_str()).await.unwrap();
    let mut client = Client::over(socket);
    let_die(&mut client, 2).await;
    let listed = stdout(&cli(&["dlq", "list", "t"]));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(
        lines[0].starts_with("SEQ") && lines[1].contains(" g ") && lines[1].contains(" no "),
        "{listed}"
    );
    let as_json = stdout(&cli(&["dlq", "list", "t", "--json"]));
    let letter: Value = serde_json::from_str(as_json.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&letter["topic"], &letter["payload"]["attempts"]),
        (&json!("dlq.t"), &json!(1))
    );
    assert_eq!(
        stdout(&cli(&["dlq", "replay", "t", "--limit", "1"])),
        "1 published again to t, 1 left\n"
    );
    assert_eq!(
        stdout(&cli(&["dlq", "replay", "t"])),
        "1 published again to t, 0 left\n"
    );
    assert_eq!(
        stdout(&cli(&["dlq", "replay", "t"])),
        "0 published again to t, 0 left\n"
    );
    let unknown = cli(&["dlq", "list", "tt"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(stderr(&unknown), "error: there is no topic tt: did you mean t?\n");
}
