//! A subscription in this process: a stream of events that are acked one by one.

use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::handle::Inner;
use super::{Error, Event};
use crate::actors::connection::{LocalHandle, News, Operation};
use crate::actors::messages::Push;
use crate::protocol::{DELAY_MS, REASON};

/// A member of a group, or a subscription of its own, held by a program.
///
/// Dropping it is an `UNSUBSCRIBE`: what it held goes back to the group at once, and does not count as an attempt. It is a
/// [`Stream`] too.
///
/// ```
/// # tidegate::testing::run(async {
/// use tidegate::testing::TestGateway;
/// use tidegate::{Message, Subscribe};
///
/// let gateway = TestGateway::start().await?;
/// let handle = gateway.handle();
/// let mut orders = handle.subscribe::<u32>(Subscribe::group("orders", "billing")).await?;
/// handle.publish("orders", Message::json(&7)).await?;
///
/// let order = orders.next().await.expect("a gateway that runs")?;
/// assert_eq!((order.payload, order.attempt()), (7, 1));
/// order.ack().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Subscription<T> {
    inner: Arc<Inner>,
    local: LocalHandle,
    news: mpsc::UnboundedReceiver<News>,
    /// The end that is still to be told.
    end: Option<Error>,
    ended: bool,
    payload: PhantomData<fn() -> T>,
}

/// An event that was delivered, to be settled by [`Delivery::ack`] or [`Delivery::nack`].
///
/// One that is dropped instead is given back as if it had been nacked. Without a group there is nothing to settle.
#[derive(Debug)]
pub struct Delivery<T> {
    event: Event<T>,
    lease: Lease,
}

/// What a delivery has to settle.
struct Lease {
    inner: Arc<Inner>,
    local: LocalHandle,
    id: Box<str>,
    attempt: u32,
    max_attempts: Option<u32>,
    settled: bool,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attempt {} of {}", self.attempt, self.id)
    }
}

impl<T: DeserializeOwned> Subscription<T> {
    pub(super) fn new(inner: Arc<Inner>, local: LocalHandle, news: mpsc::UnboundedReceiver<News>) -> Subscription<T> {
        Subscription {
            inner,
            local,
            news,
            end: None,
            ended: false,
            payload: PhantomData,
        }
    }

    /// The next event. `None` after the end of the subscription, which was told as an error before.
    ///
    /// [`Error::UnexpectedPayload`] is no end: that event was given back, others follow. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Delivery<T>, Error>> {
        std::future::poll_fn(|cx| self.poll_delivery(cx)).await
    }

    /// At least one event, and as many more as are there, at most `max`.
    pub async fn next_batch(&mut self, max: usize) -> Option<Result<Vec<Delivery<T>>, Error>> {
        let mut batch = match self.next().await? {
            Ok(first) => vec![first],
            Err(error) => return Some(Err(error)),
        };
        while batch.len() < max
            && let Ok(news) = self.news.try_recv()
        {
            match self.take(news) {
                Ok(delivery) => batch.push(delivery),
                Err(Error::UnexpectedPayload { .. }) => {}
                // What is there comes first.
                Err(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        Some(Ok(batch))
    }

    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivery<T>, Error>>> {
        if let Some(end) = self.end.take() {
            return Poll::Ready(Some(Err(end)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.news.poll_recv(cx).map(|news| match news {
            Some(news) => Some(self.take(news)),
            None => {
                self.ended = true;
                Some(Err(Error::Stopped))
            }
        })
    }

    fn take(&mut self, news: News) -> Result<Delivery<T>, Error> {
        match news {
            News::Event(push) => self.deliver(push),
            News::Ended(failure) => {
                self.ended = true;
                Err(failure.into())
            }
        }
    }

    fn deliver(&self, push: Push) -> Result<Delivery<T>, Error> {
        self.local.taken(push.event.json.len());
        let mut lease = Lease {
            inner: self.inner.clone(),
            local: self.local.clone(),
            id: push.event.id.clone(),
            attempt: push.attempt,
            max_attempts: push.lease.map(|lease| lease.max_attempts),
            settled: push.lease.is_none(),
        };
        match Event::read(&push.event) {
            Ok(event) => Ok(Delivery { event, lease }),
            Err(error) => {
                lease.give_back(&error.to_string());
                Err(error)
            }
        }
    }

    /// Asks to get nothing for a while; what is held stays held.
    pub async fn pause(&self) -> Result<(), Error> {
        self.set_paused(true).await
    }

    /// Ends a pause.
    pub async fn resume(&self) -> Result<(), Error> {
        self.set_paused(false).await
    }

    async fn set_paused(&self, paused: bool) -> Result<(), Error> {
        self.inner.check_running()?;
        let replied = self.local.operate(Operation::SetPaused(paused)).await;
        self.inner.outcome(Ok(replied)).map(drop)
    }
}

impl<T: DeserializeOwned> Stream for Subscription<T> {
    type Item = Result<Delivery<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_delivery(cx)
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.local.tell(Operation::Leave);
    }
}

impl<T> Deref for Delivery<T> {
    type Target = Event<T>;

    fn deref(&self) -> &Event<T> {
        &self.event
    }
}

impl<T> Delivery<T> {
    /// How often the group was given it, this time included.
    pub fn attempt(&self) -> u32 {
        self.lease.attempt
    }

    /// After how many it is a dead letter; `None` without a group.
    pub fn max_attempts(&self) -> Option<u32> {
        self.lease.max_attempts
    }

    /// The event is done with. When this is done that is durable: no delivery of it to the group starts after.
    pub async fn ack(mut self) -> Result<(), Error> {
        let ids = vec![self.lease.id.clone()];
        self.lease.settle(Operation::Ack { ids }).await
    }

    /// Gives the event back: it comes again after the group's back-off, or is a dead letter with this reason.
    pub async fn nack(mut self, reason: &str) -> Result<(), Error> {
        let nack = nack(&self.lease.id, reason, None);
        self.lease.settle(nack).await
    }

    /// The same, to come again after this time.
    pub async fn nack_for(mut self, reason: &str, delay: Duration) -> Result<(), Error> {
        let nack = nack(&self.lease.id, reason, Some(delay));
        self.lease.settle(nack).await
    }

    /// Asks for more time, from now.
    pub async fn extend(&self, by: Duration) -> Result<(), Error> {
        self.lease.inner.check_running()?;
        let operation = Operation::Modack {
            id: self.lease.id.clone(),
            extend_ms: u64::try_from(by.as_millis()).unwrap_or(u64::MAX).clamp(1_000, DELAY_MS),
        };
        let replied = self.lease.local.operate(operation).await;
        self.lease.inner.outcome(Ok(replied)).map(drop)
    }
}

impl Lease {
    async fn settle(&mut self, operation: Operation) -> Result<(), Error> {
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        self.inner.check_running()?;
        let replied = self.local.operate(operation).await;
        self.inner.outcome(Ok(replied)).map(drop)
    }

    fn give_back(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.settled, true) {
            self.local.tell(nack(&self.id, reason, None));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back("dropped without an ack");
    }
}

/// A NACK whose reason is as long as it may be.
pub(super) fn nack(id: &str, reason: &str, delay: Option<Duration>) -> Operation {
    let reason = reason.get(..reason.floor_char_boundary(REASON)).unwrap_or_default();
    let delay_ms = |delay: Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).min(DELAY_MS);
    Operation::Nack {
        ids: vec![id.into()],
        reason: Some(reason.into()),
        delay_ms: delay.map(delay_ms),
    }
}
