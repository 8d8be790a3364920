//! A gateway for tests that says what it is told to: one connection, one script.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// The gateway's side of the connection.
pub(super) struct Gateway(WebSocketStream<TcpStream>);

impl Gateway {
    /// Starts one that authenticates its client and then follows the script. Its address, and what the script gives back.
    pub async fn start<T: Send + 'static, F: Future<Output = T> + Send>(
        script: impl FnOnce(Gateway) -> F + Send + 'static,
    ) -> (String, tokio::task::JoinHandle<T>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let gateway = Gateway::accept(&listener).await;
            script(gateway).await
        });
        (url, task)
    }

    /// Waits for a client and authenticates it.
    pub async fn accept(listener: &TcpListener) -> Gateway {
        let (stream, _) = listener.accept().await.unwrap();
        let mut gateway = Gateway(accept_async(stream).await.unwrap());
        let auth = gateway.expect("AUTH").await;
        gateway.ok(&auth, json!({})).await;
        gateway
    }

    /// The next frame, which must have this op.
    pub async fn expect(&mut self, op: &str) -> Value {
        let frame = self.next().await.unwrap_or_else(|| panic!("closed instead of {op}"));
        assert_eq!(frame["op"], op, "{frame}");
        frame
    }

    /// The next frame; `None` once the client has closed.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Says yes.
    pub async fn ok(&mut self, request: &Value, mut answer: Value) {
        answer["op"] = json!("OK");
        answer["corr"] = request["corr"].clone();
        self.send(answer).await;
    }

    /// Says no.
    pub async fn err(&mut self, request: &Value, code: &str, msg: &str) {
        self.send(json!({"op": "ERR", "corr": request["corr"], "code": code, "msg": msg, "retry_after_ms": 1}))
            .await;
    }

    /// Says yes to a batch: the seqs begin with this one.
    pub async fn published(&mut self, batch: &Value, first_seq: usize) -> usize {
        let events = batch["events"].as_array().unwrap();
        let ids: Vec<&Value> = events.iter().map(|event| &event["opts"]["id"]).collect();
        let seqs: Vec<usize> = (first_seq..).take(ids.len()).collect();
        self.ok(batch, json!({"ids": ids, "seqs": seqs})).await;
        ids.len()
    }

    /// Delivers an event.
    pub async fn event(&mut self, id: &str) {
        self.send(json!({"op": "EVENT", "topic": "t", "group": "g", "event": {"id": id}, "ctx": {"attempt": 1}}))
            .await;
    }

    /// Ends the connection.
    pub async fn close(mut self, code: u16, reason: &str) {
        use tokio_tungstenite::tungstenite::protocol::CloseFrame;
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.to_owned().into(),
        };
        self.0.close(Some(frame)).await.unwrap();
        while self.next().await.is_some() {}
    }

    /// Says anything.
    pub async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }
}
