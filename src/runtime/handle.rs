//! The way from a program to the gateway inside it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::ArbiterHandle;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::Error;
use super::actor::{ActorRef, SupervisedActor};
use super::consumer::ConsumerRun;
use super::dedupe::{DedupeStore, GatewayDedupe};
use super::health::Health;
use super::message::{Message, Published, check};
use super::options::Subscribe;
use super::subscription::Subscription;
use crate::actors::connection::LocalActor;
use crate::actors::messages::{Publish, PublishRequest};
use crate::actors::reply::{Outcome, Replied, Reply};
use crate::actors::shared::Shared;
use crate::auth::{Action, Identity};
use crate::protocol::{Answer, ErrorCode};

/// The way to a gateway in this process. Cloning it is cheap, and it may be used from any thread and any async runtime.
///
/// After the gateway was stopped everything is [`Error::Stopped`]; nothing waits for ever.
#[derive(Clone)]
pub struct Handle(pub(super) Arc<Inner>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("stopped", &self.is_stopped()).finish()
    }
}

/// How a gateway ended: not yet, well, or with an error.
pub(super) type Ended = Option<Result<(), String>>;

/// What all handles of one gateway share.
pub(super) struct Inner {
    pub shared: Arc<Shared>,
    /// Where subscriptions of this process run.
    pub arbiter: ArbiterHandle,
    /// Set once everything is [`Error::Stopped`].
    pub stopped: AtomicBool,
    pub stop: watch::Sender<bool>,
    pub ended: watch::Sender<Ended>,
    pub consumers: Mutex<Vec<Arc<ConsumerRun>>>,
    pub actors: Mutex<HashMap<String, ActorEntry>>,
    /// Every event is handed to consumers twice; for tests.
    pub twice: bool,
}

/// A custom actor: as its supervisor knows it, and with its type.
pub(super) struct ActorEntry {
    pub supervised: Arc<dyn SupervisedActor>,
    pub typed: Box<dyn Any + Send>,
}

impl Inner {
    pub fn check_running(&self) -> Result<(), Error> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// What a request came to; where the gateway ended meanwhile, that is why.
    pub fn outcome(&self, replied: Result<Replied, tokio::sync::oneshot::error::RecvError>) -> Result<Outcome, Error> {
        match replied {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) | Err(_) if self.stopped.load(Ordering::Acquire) => Err(Error::Stopped),
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(Error::Stopped),
        }
    }

    pub fn consumers(&self) -> MutexGuard<'_, Vec<Arc<ConsumerRun>>> {
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn actors(&self) -> MutexGuard<'_, HashMap<String, ActorEntry>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// What its actors have in common: the way to them inside of this process, for the benchmarks.
    #[doc(hidden)]
    pub fn shared(&self) -> Arc<Shared> {
        self.0.shared.clone()
    }

    /// Publishes an event. When this is done the event is as durable as its topic asks for.
    pub async fn publish(&self, topic: &str, message: Message) -> Result<Published, Error> {
        let published = self.publish_all(topic, vec![message]).await?;
        published.into_iter().next().ok_or(Error::Stopped)
    }

    /// Publishes several events, all or none, in their order: 1 to 1,000, and not more than the topic's limit takes at once.
    pub async fn publish_batch(
        &self,
        topic: &str,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Vec<Published>, Error> {
        self.publish_all(topic, messages.into_iter().collect()).await
    }

    async fn publish_all(&self, topic: &str, messages: Vec<Message>) -> Result<Vec<Published>, Error> {
        let shared = &self.0.shared;
        self.0.check_running()?;
        let (topic, drafts) = check(topic, &messages, shared.config.limits.frame_bytes)?;
        Identity::full().check(Action::Publish, &topic, None)?;
        let bytes = drafts.iter().map(crate::protocol::Draft::size).sum();
        let (reply, answer) = Reply::to_caller(ErrorCode::PublishFailed);
        let batch = true;
        let request = PublishRequest { drafts, batch, reply };
        shared
            .topics
            .offer(&topic, shared, Publish(vec![request]), bytes)
            .map_err(|(failure, _)| failure)?;
        match self.0.outcome(answer.await)? {
            Outcome::Answer(Answer::PublishedBatch { ids, seqs }) => {
                let published = |(id, seq): (Box<str>, u64)| Published { id: id.into(), seq };
                Ok(ids.into_iter().zip(seqs).map(published).collect())
            }
            other => Err(Error::Failed(format!("a publish was answered {other:?}"))),
        }
    }

    /// Subscribes. The events are to be acked one by one; see [`Subscription`].
    pub async fn subscribe<T: DeserializeOwned>(&self, subscribe: Subscribe) -> Result<Subscription<T>, Error> {
        self.0.check_running()?;
        let (key, opts) = subscribe.check()?;
        let local = LocalActor::start_on(&self.0.arbiter, self.0.shared.clone(), key, opts);
        match local.joined.await {
            Ok(Ok(())) => Ok(Subscription::new(self.0.clone(), local.handle, local.news)),
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// The custom actor of this name, registered with [`Builder::actor`](crate::Builder::actor).
    pub fn actor<A: actix::Actor>(&self, name: &str) -> Result<ActorRef<A>, Error> {
        let actors = self.0.actors();
        let found = actors
            .get(name)
            .and_then(|entry| entry.typed.downcast_ref::<ActorRef<A>>());
        found.cloned().ok_or_else(|| Error::NoSuchActor(name.to_owned()))
    }

    /// Marks of what consumers have handled, in the gateway's own store: what [`ExactlyOnce`](crate::ExactlyOnce) uses.
    pub fn dedupe(&self) -> Arc<dyn DedupeStore> {
        Arc::new(GatewayDedupe(self.0.clone()))
    }

    /// How the gateway's store, consumers and actors are.
    pub async fn health(&self) -> Health {
        Health::of(&self.0).await
    }

    /// Whether the gateway was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Stops the gateway and waits for its end: handlers finish the event that they have, what was answered is durable,
    /// leases go back. All of it within `gateway.shutdown_grace`. Calling it again does nothing more.
    pub async fn stop(&self) -> Result<(), Error> {
        self.0.stop.send_replace(true);
        self.ended().await
    }

    /// Waits for the gateway's end, whatever brings it.
    pub async fn ended(&self) -> Result<(), Error> {
        let mut ended = self.0.ended.subscribe();
        // It cannot be closed: this handle has the sender.
        let how = ended
            .wait_for(Option::is_some)
            .await
            .map(|how| how.clone())
            .unwrap_or(None);
        match how {
            Some(Err(why)) => Err(Error::Failed(why)),
            _ => Ok(()),
        }
    }
}
