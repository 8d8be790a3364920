//! The embedded store and `kill -9`: a program with an `ExactlyOnce` consumer is killed again and again.
//!
//! The program is this test itself, started once more as a child (the test `child`, which does nothing by itself).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidegate::{Consumer, Context, Event, ExactlyOnce, Gateway, Message, Subscribe};

const EVENTS: u32 = 200;
const KILLS: u32 = 12;
const FOLDER: &str = "TIDEGATE_TEST_FOLDER";

/// The effect is a line in a file: what was written stays when the process is killed.
struct Append(PathBuf);

impl Consumer for Append {
    type Payload = u32;
    type Error = std::io::Error;

    async fn handle(&mut self, event: Event<u32>, _: &Context) -> std::io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{}\n", event.id).as_bytes())?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }
}

/// The program that is killed: publishes all events, as often as it is started, and handles them.
#[tokio::test]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let effects = folder.join("effects");
    let gateway = Gateway::builder()
        .in_folder(folder.join("store"))
        .consumer(
            Subscribe::group("payments", "ledger").from_earliest().concurrency(2),
            move || ExactlyOnce::new(Append(effects.clone())),
        )
        .start()
        .await
        .unwrap();
    for number in 0..EVENTS {
        let message = Message::json(&number).id(format!("payment-{number}"));
        gateway.publish("payments", message).await.unwrap();
    }
    while gateway.group("payments", "ledger").await.unwrap().lag > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.stop().await.unwrap();
    std::fs::write(folder.join("done"), "").unwrap();
}

/// Ends its process, whatever happens to the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

fn effects(folder: &Path) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_program_that_is_killed_handles_everything_and_next_to_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut kills = 0;
    for round in 1..=KILLS {
        let running = start(folder.path());
        // Killed when it has got a bit further than the round before.
        let (target, deadline) = (round * EVENTS / (KILLS + 2), Instant::now() + Duration::from_secs(60));
        while effects(folder.path()).len() < target as usize && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        kills += u32::from(!folder.path().join("done").exists());
        drop(running);
    }
    let mut last = start(folder.path());
    assert!(last.0.wait().unwrap().success());
    assert!(folder.path().join("done").exists(), "the last one came to its end");
    let counts = effects(folder.path());
    assert_eq!(counts.len(), EVENTS as usize, "nothing is lost");
    let doubled: u32 = counts.values().map(|count| count - 1).sum();
    println!("{kills} kills, {EVENTS} events, {doubled} effects twice");
    assert!(kills > KILLS / 2, "it was killed {kills} times only");
    // Each kill can hit each of the two instances between its effect and its mark, and nowhere else.
    assert!(doubled <= 2 * kills, "{doubled} effects twice after {kills} kills");
}
