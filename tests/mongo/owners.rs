//! Two gateways on one database and one group, as processes of their own: the owner is killed or frozen, and the other
//! takes over.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;

use crate::process::Process;
use crate::replica_set;
use crate::support::Client;

const LEASE: Duration = Duration::from_secs(2);

fn start(folder: &std::path::Path, database: &str) -> Process {
    let settings = [
        "store.kind=mongodb".to_owned(),
        format!("store.url={}", replica_set::shared()),
        format!("store.database={database}"),
        format!("cluster.lease={}s", LEASE.as_secs()),
    ];
    Process::start_with(folder, &settings.each_ref().map(String::as_str))
}

async fn member(gateway: &Process) -> Client {
    let (socket, _) = connect_async(format!("ws://{}/ws", gateway.address)).await.unwrap();
    let mut client = Client::over(socket);
    let opts = json!({"from": "earliest", "ackTimeoutMs": 600_000, "maxInFlight": 1_000});
    client.subscribe("t", "g", opts).await;
    client
}

fn signal(gateway: &Process, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(gateway.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn payloads(frames: &[Value]) -> Vec<u64> {
    let payload = |frame: &Value| frame["event"]["payload"].as_u64().unwrap();
    let mut payloads: Vec<u64> = frames.iter().map(payload).collect();
    payloads.sort_unstable();
    payloads
}

async fn publish(client: &mut Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        client.publish("t", json!(number)).await;
    }
}

#[tokio::test]
async fn another_takes_over_when_the_owner_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let database = replica_set::new_database();
    let mut owner = start(folder.path(), &database);
    let mut at_owner = member(&owner).await;
    for round in 0..3 {
        let next = start(folder.path(), &database);
        let mut at_next = member(&next).await;
        let first = round * 100;
        // Published where the group is not: the owner hears of it.
        publish(&mut at_next, first..first + 20).await;
        let got = at_owner.events(20).await;
        assert_eq!(payloads(&got), (first..first + 20).collect::<Vec<_>>());
        for frame in &got[..10] {
            at_owner.ack("t", "g", &frame["event"]["id"]).await;
        }
        assert!(at_next.events_so_far().await.is_empty(), "who stands by gets nothing");
        owner.kill();
        let since = Instant::now();
        let again = at_next.events(10).await;
        assert!(
            since.elapsed() < LEASE + Duration::from_secs(5),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(
            payloads(&again),
            payloads(&got[10..]),
            "what was acked does not come again"
        );
        for frame in &again {
            assert_eq!(frame["ctx"]["attempt"], 1, "not counted: {frame}");
            at_next.ack("t", "g", &frame["event"]["id"]).await;
        }
        assert!(at_next.events_so_far().await.is_empty());
        (owner, at_owner) = (next, at_next);
    }
    owner.kill();
}

#[tokio::test]
async fn an_owner_that_was_frozen_changes_nothing_when_it_thaws() {
    let folder = tempfile::tempdir().unwrap();
    let database = replica_set::new_database();
    let (mut owner, mut other) = (start(folder.path(), &database), start(folder.path(), &database));
    let (mut at_owner, mut at_other) = (member(&owner).await, member(&other).await);
    for round in 0..2 {
        let first = round * 100;
        publish(&mut at_other, first..first + 20).await;
        let got = at_owner.events(20).await;
        for frame in &got[..10] {
            at_owner.ack("t", "g", &frame["event"]["id"]).await;
        }
        signal(&owner, Signal::STOP);
        let since = Instant::now();
        let again = at_other.events(10).await;
        assert!(
            since.elapsed() < LEASE + Duration::from_secs(5),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(payloads(&again), payloads(&got[10..]));
        for frame in &again[1..] {
            assert_eq!(frame["ctx"]["attempt"], 1, "not counted: {frame}");
            at_other.ack("t", "g", &frame["event"]["id"]).await;
        }
        // While nobody there can know, more is published.
        publish(&mut at_other, first + 20..first + 30).await;
        let more = at_other.events(10).await;
        signal(&owner, Signal::CONT);
        let late = json!({"op": "ACK", "topic": "t", "group": "g", "id": again[0]["event"]["id"]});
        at_owner.err(late, "ack_failed").await;
        for frame in more.iter().chain([&again[0]]) {
            at_other.ack("t", "g", &frame["event"]["id"]).await;
        }
        publish(&mut at_owner, first + 30..first + 40).await;
        let more = at_other.events(10).await;
        for frame in &more {
            assert_eq!(frame["ctx"]["attempt"], 1, "{frame}");
            at_other.ack("t", "g", &frame["event"]["id"]).await;
        }
        assert!(
            at_owner.events_so_far().await.is_empty(),
            "the old owner delivers nothing"
        );
        assert!(at_other.events_so_far().await.is_empty());
        std::mem::swap(&mut owner, &mut other);
        std::mem::swap(&mut at_owner, &mut at_other);
    }
    owner.kill();
    other.kill();
}
