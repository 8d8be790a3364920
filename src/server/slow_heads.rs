//! A deadline for the heads of all requests on a connection. actix-http has one for the first only: a client could begin
//! a second request and never end it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

use crate::actors::connection::PeerSocket;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);

/// The connections that speak HTTP.
#[derive(Clone, Default)]
pub(super) struct HeadWatch(Arc<Mutex<Vec<Weak<PeerSocket>>>>);

impl HeadWatch {
    /// A connection was accepted.
    pub(super) fn add(&self, peer: &Arc<PeerSocket>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(peer));
    }

    /// Ends connections on which nothing was under way for so long, again and again, until it is dropped.
    pub(super) async fn watch(self, longest: Duration) {
        loop {
            tokio::time::sleep(LOOK).await;
            let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            peers.retain(|peer| peer.upgrade().is_some_and(|peer| !peer.shut_if_idle(longest)));
        }
    }
}

/// A response's body that notes when it is done: from then on the next head is waited for.
pub(super) struct NotedBody {
    body: BoxBody,
    peer: Option<Arc<PeerSocket>>,
}

impl NotedBody {
    pub(super) fn new(body: BoxBody, peer: Option<Arc<PeerSocket>>) -> NotedBody {
        NotedBody { body, peer }
    }
}

impl MessageBody for NotedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(cx)
    }
}

impl Drop for NotedBody {
    fn drop(&mut self) {
        if let Some(peer) = &self.peer {
            peer.set_busy(false);
        }
    }
}
