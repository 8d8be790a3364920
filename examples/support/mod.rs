//! A small WebSocket client, for the examples that need one.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// The gateway answers long before this; who waits so long waits for something that does not come.
const DEADLINE: Duration = Duration::from_secs(15);

/// A connection to a gateway.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// EVENTs come whenever they are ready, between answers too: those that came early are kept.
    early: Vec<Value>,
}

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Result<Client, Box<dyn Error>> {
        let (socket, _) = connect_async(format!("ws://{address}/ws")).await?;
        Ok(Client {
            socket,
            early: Vec::new(),
        })
    }

    /// Sends a request and waits for its `OK`.
    pub async fn ok(&mut self, mut frame: Value) -> Result<Value, Box<dyn Error>> {
        frame["corr"] = json!("answer me");
        self.socket.send(Message::text(frame.to_string())).await?;
        loop {
            let answer = self.next().await?;
            match (&answer["op"], &answer["corr"]) {
                (op, _) if op == "EVENT" => self.early.push(answer),
                (op, corr) if op == "OK" && corr == "answer me" => return Ok(answer),
                _ => return Err(format!("{frame} was answered {answer}").into()),
            }
        }
    }

    /// The next EVENT.
    pub async fn event(&mut self) -> Result<Value, Box<dyn Error>> {
        if !self.early.is_empty() {
            return Ok(self.early.remove(0));
        }
        let frame = self.next().await?;
        if frame["op"] == "EVENT" {
            Ok(frame)
        } else {
            Err(format!("no event, but {frame}").into())
        }
    }

    async fn next(&mut self) -> Result<Value, Box<dyn Error>> {
        loop {
            let message = tokio::time::timeout(DEADLINE, self.socket.next()).await?;
            match message.ok_or("the gateway closed the connection")?? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(frame) => return Err(format!("the gateway closed the connection: {frame:?}").into()),
                // Pings are answered by the library.
                _ => {}
            }
        }
    }
}
