//! Operating a gateway: its groups and topics over HTTP and the command line, its figures, its answers to "why?".

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

#[path = "../cli/running.rs"]
#[allow(dead_code)]
mod running;
#[path = "../gateway/support/mod.rs"]
#[allow(dead_code)]
mod support;

mod command_line;
mod dead_letters;
mod explain;
mod figures;
mod groups;
mod http;
mod lag;
mod reload;
mod topics;
mod under_load;
