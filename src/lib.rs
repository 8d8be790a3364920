#![doc = include_str!("../README.md")]

pub mod actors;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod operations;
pub mod protocol;
pub mod server;
pub mod store;
pub mod telemetry;
mod tls;
