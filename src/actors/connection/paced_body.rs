//! What an actor writes, handed to the socket in small pieces. So the socket's own buffer stays small, and every piece
//! that it takes is seen as progress: a client that reads slowly can be told from one that does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use prometheus_client::metrics::gauge::Gauge;

use super::Backlog;
use crate::actors::shared::Shared;

/// The most bytes that the socket's buffer is given at once.
const PIECE: usize = 16 << 10;

/// What one connection is sent as the body of its response. As long as there is one, the connection has its place.
pub struct PacedBody<S> {
    frames: Pin<Box<S>>,
    rest: Bytes,
    number: u64,
    backlog: Arc<Backlog>,
    shared: Arc<Shared>,
    /// Counts connections of this kind.
    open: Gauge,
}

impl<S> PacedBody<S> {
    pub(super) fn new(
        frames: S,
        number: u64,
        backlog: Arc<Backlog>,
        shared: Arc<Shared>,
        open: &Gauge,
    ) -> PacedBody<S> {
        PacedBody {
            frames: Box::pin(frames),
            rest: Bytes::new(),
            number,
            backlog,
            shared,
            open: open.clone(),
        }
    }
}

impl<S, E> Stream for PacedBody<S>
where
    S: Stream<Item = Result<Bytes, E>>,
{
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        // To be asked means that the socket's buffer has room.
        body.backlog.progress(body.shared.clock.now_ms(), false);
        if body.rest.is_empty() {
            body.backlog.written();
            match body.frames.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => body.rest = bytes,
                other => return other,
            }
        }
        let piece = body.rest.split_to(body.rest.len().min(PIECE));
        body.backlog.progress(body.shared.clock.now_ms(), true);
        Poll::Ready(Some(Ok(piece)))
    }
}

impl<S> Drop for PacedBody<S> {
    fn drop(&mut self) {
        drop(self.backlog.take_socket());
        if self.shared.connections.remove(self.number) {
            self.open.dec();
        }
    }
}
