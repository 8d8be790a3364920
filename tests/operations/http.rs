//! Plain HTTP requests, without a library.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::DEADLINE;

/// Sends a request and waits for its answer: status and body.
pub async fn call(address: SocketAddr, line: &str, body: &str) -> (u16, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let head =
            format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(DEADLINE, exchange)
        .await
        .expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// A GET that must succeed.
pub async fn get(address: SocketAddr, path: &str) -> Value {
    let (status, body) = call(address, &format!("GET {path}"), "").await;
    assert_eq!(status, 200, "GET {path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// A request that must be answered with this status; the answer is its JSON.
pub async fn expect(address: SocketAddr, line: &str, body: &str, status: u16) -> Value {
    let (got, text) = call(address, line, body).await;
    assert_eq!(got, status, "{line} {body}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Asks until the answer is as it should be.
pub async fn becomes(address: SocketAddr, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let reached = async {
        loop {
            last = get(address, path).await;
            if wanted(&last) {
                return last.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, reached).await {
        Ok(found) => found,
        Err(_) => panic!("{path} stays at {last:#}"),
    }
}
