//! `publish` and `subscribe` as a person or a script uses them.

use serde_json::Value;
use tempfile::tempdir;

use crate::running::{Running, stderr, stdout, tidegate};

#[test]
fn lines_from_standard_input_are_published_in_their_order() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["store.kind=memory"]);
    let input: String = (0..450).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let published = stdout(&gateway.client_with_input(folder.path(), &["publish", "t", "--json"], &input));
    let seqs: Vec<u64> = published
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=450).collect::<Vec<_>>());
    let events = stdout(&gateway.client(
        folder.path(),
        &["subscribe", "t", "--from", "earliest", "--count", "450"],
    ));
    for (at, line) in events.lines().enumerate() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["payload"]["n"], at);
    }
}

#[test]
fn a_bad_line_is_named_and_what_was_before_it_is_published() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["store.kind=memory"]);
    let output = gateway.client_with_input(folder.path(), &["publish", "t"], "1\n2\n{oops\n4\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 3"), "{}", stderr(&output));
    let events = stdout(&gateway.client(folder.path(), &["subscribe", "t", "--from", "earliest", "--count", "2"]));
    assert_eq!(events.lines().count(), 2);
}

#[test]
fn an_event_has_what_the_command_line_gave() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["store.kind=memory"]);
    let publish = [
        "publish", "t", "{}", "--key", "k", "--id", "i", "--header", "h=v=w", "--tag", "a", "--tag", "b",
    ];
    stdout(&gateway.client(folder.path(), &publish));
    let line = stdout(&gateway.client(folder.path(), &["subscribe", "t", "--from", "earliest", "--count", "1"]));
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((event["id"].as_str(), event["key"].as_str()), (Some("i"), Some("k")));
    assert_eq!(event["headers"]["h"], "v=w");
    assert_eq!(event["tags"], serde_json::json!(["a", "b"]));
}

#[test]
fn printed_events_are_acked_unless_told_otherwise() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["store.kind=memory"]);
    let subscribe = |extra: &[&str]| {
        let args = [
            &["subscribe", "t", "--group", "g", "--from", "earliest", "--count", "1"],
            extra,
        ]
        .concat();
        let line = stdout(&gateway.client(folder.path(), &args));
        serde_json::from_str::<Value>(&line).unwrap()["seq"].as_u64().unwrap()
    };
    stdout(&gateway.client_with_input(folder.path(), &["publish", "t"], "1\n2\n"));
    assert_eq!(subscribe(&["--no-ack"]), 1);
    assert_eq!(subscribe(&[]), 1);
    assert_eq!(subscribe(&[]), 2);
}

#[test]
fn errors_say_what_to_do() {
    let folder = tempdir().unwrap();
    let nobody = tidegate(folder.path())
        .args(["publish", "t", "1", "--url", "ws://127.0.0.1:1/ws"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("tidegate serve"), "{}", stderr(&nobody));
    let gateway = Running::start(
        folder.path(),
        &["store.kind=memory", "auth.mode=token", "auth.token=right"],
    );
    let wrong = gateway.client(folder.path(), &["publish", "t", "1", "--token", "wrong"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        stderr(&wrong).contains("bad_token") && !stderr(&wrong).contains("wrong"),
        "{}",
        stderr(&wrong)
    );
    stdout(&gateway.client(folder.path(), &["publish", "t", "1", "--token", "right"]));
    let bad = gateway.client(folder.path(), &["publish", "No Topic", "1", "--token", "right"]);
    assert_ne!(bad.status.code(), Some(0));
    assert!(stderr(&bad).contains("topic"), "{}", stderr(&bad));
}

#[test]
fn a_rate_limited_publisher_waits_and_loses_nothing() {
    let folder = tempdir().unwrap();
    let limit = "limits.connection={capacity=20,refill_per_sec=100}";
    let gateway = Running::start(folder.path(), &["store.kind=memory", limit, "limits.push=off"]);
    let input: String = (0..60).map(|n| format!("{n}\n")).collect();
    let published = stdout(&gateway.client_with_input(folder.path(), &["publish", "t"], &input));
    assert_eq!(published.lines().count(), 60);
    let events = stdout(&gateway.client(
        folder.path(),
        &["subscribe", "t", "--from", "earliest", "--count", "60"],
    ));
    assert_eq!(events.lines().count(), 60);
}
