//! A gateway in a thread of this process, and WebSocket clients for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tidegate::Gateway;
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;
use tidegate::config::{Sources, load};
use tidegate::store::Store;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Nothing takes longer than this; a test that waits so long has failed.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A gateway that runs until it is dropped.
pub struct TestGateway {
    pub address: SocketAddr,
    /// Where history alone is served, if it is.
    pub replay_address: Option<SocketAddr>,
    gateway: Option<Gateway>,
}

impl TestGateway {
    /// With the memory store and limits off, and what `set` says.
    pub fn start(set: &[&str]) -> TestGateway {
        TestGateway::start_with(set, Timing::default(), Faults::default())
    }

    /// The same, with other times and with faults.
    pub fn start_with(set: &[&str], timing: Timing, faults: Faults) -> TestGateway {
        TestGateway::start_on(None, set, timing, faults)
    }

    /// The same, on a store that is there already.
    pub fn start_on(store: Option<Arc<dyn Store>>, set: &[&str], timing: Timing, faults: Faults) -> TestGateway {
        let defaults = [
            "gateway.listen=127.0.0.1:0",
            "replay.listen=off",
            "store.kind=memory",
            "limits.connection=off",
            "limits.topic=off",
        ];
        let set = defaults.iter().chain(set).map(|text| (*text).to_owned()).collect();
        let config = load(&Sources {
            set,
            ..Sources::default()
        })
        .expect("a good configuration")
        .config;
        let mut builder = Gateway::builder().config(config).with_faults(timing, faults);
        if let Some(store) = store {
            builder = builder.on_store(store);
        }
        let gateway = elsewhere(async move { builder.start().await.expect("a gateway that starts") });
        TestGateway {
            address: gateway.address().expect("a gateway that listens"),
            replay_address: gateway.replay_address(),
            gateway: Some(gateway),
        }
    }

    /// A client that needs no AUTH, or has not sent it yet.
    pub async fn connect(&self) -> Client {
        let (socket, _) = connect_async(format!("ws://{}/ws", self.address))
            .await
            .expect("a gateway that listens");
        Client::over(socket)
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if let Some(gateway) = self.gateway.take() {
            let ended = elsewhere(async move { gateway.stop().await });
            if !std::thread::panicking() {
                ended.expect("a gateway that ends well");
            }
        }
    }
}

/// Waits for something where a test cannot: on another thread.
fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work)
    });
    thread.join().expect("work without a panic")
}

/// A WebSocket client that keeps EVENTs apart from answers.
pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    events: Vec<Value>,
    corr: u64,
}

impl Client {
    /// A client over an open WebSocket.
    pub fn over(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Client {
        Client {
            socket,
            events: Vec::new(),
            corr: 0,
        }
    }

    /// Sends a text as it is.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.socket
            .send(Message::text(text.into()))
            .await
            .expect("an open connection");
    }

    /// Sends a request and leaves its answer for later; the answer is `corr`.
    pub async fn send(&mut self, mut frame: Value) -> u64 {
        self.corr += 1;
        frame["corr"] = json!(self.corr);
        self.send_text(frame.to_string()).await;
        self.corr
    }

    /// The next frame, whatever it is; None at the end of the connection.
    pub async fn next_frame(&mut self) -> Option<Message> {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(message)) => return Some(message),
                    Some(Err(_)) | None => return None,
                }
            }
        };
        tokio::time::timeout(DEADLINE, next).await.expect("a frame in time")
    }

    async fn next_json(&mut self) -> Value {
        let message = self.next_frame().await.expect("an open connection");
        let text = message.into_text().expect("a text frame");
        serde_json::from_str(text.as_str()).expect("JSON")
    }

    /// The next frame, EVENT or answer. Nothing is lost where it is given up.
    pub async fn any(&mut self) -> Value {
        if !self.events.is_empty() {
            return self.events.remove(0);
        }
        self.next_json().await
    }

    /// The next frame that is an answer.
    pub async fn answer(&mut self) -> Value {
        loop {
            let frame = self.next_json().await;
            if frame["op"] == "EVENT" {
                self.events.push(frame);
            } else {
                return frame;
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&mut self, frame: Value) -> Value {
        let corr = self.send(frame).await;
        let answer = self.answer().await;
        assert_eq!(answer["corr"], json!(corr), "{answer}");
        answer
    }

    /// The same, and the answer must be OK.
    pub async fn ok(&mut self, frame: Value) -> Value {
        let answer = self.call(frame.clone()).await;
        assert_eq!(answer["op"], "OK", "{frame} was answered {answer}");
        answer
    }

    /// The same, and the answer must be ERR with this code.
    pub async fn err(&mut self, frame: Value, code: &str) -> Value {
        let answer = self.call(frame.clone()).await;
        assert_eq!(
            (&answer["op"], &answer["code"]),
            (&json!("ERR"), &json!(code)),
            "{frame} was answered {answer}"
        );
        answer
    }

    /// The next EVENT.
    pub async fn event(&mut self) -> Value {
        if !self.events.is_empty() {
            return self.events.remove(0);
        }
        let frame = self.next_json().await;
        assert_eq!(frame["op"], "EVENT", "{frame}");
        frame
    }

    /// The next `n` EVENTs.
    pub async fn events(&mut self, n: usize) -> Vec<Value> {
        let mut events = Vec::new();
        for _ in 0..n {
            events.push(self.event().await);
        }
        events
    }

    /// EVENTs that came so far: a request's answer shows that nothing else was on its way.
    pub async fn events_so_far(&mut self) -> Vec<Value> {
        self.call(json!({"op": "AUTH"})).await;
        std::mem::take(&mut self.events)
    }

    pub async fn publish(&mut self, topic: &str, payload: Value) -> Value {
        self.ok(json!({"op": "PUBLISH", "topic": topic, "payload": payload}))
            .await
    }

    pub async fn subscribe(&mut self, topic: &str, group: &str, opts: Value) {
        self.ok(json!({"op": "SUBSCRIBE", "topic": topic, "group": group, "opts": opts}))
            .await;
    }

    pub async fn ack(&mut self, topic: &str, group: &str, id: &Value) {
        self.ok(json!({"op": "ACK", "topic": topic, "group": group, "id": id}))
            .await;
    }

    /// The close frame's code.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match self.next_frame().await {
                Some(Message::Close(Some(frame))) => return frame.code.into(),
                Some(Message::Close(None)) => return 1005,
                Some(_) => {}
                None => return 1006,
            }
        }
    }
}
