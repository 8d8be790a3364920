//! A gateway inside a program: consumers, exactly once, supervision, custom actors, and the test kit itself.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod actors;
mod consumers;
mod embedding;
mod exactly_once;
mod isolation;
mod kill;
mod kit;
mod supervision;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../gateway/support/mod.rs"]
mod support;

/// A WebSocket client of a gateway in this process.
async fn connect(address: std::net::SocketAddr) -> support::Client {
    let socket = tokio_tungstenite::connect_async(format!("ws://{address}/ws")).await;
    support::Client::over(socket.expect("a gateway that listens").0)
}
