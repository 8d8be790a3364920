//! Handlers that block, on threads of their own.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

use super::{Consumer, Context, Event};

/// A [`Consumer`] whose handler blocks: files, a database without an async driver, work that takes the processor. Register
/// it inside a [`Blocking`].
pub trait BlockingConsumer: Send + 'static {
    /// See [`Consumer::Payload`].
    type Payload: DeserializeOwned + Send + 'static;
    /// See [`Consumer::Error`].
    type Error: Display + Send + 'static;

    /// Handles one event, on a thread where it may block. It cannot be stopped from outside: one that takes longer than the
    /// consumer's `timeout` goes on in the background, while the event counts as failed.
    fn handle(&mut self, event: Event<Self::Payload>, ctx: &Context) -> Result<(), Self::Error>;
}

/// Runs a [`BlockingConsumer`] on threads of its own (tokio's pool for what blocks), so that nobody waits for it but its own
/// events.
///
/// ```
/// use tidegate::{Blocking, BlockingConsumer, Context, Event, Gateway, Subscribe};
///
/// struct Archive;
///
/// impl BlockingConsumer for Archive {
///     type Payload = serde_json::Value;
///     type Error = std::io::Error;
///
///     fn handle(&mut self, event: Event<serde_json::Value>, _: &Context) -> std::io::Result<()> {
///         std::fs::write(format!("archive/{}.json", event.id), event.payload.to_string())
///     }
/// }
///
/// let builder = Gateway::builder().consumer(Subscribe::group("orders", "archive"), || Blocking::new(Archive));
/// # let _ = builder;
/// ```
pub struct Blocking<C>(Option<C>);

impl<C: BlockingConsumer> Blocking<C> {
    /// Around a consumer.
    pub fn new(consumer: C) -> Blocking<C> {
        Blocking(Some(consumer))
    }
}

impl<C: BlockingConsumer> Consumer for Blocking<C> {
    type Payload = C::Payload;
    type Error = BlockingError<C::Error>;

    async fn handle(&mut self, event: Event<C::Payload>, ctx: &Context) -> Result<(), BlockingError<C::Error>> {
        let mut consumer = self.0.take().ok_or(BlockingError::Busy)?;
        let ctx = ctx.clone();
        let work = spawn_blocking(move || {
            let result = consumer.handle(event, &ctx);
            (consumer, result)
        });
        match work.await {
            Ok((consumer, result)) => {
                self.0 = Some(consumer);
                result.map_err(BlockingError::Handler)
            }
            // What panicked there panics here, where it is caught.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(BlockingError::Busy),
            },
        }
    }
}

/// Why a [`Blocking`] consumer failed.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError<E> {
    /// The handler said so.
    #[error("{0}")]
    Handler(E),
    /// The instance is still at work on an event that took too long.
    #[error("the instance is still at work on another event")]
    Busy,
}
