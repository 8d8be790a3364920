//! The real program, killed in the middle of its work again and again, and judged by what its clients saw: everything that
//! was answered `OK` is there, once, as it was sent; what was acked does not come again; what was not does.
//!
//! `TIDEGATE_CRASHES=500 cargo test --test crash` kills it more often than the usual 50 times.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod clients;
mod disk;
mod history;
mod process;
mod store_commands;

use std::sync::{Arc, Mutex};

use crate::clients::{DEADLINE, consume, drain, publish, read_all};
use crate::history::History;
use crate::process::Process;

/// One topic of each durability that is to survive.
const TOPICS: [&str; 2] = ["crash.fsync", "crash.os"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_or_doubled_by_kill_9() {
    let crashes = std::env::var("TIDEGATE_CRASHES").map_or(50, |text| text.parse::<u64>().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let histories = TOPICS.map(|topic| Arc::new(Mutex::new(History::new(topic))));
    for round in 0..crashes {
        let mut gateway = Process::start(folder.path());
        let (counter, mut answered) = tokio::sync::watch::channel(0_u64);
        let mut tasks = Vec::new();
        for history in &histories {
            let (address, counter) = (gateway.address.clone(), counter.clone());
            tasks.push(tokio::spawn(publish(address.clone(), history.clone(), counter)));
            tasks.push(tokio::spawn(consume(address, history.clone(), round % 3 == 1)));
        }
        drop(counter);
        // A different amount of work each time, so that the end comes at different moments of a commit.
        let work = 40 + round * 37 % 200;
        let enough = answered.wait_for(|count| *count >= work);
        tokio::time::timeout(DEADLINE, enough)
            .await
            .expect("publishes are answered")
            .unwrap();
        gateway.kill();
        for task in tasks {
            tokio::time::timeout(DEADLINE, task)
                .await
                .expect("clients end")
                .unwrap();
        }
    }
    let mut gateway = Process::start(folder.path());
    for history in &histories {
        let log = read_all(&gateway.address, history).await;
        history.lock().unwrap().check_log(&log);
        drain(&gateway.address, history, &log).await;
        let report = history.lock().unwrap().report();
        println!("{crashes} crashes, {report}");
        history.lock().unwrap().check_minimums(crashes);
    }
    gateway.kill();
}
