//! A gateway that runs inside a program.

use std::net::SocketAddr;
use std::ops::Deref;

use super::{Builder, Handle};
use crate::server::Reloader;

/// A gateway that runs inside a program, on threads of its own. It is a [`Handle`] to itself.
///
/// Dropping it stops it, without waiting for its end: [`Handle::stop`] does that. Handles may live longer, and are told
/// that it was stopped.
///
/// ```
/// use tidegate::{Context, Error, Event, Gateway, Message, Subscribe, consumer_fn};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
/// let gateway = Gateway::builder()
///     .in_memory()
///     .consumer(Subscribe::group("greetings", "log"), move || {
///         let told = told.clone();
///         consumer_fn(move |greeting: Event<String>, _: Context| {
///             let told = told.clone();
///             async move { told.send(greeting.payload) }
///         })
///     })
///     .start()
///     .await?;
///
/// gateway.publish("greetings", Message::json("hello")).await?;
/// assert_eq!(heard.recv().await.as_deref(), Some("hello"));
///
/// let handle = gateway.handle();
/// gateway.stop().await?;
/// assert_eq!(handle.publish("greetings", Message::json("anybody?")).await, Err(Error::Stopped));
/// # Ok(())
/// # }
/// ```
#[must_use = "a gateway that is dropped is stopped"]
pub struct Gateway(pub(super) Handle, Listening);

struct Listening {
    address: Option<SocketAddr>,
    replay_address: Option<SocketAddr>,
    reloader: Reloader,
}

impl Gateway {
    pub(super) fn new(
        handle: Handle,
        address: Option<SocketAddr>,
        replay_address: Option<SocketAddr>,
        reloader: Reloader,
    ) -> Gateway {
        let listening = Listening {
            address,
            replay_address,
            reloader,
        };
        Gateway(handle, listening)
    }

    /// A gateway that is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Another way to it, to be handed on.
    pub fn handle(&self) -> Handle {
        self.0.clone()
    }

    /// Where it listens, if it does: the port that was found, where it was to be any.
    pub fn address(&self) -> Option<SocketAddr> {
        self.1.address
    }

    /// Where history alone is served, if it is.
    pub fn replay_address(&self) -> Option<SocketAddr> {
        self.1.replay_address
    }

    /// The way to give it new keys, secrets and certificates.
    pub fn reloader(&self) -> Reloader {
        self.1.reloader.clone()
    }
}

#[cfg(feature = "testing")]
impl Gateway {
    /// What runs ends at once, wherever it is, and everything is told that the gateway was stopped.
    pub(crate) fn kill(&self) {
        let inner = &self.0.0;
        inner.stopped.store(true, std::sync::atomic::Ordering::Release);
        inner.consumers().iter().for_each(|consumer| consumer.abort());
        inner.actors().values().for_each(|entry| entry.supervised.stop());
        inner.stop.send_replace(true);
    }
}

impl Deref for Gateway {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.0
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.0.0.stop.send_replace(true);
    }
}
