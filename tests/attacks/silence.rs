//! Peers that say nothing, or say it too slowly.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::Raw;
use crate::support::{DEADLINE, TestGateway};

fn hasty() -> TestGateway {
    let timing = Timing {
        ping: Duration::from_millis(300),
        request_head: Duration::from_millis(500),
        ..Timing::default()
    };
    TestGateway::start_with(&[], timing, Faults::default())
}

#[actix::test]
async fn a_peer_that_answers_no_ping_is_gone_after_two() {
    let gateway = hasty();
    let mut silent = Raw::connect(gateway.address).await;
    let mut alive = gateway.connect().await;
    alive.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    // Whoever reads answers pings by itself.
    let reader = actix::spawn(async move { alive.event().await });
    let began = Instant::now();
    let (mut pings, mut others) = (0, 0);
    while let Some((first, _)) = silent.next().await {
        match first {
            0x89 => pings += 1,
            _ => others += 1,
        }
    }
    let took = began.elapsed();
    assert_eq!((pings, others), (2, 0));
    assert!(
        took > Duration::from_millis(600) && took < Duration::from_secs(3),
        "{took:?}"
    );
    assert!(!reader.is_finished());
    gateway.connect().await.publish("t", json!(1)).await;
    assert_eq!(reader.await.unwrap()["event"]["payload"], 1);
}

/// Sends the bytes and waits for the end of the connection.
async fn ends(socket: &mut TcpStream, bytes: &[u8]) -> (String, Duration) {
    let began = Instant::now();
    socket.write_all(bytes).await.unwrap();
    let mut response = Vec::new();
    let end = tokio::time::timeout(DEADLINE, socket.read_to_end(&mut response)).await;
    let _ = end.expect("a connection that is ended");
    (String::from_utf8_lossy(&response).into_owned(), began.elapsed())
}

#[actix::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let gateway = hasty();
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    let (response, took) = ends(&mut socket, b"GET /ws HTTP/1.1\r\nHost: localhost\r\nX-").await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[actix::test]
async fn nor_is_the_head_of_a_second_request() {
    let gateway = hasty();
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    socket
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut response = [0; 15];
    socket.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 200 OK");
    let (_, took) = ends(&mut socket, b"GET /healthz HTTP/1.1\r\nHost: loc").await;
    assert!(took < Duration::from_secs(8), "{took:?}");
}
