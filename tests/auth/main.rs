//! Who gets in and what they may do, over real sockets and with the real program.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[path = "../gateway/support/mod.rs"]
#[allow(dead_code)]
mod support;

mod all_doors;
#[path = "../docs/blocks.rs"]
#[allow(dead_code)]
mod blocks;
mod door;
mod http;
mod issuer;
mod key_sets;
mod lifetime;
mod program;
mod public_libraries;
mod rights;

mod revocation;
mod secrets;
mod table;
mod tls;
mod tokens;
