//! A three-node set that loses its primary again and again under load: by `kill -9`, and by being frozen.
//!
//! `TIDEGATE_FAILOVERS=100 cargo test --test mongo primary` loses it more often than the usual 10 times each.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::watch;

use crate::clients::{consume, drain, publish, read_all};
use crate::history::History;
use crate::replica_set::ReplicaSet;
use crate::{gateway, replica_set};

/// How long after the election publishing must go on.
const AFTER_ELECTION: Duration = Duration::from_secs(5);
/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Killed,
    Frozen,
}

/// Waits until so many publishes more were answered.
async fn answered(count: &mut watch::Receiver<u64>, more: u64) {
    let goal = *count.borrow() + more;
    let enough = count.wait_for(|count| *count >= goal);
    tokio::time::timeout(DEADLINE, enough)
        .await
        .expect("publishes are answered")
        .unwrap();
}

async fn lose_primaries(loss: Loss) {
    let rounds = std::env::var("TIDEGATE_FAILOVERS").map_or(10, |text| text.parse::<u64>().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let mut set = ReplicaSet::start(3, 1_000).await;
    set.healthy().await;
    let mut gateway = gateway(folder.path(), &set.url(), &replica_set::new_database());
    let mut history = History::new("failover");
    history.store_fails = true;
    let history = Arc::new(Mutex::new(history));
    let (counter, mut count) = watch::channel(0_u64);
    let publisher = tokio::spawn(publish(gateway.address.clone(), history.clone(), counter));
    let consumer = tokio::spawn(consume(gateway.address.clone(), history.clone(), false));
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        answered(&mut count, 30 + round * 17 % 50).await;
        let primary = set.primary().await;
        let signal = if loss == Loss::Killed {
            Signal::KILL
        } else {
            Signal::STOP
        };
        // The gateway's own lease may run out, and what was under way then comes again.
        history.lock().unwrap().drops += 1;
        set.nodes[primary].signal(signal);
        let elected = set.other_primary(primary).await;
        let began = Instant::now();
        // One of these may have been on its way before.
        answered(&mut count, 10).await;
        longest = longest.max(began.elapsed());
        assert!(
            began.elapsed() < AFTER_ELECTION,
            "round {round}: publishing went on {:?} after the election of {elected}",
            began.elapsed()
        );
        match loss {
            Loss::Killed => set.nodes[primary].restart(),
            Loss::Frozen => set.nodes[primary].signal(Signal::CONT),
        }
        set.healthy().await;
    }
    answered(&mut count, 30).await;
    publisher.abort();
    consumer.abort();
    let _ = (publisher.await, consumer.await);
    let log = read_all(&gateway.address, &history).await;
    history.lock().unwrap().check_log(&log);
    // The member that was cut off left leases behind, which come again.
    history.lock().unwrap().drops += 1;
    drain(&gateway.address, &history, &log).await;
    println!(
        "{rounds} primaries lost, {}, longest wait after an election {longest:?}",
        history.lock().unwrap().report()
    );
    gateway.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_costs_nothing_that_was_answered() {
    lose_primaries(Loss::Killed).await;
}

// Says what must hold, and fails: README names what is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "known defect: publishing waits too long for a frozen primary, and an answered NACK may lose its attempt"]
async fn a_primary_that_is_frozen_costs_nothing_that_was_answered() {
    lose_primaries(Loss::Frozen).await;
}
