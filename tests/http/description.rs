//! `/openapi.json`, and that the gateway is what it says.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::client::{get, publish_many};
use crate::support::TestGateway;

#[tokio::test]
async fn all_paths_are_described() {
    let gateway = TestGateway::start(&[]);
    let answer = get(&gateway, "/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let description = answer.json();
    assert_eq!(description["openapi"], "3.1.0");
    for (path, method) in [
        ("/publish/{topic}", "post"),
        ("/events/{topic}", "get"),
        ("/replay", "get"),
        ("/export", "get"),
        ("/ws", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/openapi.json", "get"),
    ] {
        assert!(description["paths"][path][method].is_object(), "{method} {path}");
    }
}

/// A program of other people reads the description, makes requests of it, right and wrong ones, and holds every answer
/// against it: no 5xx, no status, type or shape that is not described, no door that opens without a token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/schemathesis/bin/schemathesis");
    assert!(
        program.exists(),
        "{} is missing: tests/run installs it, or: python3 -m venv target/schemathesis && \
         target/schemathesis/bin/pip install 'schemathesis>=4,<5'",
        program.display()
    );
    let gateway = TestGateway::start(&["auth.mode=token", "auth.token=secret"]);
    let mut client = gateway.connect().await;
    client.ok(json!({"op": "AUTH", "token": "secret"})).await;
    publish_many(&mut client, "orders", (0..50).map(|n| json!({"payload": n}))).await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .arg("run")
        .arg(format!("http://{}/openapi.json", gateway.address))
        .args(["--header", "Authorization: Bearer secret"])
        .args(["--checks", "all"])
        // What is right by itself may be wrong together (`from=ts` without `ts`): no description can say that.
        .args(["--exclude-checks", "positive_data_acceptance"])
        // A stream of events does not end.
        .args(["--exclude-path", "/events/{topic}"])
        .args([
            "--max-examples",
            "100",
            "--seed",
            "7",
            "--request-timeout",
            "10",
            "--no-color",
        ]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
