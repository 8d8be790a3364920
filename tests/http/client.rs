//! HTTP requests written by hand, and answers read byte by byte: so a test sees whether one is complete.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, DEADLINE, TestGateway};

/// An answer as far as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether it came to its end.
    pub complete: bool,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    /// The events of an export, or of a page.
    pub fn events(&self) -> Vec<Value> {
        assert!(self.status == 200 && self.complete, "{self:?}");
        if self.header("content-type") == Some("application/x-ndjson") {
            let lines = self.text().lines();
            return lines
                .map(|line| serde_json::from_str(line).expect("an event"))
                .collect();
        }
        match self.json() {
            Value::Array(events) => events,
            mut page => serde_json::from_value(page["events"].take()).expect("events"),
        }
    }

    pub fn seqs(&self) -> Vec<u64> {
        self.events()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect()
    }
}

/// A request whose answer is read piece by piece.
pub struct Reading {
    pub socket: TcpStream,
    pub bytes: Vec<u8>,
}

impl Reading {
    /// Sends a request.
    pub async fn begin(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reading {
        let mut socket = TcpStream::connect(address).await.expect("a gateway that listens");
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {address}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        socket.write_all(&[text.as_bytes(), body].concat()).await.unwrap();
        Reading {
            socket,
            bytes: Vec::new(),
        }
    }

    /// Reads on; false at the end, or where the connection broke.
    pub async fn more(&mut self) -> bool {
        let mut chunk = vec![0; 64 << 10];
        let read = tokio::time::timeout(DEADLINE, self.socket.read(&mut chunk)).await;
        match read.expect("something in time") {
            Ok(length) => {
                self.bytes.extend_from_slice(&chunk[..length]);
                length > 0
            }
            Err(_) => false,
        }
    }

    /// Reads until a text has come.
    pub async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.bytes).contains(text) {
            assert!(
                self.more().await,
                "no {text:?} in {:?}",
                String::from_utf8_lossy(&self.bytes)
            );
        }
    }

    /// Reads to the end.
    pub async fn end(mut self) -> Answer {
        while self.more().await {}
        let at = self.bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, body) = self
            .bytes
            .split_at(at.unwrap_or_else(|| panic!("no head: {:?}", self.bytes)) + 4);
        let head = String::from_utf8_lossy(head).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_lowercase();
        let (body, complete) = if head.contains("transfer-encoding: chunked") {
            dechunk(body)
        } else {
            let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = announced.map_or(0, |length| length.trim().parse().unwrap());
            (body.to_vec(), body.len() == length)
        };
        Answer {
            status,
            head,
            body,
            complete,
        }
    }
}

/// The content of chunks, and whether the last one came.
fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(at) = rest.windows(2).position(|window| window == b"\r\n") else {
            return (body, false);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        let content = &rest[at + 2..];
        if size == 0 {
            return (body, true);
        }
        body.extend_from_slice(&content[..size.min(content.len())]);
        match content.get(size + 2..) {
            Some(after) => rest = after,
            None => return (body, false),
        }
    }
}

/// A whole exchange.
pub async fn request(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    Reading::begin(address, line, headers, body).await.end().await
}

pub async fn get(gateway: &TestGateway, path: &str) -> Answer {
    request(gateway.address, &format!("GET {path}"), &[], b"").await
}

pub async fn post(gateway: &TestGateway, path: &str, body: &str) -> Answer {
    request(gateway.address, &format!("POST {path}"), &[], body.as_bytes()).await
}

/// Publishes events in batches over WebSocket: the quickest way to have many.
pub async fn publish_many(client: &mut Client, topic: &str, events: impl Iterator<Item = Value>) {
    let events: Vec<Value> = events.collect();
    for batch in events.chunks(1_000) {
        let frame = json!({"op": "PUBLISH_BATCH", "topic": topic, "events": batch});
        client.ok(frame).await;
    }
}

/// `n` events with their number as payload.
pub fn numbered(n: u64) -> impl Iterator<Item = Value> {
    (1..=n).map(|number| json!({"payload": number}))
}
