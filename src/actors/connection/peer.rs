//! A second hold on a connection's socket, from when it was accepted on: to end it from outside.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A second descriptor of a connection's socket, put aside when the connection was accepted.
#[derive(Debug)]
pub struct PeerSocket(Mutex<Peer>);

#[derive(Debug)]
struct Peer {
    /// None once it is a WebSocket, which looks after itself.
    socket: Option<OwnedFd>,
    /// Since when no request was under way. None while one is, and before the first.
    idle_since: Option<Instant>,
}

impl PeerSocket {
    /// For one connection.
    pub fn new(socket: OwnedFd) -> PeerSocket {
        PeerSocket(Mutex::new(Peer {
            socket: Some(socket),
            idle_since: None,
        }))
    }

    /// A request is under way, or its response is done.
    pub fn set_busy(&self, busy: bool) {
        self.lock().idle_since = (!busy).then(Instant::now);
    }

    /// Ends the connection where no request was under way for so long. True: it is not to be looked at again.
    pub fn shut_if_idle(&self, longest: Duration) -> bool {
        let mut peer = self.lock();
        if peer.idle_since.is_some_and(|since| since.elapsed() > longest)
            && let Some(socket) = peer.socket.take()
        {
            let _ = socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Both);
        }
        peer.socket.is_none()
    }

    /// It becomes a WebSocket.
    pub(super) fn take(&self) -> Option<OwnedFd> {
        self.lock().socket.take()
    }

    fn lock(&self) -> MutexGuard<'_, Peer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
