//! A WebSocket connection without a socket: the gateway's own connection actor, fed with a client's bytes and asked for
//! what it would write. So everything that the gateway does for an event is done, and nothing of the kernel's work.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use actix_http::BoxedPayloadStream;
use actix_http::ws::{Codec, Frame, Message};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::test::TestRequest;
use actix_web::{FromRequest, web};
use bytes::{Bytes, BytesMut};
use tidegate::actors::connection::upgrade;
use tokio::sync::mpsc;
use tokio_util::codec::{Decoder, Encoder};

use super::{InProcess, Result};

/// Nothing takes longer; what does has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A client's side of a connection.
pub struct Pipe {
    frames_in: mpsc::UnboundedSender<std::result::Result<Bytes, PayloadError>>,
    body: BoxBody,
    codec: Codec,
    received: BytesMut,
}

impl InProcess {
    /// Opens a connection.
    pub async fn connect(&self) -> Result<Pipe> {
        let (frames_in, bytes) = mpsc::unbounded_channel();
        let stream = futures_util::stream::unfold(bytes, |mut bytes| async { Some((bytes.recv().await?, bytes)) });
        let request = TestRequest::get()
            .insert_header(("upgrade", "websocket"))
            .insert_header(("connection", "upgrade"))
            .insert_header(("sec-websocket-version", "13"))
            .insert_header(("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw=="))
            .to_http_request();
        let stream: BoxedPayloadStream = Box::pin(stream);
        let mut payload = Payload::Stream { payload: stream };
        let payload = web::Payload::from_request(&request, &mut payload).await?;
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let response = upgrade(&request, payload, self.shared.clone(), client).map_err(|error| error.to_string())?;
        Ok(Pipe {
            frames_in,
            body: response.into_body(),
            codec: Codec::new().client_mode().max_size(16 << 20),
            received: BytesMut::new(),
        })
    }
}

impl Pipe {
    /// Sends frames together, as they come out of a socket's buffer.
    pub fn send(&mut self, frames: impl IntoIterator<Item = String>) -> Result<()> {
        let mut bytes = BytesMut::new();
        for frame in frames {
            self.codec.encode(Message::Text(frame.into()), &mut bytes)?;
        }
        let sent = self.frames_in.send(Ok(bytes.freeze()));
        sent.map_err(|_| "the connection has ended".into())
    }

    /// The next text frame.
    pub async fn next(&mut self) -> Result<Bytes> {
        loop {
            match self.codec.decode(&mut self.received)? {
                Some(Frame::Text(text)) => return Ok(text),
                Some(Frame::Ping(_)) => {}
                Some(other) => return Err(format!("{other:?} instead of text").into()),
                None => {
                    let next = std::future::poll_fn(|cx| std::pin::Pin::new(&mut self.body).poll_next(cx));
                    let bytes = tokio::time::timeout(DEADLINE, next).await?;
                    let bytes = bytes.ok_or("the connection has ended")?;
                    self.received
                        .extend_from_slice(&bytes.map_err(|error| error.to_string())?);
                }
            }
        }
    }

    /// The next text frames, all of which must be `OK`.
    pub async fn oks(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let frame = self.next().await?;
            if !frame.starts_with(b"{\"op\":\"OK\"") {
                return Err(format!("{} instead of OK", String::from_utf8_lossy(&frame)).into());
            }
        }
        Ok(())
    }
}
