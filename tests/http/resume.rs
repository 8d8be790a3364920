//! `tidegate replay` and `tidegate export` as a person or a script uses them, over `kill -9` too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::publish_many;
use crate::process::Process;
use crate::support::TestGateway;

fn tidegate(address: std::net::SocketAddr, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).args(["--url", &format!("ws://{address}/ws")]);
    command.env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_URL");
    command
}

async fn run(address: std::net::SocketAddr, args: &[&str]) -> Output {
    let mut command = tidegate(address, args);
    tokio::task::spawn_blocking(move || command.output().expect("the program runs"))
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn seqs(lines: &str) -> Vec<u64> {
    let seq = |line: &str| {
        serde_json::from_str::<Value>(line).expect("an event")["seq"]
            .as_u64()
            .unwrap()
    };
    lines.lines().map(seq).collect()
}

async fn fill(address: std::net::SocketAddr, topic: &str, events: u64) {
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/ws"))
        .await
        .unwrap();
    let mut client = crate::support::Client::over(socket);
    let padding = "p".repeat(200);
    publish_many(
        &mut client,
        topic,
        (1..=events).map(|n| json!({"payload": [n, padding], "opts": {"ts": n}})),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_printed_one_event_a_line() {
    let gateway = TestGateway::start(&[]);
    fill(gateway.address, "t", 2_500).await;
    let printed = async |args: &[&str]| {
        let output = run(gateway.address, args).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        seqs(&text(&output.stdout))
    };
    assert_eq!(printed(&["replay", "t"]).await, (1..=2_500).collect::<Vec<_>>());
    assert_eq!(
        printed(&["replay", "t", "--limit", "1200"]).await,
        (1..=1_200).collect::<Vec<_>>()
    );
    assert_eq!(printed(&["replay", "t", "--from", "ts:2499"]).await, [2_499, 2_500]);
    assert_eq!(printed(&["export", "t"]).await, (1..=2_500).collect::<Vec<_>>());
    assert_eq!(
        printed(&["export", "t", "--from-ts", "5", "--to-ts", "7"]).await,
        [5, 6, 7]
    );
    let unknown = run(gateway.address, &["replay", "t", "--from", "after:no one"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        text(&unknown.stderr).contains("unknown_id: afterId: "),
        "{}",
        text(&unknown.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_neither_overwritten_nor_mixed_up() {
    let gateway = TestGateway::start(&[]);
    fill(gateway.address, "t", 10).await;
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.ndjson");
    let file = path.to_str().unwrap();
    let first = run(gateway.address, &["export", "t", "--output", file]).await;
    assert_eq!(text(&first.stdout), format!("exported 10 events to {file}\n"));
    let again = run(gateway.address, &["export", "t", "--output", file]).await;
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--resume"), "{}", text(&again.stderr));
    let other = run(gateway.address, &["export", "other", "--output", file, "--resume"]).await;
    assert_eq!(other.status.code(), Some(2));
    fill(gateway.address, "t", 5).await;
    let more = run(
        gateway.address,
        &["export", "t", "--output", file, "--resume", "--json"],
    )
    .await;
    assert_eq!(
        serde_json::from_slice::<Value>(&more.stdout).unwrap(),
        json!({"events": 5, "last_seq": 15, "output": file})
    );
    assert_eq!(
        seqs(&std::fs::read_to_string(&path).unwrap()),
        (1..=15).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_gateway_refuses_is_told() {
    let gateway = TestGateway::start(&["auth.mode=token", "auth.token=secret"]);
    let refused = run(gateway.address, &["export", "t"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("TIDEGATE_TOKEN"),
        "{}",
        text(&refused.stderr)
    );
    let let_in = run(gateway.address, &["export", "t", "--token", "secret"]).await;
    assert!(let_in.status.success());
    let nobody = run("127.0.0.1:1".parse().unwrap(), &["replay", "t"]).await;
    assert_eq!(nobody.status.code(), Some(1));
    assert!(
        text(&nobody.stderr).contains("no gateway at http://127.0.0.1:1"),
        "{}",
        text(&nobody.stderr)
    );
}

/// Waits until a file has so many bytes.
fn until_written(path: &Path, bytes: u64) {
    let began = Instant::now();
    while std::fs::metadata(path).map_or(0, |file| file.len()) < bytes {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing is written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn settings(folder: &Path) -> Vec<String> {
    vec![
        "store.kind=embedded".to_owned(),
        format!("store.path={}", folder.join("data").display()),
    ]
}

fn start(folder: &Path) -> Process {
    let settings = settings(folder);
    Process::start(&settings.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_in_the_middle_leaves_what_resume_completes() {
    let folder = tempdir().unwrap();
    let path: PathBuf = folder.path().join("t.ndjson");
    let file = path.to_str().unwrap().to_owned();
    let process = start(folder.path());
    fill(process.address, "t", 200_000).await;
    let child = tidegate(process.address, &["export", "t", "--output", &file])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_written(&path, 1 << 20);
    // `kill -9`, as dropping it does.
    drop(process);
    let broken = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken.stdout));
    assert!(
        text(&broken.stderr).contains("not complete"),
        "{}",
        text(&broken.stderr)
    );
    assert!(text(&broken.stderr).contains("--resume"), "{}", text(&broken.stderr));
    let written = seqs(&std::fs::read_to_string(&path).unwrap()).len();
    assert!((1..200_000).contains(&written), "it was not in the middle: {written}");
    let process = start(folder.path());
    let resumed = run(process.address, &["export", "t", "--output", &file, "--resume"]).await;
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let all = seqs(&std::fs::read_to_string(&path).unwrap());
    assert!(all == (1..=200_000).collect::<Vec<_>>(), "complete, and nothing twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_killed_in_the_middle_leaves_what_resume_completes() {
    let folder = tempdir().unwrap();
    let path: PathBuf = folder.path().join("t.ndjson");
    let file = path.to_str().unwrap().to_owned();
    let process = start(folder.path());
    fill(process.address, "t", 100_000).await;
    let mut child = tidegate(process.address, &["export", "t", "--output", &file])
        .spawn()
        .unwrap();
    until_written(&path, 1 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    // As if it had died within a write.
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(length - 5)
        .unwrap();
    let resumed = run(process.address, &["export", "t", "--output", &file, "--resume"]).await;
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let all = seqs(&std::fs::read_to_string(&path).unwrap());
    assert!(all == (1..=100_000).collect::<Vec<_>>(), "complete, and nothing twice");
}
