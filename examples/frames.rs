//! A console for a gateway's WebSocket: one JSON frame a line from standard input, one a line to standard output.
//!
//! `cargo run --example frames`, then type frames; end with Ctrl-D. The gateway is `ws://127.0.0.1:8090/ws`, or what
//! `TIDEGATE_URL` or the first argument says. A frame is sent when the one before it was answered. `"$id"` in a frame
//! stands for the id of the next EVENT that has not been used for this yet; it is waited for.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// How long an answer, or an event that a line waits for, may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// The most ids that are kept for `$id`; those of later events are forgotten.
const EVENTS_MAX: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).or_else(|| std::env::var("TIDEGATE_URL").ok());
    let url = url.unwrap_or_else(|| "ws://127.0.0.1:8090/ws".to_owned());
    let (socket, _) = connect_async(&url)
        .await
        .map_err(|error| format!("no gateway at {url}: start one with `cargo run --release -- serve` ({error})"))?;
    let mut console = Console {
        socket,
        events: VecDeque::new(),
    };
    let mut lines = lines_of_stdin()?;
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) if line.trim().is_empty() => {}
                Some(line) => console.ask(line).await?,
                None => break,
            },
            frame = console.next() => drop(frame?),
        }
    }
    console.socket.close(None).await?;
    Ok(())
}

/// Standard input has no reads that can be given up, so it is read by a thread of its own.
fn lines_of_stdin() -> Result<mpsc::Receiver<String>, Box<dyn Error>> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::Builder::new().spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

struct Console {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The ids of EVENTs that no line has used.
    events: VecDeque<String>,
}

impl Console {
    /// Sends a line and waits for its answer.
    async fn ask(&mut self, line: String) -> Result<(), Box<dyn Error>> {
        let line = if line.contains("$id") {
            line.replace("$id", &self.next_id().await?)
        } else {
            line
        };
        self.socket.send(Message::text(line)).await?;
        let answer = async {
            // An ERR that names a topic ends a subscription; it is no answer.
            while !matches!(self.next().await?, frame if frame["op"] == "OK" || frame["op"] == "ERR" && frame["topic"].is_null())
            {
            }
            Ok(())
        };
        timeout(DEADLINE, answer).await.map_err(|_| "no answer")?
    }

    async fn next_id(&mut self) -> Result<String, Box<dyn Error>> {
        let wait = async {
            loop {
                if let Some(id) = self.events.pop_front() {
                    return Ok(id);
                }
                self.next().await?;
            }
        };
        timeout(DEADLINE, wait).await.map_err(|_| "no event for $id")?
    }

    /// The next frame, printed. Nothing is lost where this is dropped before it is ready.
    async fn next(&mut self) -> Result<Value, Box<dyn Error>> {
        loop {
            match self.socket.next().await.ok_or("the gateway closed the connection")?? {
                Message::Text(text) => {
                    writeln!(std::io::stdout(), "{text}")?;
                    let frame: Value = serde_json::from_str(&text)?;
                    if let Some(id) = frame["event"]["id"].as_str() {
                        self.events.push_back(id.to_owned());
                        self.events.truncate(EVENTS_MAX);
                    }
                    return Ok(frame);
                }
                Message::Close(Some(frame)) => {
                    return Err(format!("closed by the gateway: {} {}", frame.code, frame.reason).into());
                }
                // Pings are answered by the library.
                _ => {}
            }
        }
    }
}
