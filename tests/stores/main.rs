//! One suite of tests, which every store passes: the written contract of `tidegate::store`, sentence by sentence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what a case shares with others is test code too"
)]

mod bench;
mod faults;
mod model;
#[path = "../replica_set/mod.rs"]
mod replica_set;
mod stores;
mod suite;
