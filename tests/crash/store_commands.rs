//! `tidegate store check`, `repair` and `backup`, as an operator types them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::clients::Caller;
use crate::process::Process;

fn store(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .arg("store")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{} {}", parts[0], parts[1])
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

async fn publish(address: &str, count: u64) {
    let mut caller = Caller::connect(address).await;
    for n in 0..count {
        let answer = caller.call(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await;
        assert_eq!(answer["op"], "OK", "{answer}");
    }
}

/// The seqs that the gateway of a folder has.
async fn seqs(address: &str, count: usize) -> Vec<u64> {
    let mut caller = Caller::connect(address).await;
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}});
    assert_eq!(caller.call(subscribe).await["op"], "OK");
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(caller.event().await["event"]["seq"].as_u64().unwrap());
    }
    seqs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_made_while_the_gateway_runs_and_can_be_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Process::start(folder.path());
    publish(&gateway.address, 100).await;
    let copied = store(folder.path(), &["backup", "restored/data", "--path", "data", "--json"]);
    assert!(copied.status.success(), "{}", text(&copied));
    assert_eq!(json_of(&copied)["events"], 100);
    publish(&gateway.address, 10).await;
    let again = store(folder.path(), &["backup", "restored/data", "--path", "data"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("exists already"), "{}", text(&again));
    let locked = store(folder.path(), &["check", "data"]);
    assert_eq!(locked.status.code(), Some(1));
    assert!(text(&locked).contains("in use by another process"), "{}", text(&locked));
    gateway.kill();
    assert!(store(folder.path(), &["check", "data"]).status.success());
    let copied = store(folder.path(), &["backup", "later", "--path", "data", "--json"]);
    assert_eq!(json_of(&copied)["events"], 110, "{}", text(&copied));

    let mut restored = Process::start(&folder.path().join("restored"));
    assert_eq!(seqs(&restored.address, 100).await, (1..=100).collect::<Vec<_>>());
    publish(&restored.address, 1).await;
    restored.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_folder_is_refused_explained_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Process::start(folder.path());
    publish(&gateway.address, 100).await;
    gateway.kill();
    let journal = folder.path().join("data/db/0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    let payload = b"\"payload\":50}";
    let place = bytes
        .windows(payload.len())
        .position(|window| window == payload)
        .unwrap();
    bytes[place + 10] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();

    let served = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args([
            "serve",
            "--set",
            "store.path=data",
            "--set",
            "gateway.listen=127.0.0.1:0",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(served.status.code(), Some(1), "{}", text(&served));
    let said = text(&served);
    assert!(
        said.contains("tidegate store check") && said.contains("tidegate store repair"),
        "{said}"
    );

    let checked = store(folder.path(), &["check", "data"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    assert!(text(&checked).contains("store repair"), "{}", text(&checked));
    let checked = store(folder.path(), &["check", "--set", "store.path=data", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(json_of(&checked)["ok"], false);

    let repaired = store(folder.path(), &["repair", "data", "--json"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    let repaired = json_of(&repaired);
    println!("{repaired:#}");
    assert_eq!(repaired["events"], 99, "one commit of one event is damaged");
    let lost = repaired["lost"].as_array().unwrap();
    let names_it = |loss: &Value| *loss == "topic t: 1 events: 51";
    assert!(lost.iter().any(names_it), "{lost:?}");
    let old = repaired["old"].as_str().unwrap();
    assert!(old.contains("data.damaged-") && std::fs::read(Path::new(old).join("db/0.jnl")).unwrap() == bytes);
    assert!(store(folder.path(), &["check", "data"]).status.success());
    let mut gateway = Process::start(folder.path());
    assert_eq!(seqs(&gateway.address, 99).await.last(), Some(&100));
    publish(&gateway.address, 1).await;
    gateway.kill();
    let mut gateway = Process::start(folder.path());
    assert_eq!(seqs(&gateway.address, 100).await.last(), Some(&101));
    gateway.kill();
}
