//! `tidegate topics` and `tidegate groups`: what people and programs get, and what they are told when something is wrong.

use serde_json::{Value, json};

use crate::running::{Running, stderr, stdout, tidegate};

/// The cells of a table, by its titles.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines();
    let titles = lines.next().unwrap();
    let starts: Vec<usize> = titles
        .split_whitespace()
        .map(|title| titles.find(title).unwrap())
        .collect();
    assert!(starts.len() > 5, "no titles: {text}");
    lines
        .map(|line| {
            line.split("  ")
                .filter(|cell| !cell.is_empty())
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn tables_for_people_and_json_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Running::start(folder.path(), &[]);
    let cli = |args: &[&str]| gateway.client(folder.path(), args);
    assert_eq!(
        stdout(&cli(&["topics"])),
        "no topics yet: the first publish makes one\n"
    );
    assert_eq!(
        stdout(&cli(&["groups", "list"])),
        "no groups yet: the first subscription with a group makes one\n"
    );
    for n in ["1", "2", "3"] {
        stdout(&cli(&["publish", "orders", n]));
    }
    stdout(&cli(&[
        "subscribe",
        "orders",
        "--group",
        "billing",
        "--from",
        "earliest",
        "--count",
        "1",
    ]));
    let topics = stdout(&cli(&["topics"]));
    let row = &rows(&topics)[0];
    assert_eq!(row[..4], ["orders", "3", "1", "3"], "{topics}");
    assert_eq!(row[6..], ["1000/s, bursts of 1000", "all"], "{topics}");
    let as_json: Value = serde_json::from_str(&stdout(&cli(&["topics", "--json"]))).unwrap();
    assert_eq!(as_json["topics"][0]["tail"], 3);
    for list in [&["groups", "list"][..], &["groups", "list", "orders"]] {
        let listed = stdout(&cli(list));
        let row = &rows(&listed)[0];
        assert_eq!(row[..3], ["orders", "billing", "2"], "{listed}");
        assert_eq!(row[4..], ["0", "0", "no"], "{listed}");
    }
    let lag: Value = serde_json::from_str(&stdout(&cli(&["groups", "lag", "orders", "billing", "--json"]))).unwrap();
    assert_eq!(
        (&lag["lag"], &lag["floor"], &lag["tail"]),
        (&json!(2), &json!(1), &json!(3))
    );
    let lag = stdout(&cli(&["groups", "lag", "orders", "billing"]));
    assert_eq!(rows(&lag)[0][7..], ["1", "3"], "{lag}");
    let explained = stdout(&cli(&["groups", "explain", "orders", "billing"]));
    assert!(
        explained.starts_with("No members are connected: 2 events wait, the oldest is event 2"),
        "{explained}"
    );
    assert_eq!(
        stdout(&cli(&["groups", "pause", "orders", "billing"])),
        "billing of orders is paused\n"
    );
    assert_eq!(
        stdout(&cli(&[
            "groups", "seek", "orders", "billing", "--from", "latest", "--json"
        ])),
        "{\"group\":\"billing\",\"ok\":true,\"topic\":\"orders\"}\n"
    );
    assert_eq!(
        stdout(&cli(&["groups", "resume", "orders", "billing"])),
        "billing of orders goes on\n"
    );
    assert_eq!(
        stdout(&cli(&["groups", "delete", "orders", "billing"])),
        "billing of orders is deleted\n"
    );
}

#[test]
fn errors_help() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["auth.mode=token", "auth.token=right"]);
    let cli = |args: &[&str]| gateway.client(folder.path(), args);
    let right = |args: &[&str]| gateway.client(folder.path(), &[args, &["--token", "right"]].concat());
    let failed = |output: std::process::Output, says: &[&str]| {
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(says.iter().all(|words| said.contains(words)), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    failed(cli(&["topics"]), &["--token", "TIDEGATE_TOKEN"]);
    failed(cli(&["topics", "--token", "wrong"]), &["bad_token", "see --token"]);
    stdout(&right(&["publish", "orders", "1"]));
    stdout(&right(&[
        "subscribe",
        "orders",
        "--group",
        "billing",
        "--from",
        "earliest",
        "--count",
        "1",
    ]));
    failed(
        right(&["groups", "lag", "ordres", "billing"]),
        &["no topic ordres", "did you mean orders?"],
    );
    failed(
        right(&["groups", "list", "ordres"]),
        &["no topic ordres", "did you mean orders?"],
    );
    failed(
        right(&["groups", "pause", "orders", "biling"]),
        &["no group biling", "did you mean billing?"],
    );
    failed(
        right(&["groups", "seek", "orders", "billing", "--from", "after:none"]),
        &["afterId", "none"],
    );
    drop(gateway);
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = tidegate(folder.path())
        .args(["topics", "--url", &format!("ws://{free}/ws")])
        .output()
        .unwrap();
    failed(nobody, &["no gateway at", "tidegate serve", "--url"]);
}
