//! HTTP requests written by hand, so that every header is the test's own.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::DEADLINE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    pub fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"));
        body["code"].as_str().unwrap().to_owned()
    }
}

/// Sends a request with these headers and nothing else.
pub async fn request(address: SocketAddr, line: &str, headers: &[(&str, &str)]) -> Answer {
    exchange(address, line, headers, "").await
}

/// The same with a body of JSON, and what announces it.
pub async fn send(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !body.is_empty() {
        all.extend([
            ("content-type", "application/json"),
            ("content-length", length.as_str()),
        ]);
    }
    exchange(address, line, &all, body).await
}

async fn exchange(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut text = format!("{line} HTTP/1.1\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        while !is_complete(&bytes) {
            let mut chunk = [0; 4_096];
            let n = stream.read(&mut chunk).await.unwrap();
            assert!(n > 0, "cut off after {:?}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..n]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let text = tokio::time::timeout(DEADLINE, exchange)
        .await
        .expect("an answer in time");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// Whether the head and as much as it announces are there: an upgrade that is answered stays open.
fn is_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= announced.map_or(0, |length| length.parse::<usize>().unwrap())
}
