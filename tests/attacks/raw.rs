//! A WebSocket client without manners: it sends whatever bytes it is told to.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::DEADLINE;

/// A socket after its upgrade.
pub struct Raw {
    pub socket: TcpStream,
}

/// A client's frame with a mask of zeros.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, payload.len() as u64);
    frame.extend_from_slice(payload);
    frame
}

/// A frame's head that declares so many bytes.
pub fn head(first: u8, length: u64) -> Vec<u8> {
    let mut head = vec![first];
    if length <= 125 {
        head.push(0x80 | u8::try_from(length).unwrap());
    } else if length <= 0xffff {
        head.push(0x80 | 126);
        head.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    } else {
        head.push(0x80 | 127);
        head.extend_from_slice(&length.to_be_bytes());
    }
    head.extend_from_slice(&[0; 4]);
    head
}

pub fn text(text: &str) -> Vec<u8> {
    frame(0x81, text.as_bytes())
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw::with_receive_buffer(address, None).await
    }

    /// With a small buffer a client that does not read is noticed sooner.
    pub async fn with_receive_buffer(address: SocketAddr, bytes: Option<u32>) -> Raw {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let mut socket = socket.connect(address).await.expect("a gateway that listens");
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            let byte = timeout(DEADLINE, socket.read_u8()).await.unwrap().expect("a response");
            response.push(byte);
        }
        let response = String::from_utf8(response).unwrap().to_ascii_lowercase();
        assert!(response.starts_with("http/1.1 101"), "{response}");
        assert!(
            !response.contains("deflate"),
            "compression was not to be offered: {response}"
        );
        Raw { socket }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes).await;
    }

    /// The next frame's first byte and payload; None at the end of the connection, however it came.
    pub async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let next = async {
            let first = self.socket.read_u8().await?;
            let length = match self.socket.read_u8().await? {
                126 => u64::from(self.socket.read_u16().await?),
                127 => self.socket.read_u64().await?,
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.socket.read_exact(&mut payload).await?;
            Ok::<_, std::io::Error>((first, payload))
        };
        timeout(DEADLINE, next).await.expect("a frame or the end in time").ok()
    }

    /// Reads on to the end; the code of the close frame, 1005 where it had none, 1006 where there was no such frame.
    pub async fn close_code(&mut self) -> u16 {
        while let Some((first, payload)) = self.next().await {
            if first == 0x88 {
                return payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
            }
        }
        1006
    }
}
