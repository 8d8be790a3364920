//! Several gateways on one store: who delivers a group's events, who takes over, and what each hears of the others.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "shared with the gateway's other tests")]
#[path = "../gateway/support/mod.rs"]
mod support;

#[path = "../gateway/http.rs"]
mod http;

mod cut;
mod dice;
mod failures;
mod news;
mod owners;
mod pair;
mod storm;
