//! The program itself: its commands, its exit codes, its way down.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod bench;
mod clients;
mod running;
mod serve;
