//! The gateway over real sockets, driven by a client that is not ours.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod http;
#[allow(dead_code, reason = "shared with other tests")]
mod support;

mod acks;
mod ephemeral;
mod frames;
mod groups;
mod limits;
mod publish;
mod retention;
