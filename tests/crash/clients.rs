//! Clients that work until the gateway is gone, and note what they were told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::history::{Event, History};

/// Nothing takes longer than this.
pub const DEADLINE: Duration = Duration::from_secs(30);
const GROUP: &str = "workers";
/// Publishes that a publisher has on their way.
const PIPELINE: usize = 8;

/// A frame from the gateway, its payload's text untouched.
#[derive(Debug, Deserialize)]
struct Frame {
    op: String,
    corr: Option<u64>,
    code: Option<String>,
    id: Option<String>,
    seq: Option<u64>,
    event: Option<Event>,
    ctx: Option<Context>,
}

#[derive(Debug, Deserialize)]
struct Context {
    attempt: u32,
}

struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    /// `None` where the gateway is gone.
    async fn connect(address: &str) -> Option<Client> {
        Some(Client(connect_async(format!("ws://{address}/ws")).await.ok()?.0))
    }

    async fn send(&mut self, frame: String) -> Option<()> {
        self.0.send(Message::text(frame)).await.ok()
    }

    async fn next(&mut self) -> Option<Frame> {
        // Pings do not count as frames.
        let late = tokio::time::Instant::now() + DEADLINE;
        loop {
            let next = tokio::time::timeout_at(late, self.0.next())
                .await
                .expect("a frame in time");
            match next?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(text.as_str()).expect("a frame")),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// An answer that must be `OK`; `None` where the gateway is gone.
    async fn subscribe(&mut self, frame: Value) -> Option<()> {
        self.send(frame.to_string()).await?;
        let answer = self.next().await?;
        assert_eq!(answer.op, "OK", "{answer:?}");
        Some(())
    }
}

/// Publishes until the gateway is gone; counts the answers.
pub async fn publish(address: String, history: Arc<Mutex<History>>, answered: watch::Sender<u64>) {
    let work = async {
        let mut client = Client::connect(&address).await?;
        let topic = history.lock().unwrap().topic;
        let mut waiting: HashMap<u64, String> = HashMap::new();
        let mut corr = 0;
        loop {
            while waiting.len() < PIPELINE {
                corr += 1;
                let payload = history.lock().unwrap().next_payload();
                let frame = format!(
                    "{{\"op\":\"PUBLISH\",\"corr\":{corr},\"topic\":\"{topic}\",\"payload\":{payload},\
                     \"opts\":{{\"key\":\"k{}\"}}}}",
                    corr % 20
                );
                waiting.insert(corr, payload);
                client.send(frame).await?;
            }
            let answer = client.next().await?;
            if is_excused(&history, &answer) {
                waiting.remove(&answer.corr?);
                continue;
            }
            assert_eq!(answer.op, "OK", "{answer:?}");
            let payload = waiting.remove(&answer.corr?).expect("one answer for each request");
            history.lock().unwrap().answered(answer.seq?, answer.id?, payload);
            answered.send_modify(|count| *count += 1);
        }
    };
    let _: Option<()> = work.await;
}

/// Whether the store could not be reached, where that is to be expected.
fn is_excused(history: &Arc<Mutex<History>>, answer: &Frame) -> bool {
    // `ack_failed`: the gateway's lease ran out meanwhile, so it does not know whether the group is still its own.
    let unavailable = matches!(answer.code.as_deref(), Some("store_unavailable" | "ack_failed"));
    answer.op == "ERR" && unavailable && history.lock().unwrap().store_fails
}

/// What is to become of a request's event when its answer comes.
enum Asked {
    Ack(u64, String),
    Nack(u64, u32),
}

/// Consumes until the gateway is gone: acks most, nacks some, forgets the rest. Where `dies`, the connection is given up
/// in between and another one goes on.
pub async fn consume(address: String, history: Arc<Mutex<History>>, dies: bool) {
    let opts =
        json!({"from": "earliest", "maxInFlight": 50, "maxAttempts": 1_000, "backoffMs": 0, "ackTimeoutMs": 600_000});
    let topic = history.lock().unwrap().topic;
    let subscribe = json!({"op": "SUBSCRIBE", "corr": 0, "topic": topic, "group": GROUP, "opts": opts});
    let mut given_up = !dies;
    let mut lives = true;
    while lives {
        let life = async {
            let mut client = Client::connect(&address).await?;
            client.subscribe(subscribe.clone()).await?;
            let mut asked = HashMap::new();
            let mut corr = 0;
            loop {
                let frame = client.next().await?;
                if let Some(event) = frame.event {
                    corr += 1;
                    let (seq, attempt) = (event.seq, frame.ctx.expect("a context").attempt);
                    history.lock().unwrap().delivered(seq, attempt);
                    let op = match seq % 10 {
                        0..6 => "ACK",
                        6..9 if attempt < 4 => "NACK",
                        6..9 => "ACK",
                        _ if attempt > 1 || corr > 30 => "ACK",
                        _ => continue,
                    };
                    match op {
                        "ACK" => {
                            history.lock().unwrap().ack_sent(seq);
                            asked.insert(corr, Asked::Ack(seq, event.id.clone()));
                        }
                        _ => {
                            history.lock().unwrap().nack_sent(seq);
                            asked.insert(corr, Asked::Nack(seq, attempt));
                        }
                    }
                    let request = json!({"op": op, "corr": corr, "topic": topic, "group": GROUP, "id": event.id});
                    client.send(request.to_string()).await?;
                } else if is_excused(&history, &frame) {
                    // An ack is the client's to repeat.
                    if let Some(Asked::Ack(seq, id)) = asked.remove(&frame.corr?) {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        corr += 1;
                        let request = json!({"op": "ACK", "corr": corr, "topic": topic, "group": GROUP, "id": id});
                        asked.insert(corr, Asked::Ack(seq, id));
                        client.send(request.to_string()).await?;
                    }
                } else {
                    assert_eq!(frame.op, "OK", "{frame:?} {:?}", frame.code);
                    match asked.remove(&frame.corr?) {
                        Some(Asked::Ack(seq, _)) => history.lock().unwrap().acked(seq),
                        Some(Asked::Nack(seq, attempt)) => history.lock().unwrap().nacked(seq, attempt),
                        None => panic!("an answer to nothing: {frame:?}"),
                    }
                }
                if !given_up && corr >= 8 {
                    given_up = true;
                    // Counted before it happens: the other one may be served at once.
                    history.lock().unwrap().drops += 1;
                    return Some(());
                }
            }
        };
        lives = life.await.is_some();
    }
}

