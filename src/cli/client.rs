//! A client's connection: requests and their answers, one WebSocket. It keeps reading while it waits for anything else,
//! so that the gateway's pings are answered.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

use super::args::ClientArgs;
use super::failure::Failure;
use super::frames::{Done, Incoming, Refusal, Request, parse};
use crate::tls::client_config;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: longer than any deadline that the gateway gives itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the gateway may be silent; it pings every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long the closing of a connection may take: nothing hangs on it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait before a request is sent again where the gateway does not say.
const RETRY_DEFAULT: Duration = Duration::from_millis(100);
/// The shortest wait before a request is sent again, whatever the gateway says.
const RETRY_MIN: Duration = Duration::from_millis(10);
/// The longest wait before a request is sent again, whatever the gateway says.
const RETRY_MAX: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// One authenticated connection.
pub(super) struct Client {
    socket: Socket,
    last_corr: u64,
}

impl Client {
    /// Connects and authenticates.
    pub async fn connect(args: &ClientArgs) -> Result<Client, Failure> {
        let url = args.url()?;
        let connector = match url.starts_with("wss:") {
            true => Connector::Rustls(client_config(args.cacert.as_deref()).map_err(Failure::Usage)?),
            false => Connector::Plain,
        };
        let connect = connect_async_tls_with_config(&url, None, true, Some(connector));
        let socket = match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(error)) => return Err(connect_failure(&url, &error)),
            Err(_) => return Err(Failure::Failed(format!("{url} does not answer"))),
        };
        let mut client = Client { socket, last_corr: 0 };
        let token = args.token.as_ref().map(|token| token.reveal());
        match client.request(&Request::Auth { token }).await? {
            Ok(_) => Ok(client),
            Err(refusal) => Err(auth_failure(refusal, token.is_some())),
        }
    }

    /// Sends a request and does not wait for the answer, which repeats the number.
    pub async fn send(&mut self, request: &Request<'_>) -> Result<u64, Failure> {
        self.last_corr += 1;
        let text = request
            .to_text(self.last_corr)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        within_time(self.socket.send(Message::text(text))).await?;
        Ok(self.last_corr)
    }

    /// Sends a request and waits for its answer. Events that come before it are dropped.
    pub async fn request(&mut self, request: &Request<'_>) -> Result<Result<Done, Refusal>, Failure> {
        let sent = self.send(request).await?;
        let answer = async {
            loop {
                match self.next().await? {
                    Incoming::Answer { corr, result } if corr == Some(sent) => return Ok(result),
                    Incoming::Answer {
                        corr: None,
                        result: Err(refusal),
                    } => return Err(refusal.into()),
                    _ => {}
                }
            }
        };
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Failed(format!(
                "no answer within {} s",
                ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    /// The next frame. Nothing is lost where this is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Incoming, Failure> {
        let text = next_text(&mut self.socket).await?;
        parse(&text).map_err(|error| no_frame(&error))
    }

    /// The connection in two, for who sends and reads at the same time.
    pub fn split(self) -> (Outgoing, FramesIn) {
        let (sink, stream) = self.socket.split();
        (Outgoing(sink), FramesIn(stream))
    }

    /// Waits for something that is not the gateway's, and keeps the connection alive meanwhile.
    pub async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                incoming = self.next() => {
                    if let Incoming::Answer { corr: None, result: Err(refusal) } = incoming? {
                        return Err(refusal.into());
                    }
                }
            }
        }
    }

    /// Ends the connection. Whatever is wrong with it by now is nobody's concern.
    pub async fn close(mut self) {
        let _ = timeout(CLOSE_TIMEOUT, self.socket.close(None)).await;
    }
}

/// The half of a connection that writes. Frames that are fed are sent together, at the latest with the flush.
pub(super) struct Outgoing(SplitSink<Socket, Message>);

impl Outgoing {
    /// Adds a frame to what is to be sent.
    pub async fn feed(&mut self, frame: String) -> Result<(), Failure> {
        within_time(self.0.feed(Message::text(frame))).await
    }

    /// Sends what was fed.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        within_time(self.0.flush()).await
    }

    /// Ends the connection. Whatever is wrong with it by now is nobody's concern.
    pub async fn close(mut self) {
        let _ = timeout(CLOSE_TIMEOUT, self.0.close()).await;
    }
}

/// The half of a connection that reads.
pub(super) struct FramesIn(SplitStream<Socket>);

impl FramesIn {
    /// The next frame's text.
    pub async fn next(&mut self) -> Result<Utf8Bytes, Failure> {
        next_text(&mut self.0).await
    }
}

async fn within_time(sending: impl Future<Output = Result<(), Error>>) -> Result<(), Failure> {
    match timeout(ANSWER_TIMEOUT, sending).await {
        Ok(sent) => sent.map_err(|error| lost(&error.to_string())),
        Err(_) => Err(lost("the gateway takes nothing")),
    }
}

/// The next text. Nothing is lost where this is dropped before it is ready.
async fn next_text(
    messages: &mut (impl futures_util::Stream<Item = Result<Message, Error>> + Unpin),
) -> Result<Utf8Bytes, Failure> {
    loop {
        let Ok(message) = timeout(SILENCE_MAX, messages.next()).await else {
            return Err(lost("the gateway is silent"));
        };
        match message {
            Some(Ok(Message::Text(text))) => return Ok(text),
            Some(Ok(Message::Close(Some(frame)))) => {
                let (code, reason) = (u16::from(frame.code), frame.reason);
                return Err(lost(format!("closed by the gateway with {code} {reason}").trim_end()));
            }
            Some(Ok(Message::Close(None))) | None => return Err(lost("closed by the gateway")),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(lost(&error.to_string())),
        }
    }
}

/// What is said of a text that no gateway sends.
pub(super) fn no_frame(error: &serde_json::Error) -> Failure {
    Failure::Failed(format!("no frame of a gateway: {error}"))
}

/// How long to wait before the same request is sent again.
pub(super) fn retry_wait(refusal: &Refusal) -> Duration {
    let wait = refusal.retry_after_ms.map_or(RETRY_DEFAULT, Duration::from_millis);
    wait.clamp(RETRY_MIN, RETRY_MAX)
}

fn lost(reason: &str) -> Failure {
    Failure::Failed(format!("the connection is lost: {reason}"))
}

fn connect_failure(url: &str, error: &Error) -> Failure {
    match error {
        Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            Failure::Failed(format!("{url} is not to be trusted: {error} (see --cacert)"))
        }
        Error::Io(error) => Failure::Failed(format!(
            "no gateway at {url}: start one with `tidegate serve`, or give --url ({error})"
        )),
        Error::Http(response) => Failure::Failed(format!(
            "{url} does not take WebSockets from here: HTTP {}",
            response.status()
        )),
        Error::Url(error) => Failure::Usage(format!("--url: {error}")),
        other => Failure::Failed(format!("{url} is no gateway: {other}")),
    }
}

fn auth_failure(refusal: Refusal, token_given: bool) -> Failure {
    let is_about_token = matches!(refusal.code.as_str(), "unauthorized" | "bad_token" | "jwt_invalid");
    match (is_about_token, token_given) {
        (true, false) => Failure::Failed(format!("{refusal} (give --token or set TIDEGATE_TOKEN)")),
        (true, true) => Failure::Failed(format!("{refusal} (see --token and TIDEGATE_TOKEN)")),
        (false, _) => refusal.into(),
    }
}
