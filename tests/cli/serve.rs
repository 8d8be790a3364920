//! `serve`: what is kept over its end, and what it refuses.

use serde_json::Value;
use tempfile::tempdir;

use crate::running::{Running, stderr, stdout, tidegate};

#[test]
fn what_was_published_is_there_after_every_kind_of_end() {
    let folder = tempdir().unwrap();
    for (round, signal) in ["-TERM", "-INT", "-KILL"].iter().enumerate() {
        let gateway = Running::start(folder.path(), &[]);
        stdout(&gateway.client(
            folder.path(),
            &["publish", "orders", &format!(r#"{{"round":{round}}}"#)],
        ));
        let events = stdout(&gateway.client(
            folder.path(),
            &[
                "subscribe",
                "orders",
                "--from",
                "earliest",
                "--count",
                &(round + 1).to_string(),
            ],
        ));
        let rounds: Vec<u64> = events
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["payload"]["round"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(rounds, (0..=round as u64).collect::<Vec<_>>());
        let status = gateway.end(signal);
        assert_eq!(status.code(), if *signal == "-KILL" { None } else { Some(0) });
    }
}

#[test]
fn a_group_goes_on_after_a_restart_and_a_shutdown_is_no_attempt() {
    let folder = tempdir().unwrap();
    let subscribe = [
        "subscribe",
        "orders",
        "--group",
        "billing",
        "--from",
        "earliest",
        "--count",
        "1",
    ];
    let gateway = Running::start(folder.path(), &[]);
    for n in 0..3 {
        stdout(&gateway.client(folder.path(), &["publish", "orders", &n.to_string()]));
    }
    let first = stdout(&gateway.client(folder.path(), &subscribe));
    assert!(first.contains(r#""seq":1"#), "{first}");
    assert_eq!(gateway.end("-TERM").code(), Some(0));
    let gateway = Running::start(folder.path(), &[]);
    let second = stdout(&gateway.client(folder.path(), &subscribe));
    assert!(second.contains(r#""seq":2"#), "{second}");
}

#[test]
fn two_processes_never_open_one_folder() {
    let folder = tempdir().unwrap();
    let _gateway = Running::start(folder.path(), &[]);
    let second = tidegate(folder.path())
        .args([
            "serve",
            "--set",
            "gateway.listen=127.0.0.1:0",
            "--set",
            "replay.listen=off",
        ])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1), "{}", stderr(&second));
    assert!(stderr(&second).contains("tidegate-data"), "{}", stderr(&second));
}

#[test]
fn it_does_not_leave_loopback_without_authentication() {
    let folder = tempdir().unwrap();
    let refused = tidegate(folder.path())
        .args(["serve", "--set", "gateway.listen=0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--insecure"), "{}", stderr(&refused));
}

#[test]
fn a_wrong_configuration_is_told_and_ends_with_2() {
    let folder = tempdir().unwrap();
    for (set, mentions) in [
        ("store.knd=memory", "store.kind"),
        ("store.kind=paper", "store.kind"),
        ("gateway.listen=x", "gateway.listen"),
    ] {
        let output = tidegate(folder.path()).args(["serve", "--set", set]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{set}");
        assert!(stderr(&output).contains(mentions), "{set}: {}", stderr(&output));
    }
}

#[test]
fn a_number_of_partitions_that_changed_is_refused() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &[]);
    stdout(&gateway.client(folder.path(), &["publish", "orders", "1"]));
    assert_eq!(gateway.end("-TERM").code(), Some(0));
    std::fs::write(
        folder.path().join("tidegate.toml"),
        "[[topic]]\nname = \"orders\"\npartitions = 4\n",
    )
    .unwrap();
    let output = tidegate(folder.path())
        .args([
            "serve",
            "--set",
            "gateway.listen=127.0.0.1:0",
            "--set",
            "replay.listen=off",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("orders") && stderr(&output).contains("partitions"),
        "{}",
        stderr(&output)
    );
}