/// Everything that the topic holds.
pub async fn read_all(address: &str, history: &Arc<Mutex<History>>) -> Vec<Event> {
    let (topic, newest) = {
        let history = history.lock().unwrap();
        (history.topic, history.newest())
    };
    let mut client = Client::connect(address).await.expect("a gateway");
    client
        .subscribe(json!({"op": "SUBSCRIBE", "corr": 0, "topic": topic, "opts": {"from": "earliest"}}))
        .await
        .expect("a gateway");
    // One more, which nobody counts on: when it comes, everything before it has come.
    let payload = history.lock().unwrap().next_payload();
    let last = format!("{{\"op\":\"PUBLISH\",\"corr\":1,\"topic\":\"{topic}\",\"payload\":{payload}}}");
    client.send(last).await.expect("a gateway");
    let (mut log, mut border) = (Vec::new(), None);
    while border.is_none_or(|border| log.last().is_none_or(|event: &Event| event.seq < border)) {
        let frame = client.next().await.expect("a gateway");
        match frame.event {
            Some(event) => log.push(event),
            None => {
                let (seq, id) = (frame.seq.expect("OK"), frame.id.expect("OK"));
                assert!(seq > newest, "{topic}: seq {seq} was given before");
                history.lock().unwrap().answered(seq, id, payload.clone());
                border = Some(seq);
            }
        }
    }
    log
}

/// The group gets all that it is owed, and acks it.
pub async fn drain(address: &str, history: &Arc<Mutex<History>>, log: &[Event]) {
    let (topic, mut owed) = {
        let history = history.lock().unwrap();
        (history.topic, history.owed(log))
    };
    let mut client = Client::connect(address).await.expect("a gateway");
    let subscribe =
        json!({"op": "SUBSCRIBE", "corr": 0, "topic": topic, "group": GROUP, "opts": {"maxInFlight": 10_000}});
    client.subscribe(subscribe).await.expect("a gateway");
    while !owed.is_empty() {
        let frame = client.next().await.expect("a gateway");
        let Some(event) = frame.event else { continue };
        let attempt = frame.ctx.expect("a context").attempt;
        history.lock().unwrap().delivered(event.seq, attempt);
        owed.remove(&event.seq);
        let ack = json!({"op": "ACK", "corr": 1, "topic": topic, "group": GROUP, "id": event.id});
        client.send(ack.to_string()).await.expect("a gateway");
    }
}

/// A client that asks one thing after the other.
pub struct Caller {
    client: Client,
    events: std::collections::VecDeque<Value>,
}

impl Caller {
    pub async fn connect(address: &str) -> Caller {
        let client = Client::connect(address).await.expect("a gateway");
        Caller {
            client,
            events: Default::default(),
        }
    }

    async fn next(&mut self) -> Value {
        let late = tokio::time::Instant::now() + DEADLINE;
        loop {
            let next = tokio::time::timeout_at(late, self.client.0.next()).await;
            let message = next.expect("a frame in time").expect("an open connection");
            if let Message::Text(text) = message.expect("an open connection") {
                return serde_json::from_str(text.as_str()).expect("a frame");
            }
        }
    }

    /// A request's answer; events that come before it are kept.
    pub async fn call(&mut self, request: Value) -> Value {
        self.client.send(request.to_string()).await.expect("an open connection");
        loop {
            let frame = self.next().await;
            if frame["op"] != "EVENT" {
                return frame;
            }
            self.events.push_back(frame);
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> Value {
        match self.events.pop_front() {
            Some(event) => event,
            None => self.next().await,
        }
    }
}
