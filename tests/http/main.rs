//! History, publishing and events over plain HTTP, on every store there is.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[path = "../gateway/support/mod.rs"]
#[allow(dead_code, reason = "shared with the gateway's other tests")]
mod support;

#[path = "../attacks/process.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod process;

mod client;
mod description;
mod events;
mod export;
mod export_under_way;
mod large_exports;
mod ports;
mod publish;
mod replay;
mod resume;
mod seed;
mod stores;
