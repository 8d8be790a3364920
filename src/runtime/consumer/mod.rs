//! Consumers: handlers of events that run in this process, supervised.

mod blocking;
mod context;
mod exactly_once;
mod run;
mod source;

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

pub use self::blocking::{Blocking, BlockingConsumer, BlockingError};
pub use self::context::Context;
pub use self::exactly_once::{ExactlyOnce, ExactlyOnceError};
pub(super) use self::run::{ConsumerRun, State};
use super::Event;

/// Handles the events of a group, one at a time for each instance.
///
/// `Ok` acks the event. `Err` gives it back with the error's text as the reason: it comes again after the group's back-off,
/// and after `max_attempts` it is a dead letter in `dlq.<topic>`. A payload that is no [`Consumer::Payload`] is a failure of
/// that event alone. A panic is caught: the event counts as failed, and the instance is made anew.
///
/// Events come at least once: what must not happen twice goes into an [`ExactlyOnce`].
///
/// ```
/// use tidegate::{Consumer, Context, Event};
///
/// #[derive(serde::Deserialize)]
/// struct Order { amount: u32 }
///
/// #[derive(Default)]
/// struct Billing { total: u32 }
///
/// impl Consumer for Billing {
///     type Payload = Order;
///     type Error = String;
///
///     async fn handle(&mut self, order: Event<Order>, ctx: &Context) -> Result<(), String> {
///         let total = self.total.checked_add(order.payload.amount);
///         self.total = total.ok_or_else(|| format!("attempt {}: too much", ctx.attempt()))?;
///         Ok(())
///     }
/// }
/// ```
pub trait Consumer: Send + 'static {
    /// What the events' payloads are; `Box<RawValue>` takes any.
    type Payload: DeserializeOwned + Send;
    /// Why an event could not be handled. Its text is the reason that is kept.
    type Error: Display + Send;

    /// Handles one event. It is dropped where it takes longer than the consumer's `timeout`.
    fn handle(
        &mut self,
        event: Event<Self::Payload>,
        ctx: &Context,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Called once for a new instance, before its first event: a place to connect to something. An error counts as a
    /// crash: another instance is made after the back-off.
    fn started(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        std::future::ready(Ok(()))
    }
}

/// A consumer made of a function, for handlers without a state of their own.
///
/// ```
/// use tidegate::{Context, Event, Gateway, Subscribe, consumer_fn};
///
/// let builder = Gateway::builder().in_memory().consumer(Subscribe::group("orders", "log"), || {
///     consumer_fn(async |order: Event<u32>, _: Context| {
///         println!("{}: {}", order.seq, order.payload);
///         Ok::<(), String>(())
///     })
/// });
/// # let _ = builder;
/// ```
pub fn consumer_fn<T, E, F, Fut>(handle: F) -> FnConsumer<T, F>
where
    F: FnMut(Event<T>, Context) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    T: DeserializeOwned + Send + 'static,
    E: Display + Send,
{
    FnConsumer {
        handle,
        payload: PhantomData,
    }
}

/// See [`consumer_fn`].
pub struct FnConsumer<T, F> {
    handle: F,
    payload: PhantomData<fn() -> T>,
}

impl<T, E, F, Fut> Consumer for FnConsumer<T, F>
where
    F: FnMut(Event<T>, Context) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    T: DeserializeOwned + Send + 'static,
    E: Display + Send,
{
    type Payload = T;
    type Error = E;

    fn handle(&mut self, event: Event<T>, ctx: &Context) -> impl Future<Output = Result<(), E>> + Send {
        (self.handle)(event, ctx.clone())
    }
}
