//! Clients that mean harm, and actors that fail: what the gateway owes the others meanwhile.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "shared with the gateway's other tests")]
#[path = "../gateway/support/mod.rs"]
mod support;

mod crowds;
mod floods;
mod frames;
mod panics;
mod process;
mod raw;
mod silence;
mod slow_readers;
