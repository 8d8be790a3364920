//! The side of an export that writes: pieces as the socket takes them, and an end that cannot be mistaken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::{AbortHandle, AbortRegistration};
use futures_util::stream::{Abortable, poll_fn};
use tokio::sync::mpsc;

use super::produce::Piece;
use crate::actors::connection::{Backlog, Outlet};
use crate::actors::messages::{Answers, Deliver, EndSubscription, FeedLost, GoAway, WantCredit};
use crate::actors::shared::Shared;
use crate::auth::Identity;
use crate::domain::TopicName;

/// An export among the connections: all that they can ask of it is to end.
pub(super) struct Door {
    stop: AbortHandle,
    shared: Arc<Shared>,
    identity: Identity,
}

impl Door {
    pub(super) fn new(stop: AbortHandle, shared: Arc<Shared>, identity: Identity) -> Door {
        Door { stop, shared, identity }
    }
}

impl Outlet for Door {
    fn answers(&self, _: Answers) {}
    fn deliver(&self, _: Deliver) {}
    fn want(&self, _: WantCredit) {}
    fn end(&self, _: EndSubscription) {}
    fn feed_lost(&self, _: FeedLost) {}
    fn over_buffer(&self) {}

    fn check_rights(&self) {
        if !self.shared.auth.vouches_for(&self.identity) {
            self.shared.metrics.connection_cut("revoked");
            self.stop.abort();
        }
    }

    fn go_away(&self, _: GoAway) {
        self.stop.abort();
    }

    fn is_open(&self) -> bool {
        !self.stop.is_aborted()
    }
}

/// An export that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the export broke off: {0}")]
pub(super) struct Broken(String);

type Pieces = Pin<Box<dyn Stream<Item = Piece>>>;

/// The content of an export's response.
pub(super) struct ExportBody {
    pieces: Pieces,
    backlog: Arc<Backlog>,
    topic: TopicName,
    ended: bool,
}

impl ExportBody {
    pub(super) fn new(
        mut pieces: mpsc::Receiver<Piece>,
        stopped: AbortRegistration,
        backlog: Arc<Backlog>,
        topic: TopicName,
    ) -> ExportBody {
        let pieces = poll_fn(move |cx| pieces.poll_recv(cx));
        ExportBody {
            pieces: Box::pin(Abortable::new(pieces, stopped)),
            backlog,
            topic,
            ended: false,
        }
    }

    /// Breaks the connection in a way that no client takes for the end, not even one without chunks.
    fn break_off(&mut self, why: String) -> Broken {
        tracing::warn!(topic = %self.topic, why, "an export broke off");
        self.ended = true;
        self.backlog.shut();
        Broken(why)
    }
}

impl Stream for ExportBody {
    type Item = Result<Bytes, Broken>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        if body.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(piece) = body.pieces.as_mut().poll_next(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match piece {
            Some(Piece::Content(content)) => {
                // Counted until it is with the socket: many exports at once are bounded together.
                if body.backlog.room().take(content.len()) {
                    body.backlog.encoded(0, 0, content.len());
                }
                Some(Ok(content))
            }
            Some(Piece::End) => {
                body.ended = true;
                None
            }
            Some(Piece::Broken(failure)) => Some(Err(body.break_off(failure.msg.into_owned()))),
            None => Some(Err(body.break_off("the gateway ended it".to_owned()))),
        })
    }
}
