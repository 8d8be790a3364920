//! The gateway killed in the middle of its work again and again, as with the embedded store (tests/crash).
//!
//! `TIDEGATE_CRASHES=500 cargo test --test mongo gateway_killed` kills it more often.

use std::sync::{Arc, Mutex};

use crate::clients::{DEADLINE, consume, drain, publish, read_all};
use crate::history::History;
use crate::{gateway, replica_set};

/// As if the dead gateway's lease were over: the next need not wait for that.
async fn forget_leases(database: &str) {
    let client = mongodb::Client::with_uri_str(replica_set::shared()).await.unwrap();
    let leases = client
        .database(database)
        .collection::<mongodb::bson::Document>("leases");
    let all = mongodb::bson::doc! { "until": { "$exists": true } };
    leases.delete_many(all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_or_doubled_by_kill_9() {
    let crashes = std::env::var("TIDEGATE_CRASHES").map_or(15, |text| text.parse::<u64>().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let (url, database) = (replica_set::shared(), replica_set::new_database());
    let histories = ["crash.one", "crash.two"].map(|topic| Arc::new(Mutex::new(History::new(topic))));
    for round in 0..crashes {
        let mut gateway = gateway(folder.path(), url, &database);
        let (counter, mut answered) = tokio::sync::watch::channel(0_u64);
        let mut tasks = Vec::new();
        for history in &histories {
            let (address, counter) = (gateway.address.clone(), counter.clone());
            tasks.push(tokio::spawn(publish(address.clone(), history.clone(), counter)));
            tasks.push(tokio::spawn(consume(address, history.clone(), round % 3 == 1)));
        }
        drop(counter);
        // A different amount of work each time, so that the end comes at different moments of a transaction.
        let work = 40 + round * 37 % 200;
        let enough = answered.wait_for(|count| *count >= work);
        tokio::time::timeout(DEADLINE, enough)
            .await
            .expect("publishes are answered")
            .unwrap();
        gateway.kill();
        forget_leases(&database).await;
        for task in tasks {
            tokio::time::timeout(DEADLINE, task)
                .await
                .expect("clients end")
                .unwrap();
        }
    }
    let mut gateway = gateway(folder.path(), url, &database);
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
