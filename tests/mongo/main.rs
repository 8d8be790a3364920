//! The store in MongoDB, on real replica sets: what the conformance suite (tests/stores) does not ask.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[path = "../crash/clients.rs"]
#[allow(dead_code, reason = "shared")]
mod clients;
mod documents;
mod gateway_killed;
#[path = "../crash/history.rs"]
mod history;
mod owners;
mod primary_lost;
#[path = "../crash/process.rs"]
mod process;
#[path = "../replica_set/mod.rs"]
mod replica_set;
#[path = "../gateway/support/mod.rs"]
#[allow(dead_code, reason = "shared")]
mod support;

mod writers;

use crate::process::Process;

/// A gateway on a database.
pub fn gateway(folder: &std::path::Path, url: &str, database: &str) -> Process {
    let settings = [
        "store.kind=mongodb".to_owned(),
        format!("store.url={url}"),
        format!("store.database={database}"),
    ];
    Process::start_with(folder, &settings.each_ref().map(String::as_str))
}
