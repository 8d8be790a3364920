//! What was handled, and what is being handled.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Error;
use super::error::bad_request;
use super::handle::Inner;
use crate::actors::store::store_unavailable;
use crate::domain::{GroupName, TopicName};
use crate::protocol::{ErrorCode, Failure};
use crate::store::{EventClaim, Refused, StoreError, Write, Written};

/// How long it is known that an event was handled.
pub(super) const MARK_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// An event of a group: what is marked and claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marked {
    /// The event's topic.
    pub topic: String,
    /// Whose consumer.
    pub group: String,
    /// The event's id.
    pub id: String,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The event is the caller's to handle, until the claim is over.
    Granted,
    /// It was handled.
    Seen,
    /// Somebody else is handling it.
    Held {
        /// How long their claim still lasts.
        left: Duration,
    },
}

/// Where it is kept what was handled and what is being handled. [`Handle::dedupe`](super::Handle::dedupe) is the gateway's
/// own store; another one can be given to [`ExactlyOnce::with_store`](crate::ExactlyOnce::with_store).
pub trait DedupeStore: Send + Sync + 'static {
    /// Whether the event was handled, by a mark that is not over.
    fn seen(&self, event: Marked) -> BoxFuture<'_, Result<bool, Error>>;

    /// The event was handled: known from now on, for this long. Ends any claim on it.
    fn mark(&self, event: Marked, ttl: Duration) -> BoxFuture<'_, Result<(), Error>>;

    /// Asks for the right to handle the event, for this long. Granted where it is neither marked nor claimed by another
    /// owner; asking and granting are one step. The owner may ask again.
    fn claim(&self, event: Marked, owner: String, ttl: Duration) -> BoxFuture<'_, Result<Claim, Error>>;

    /// Ends a claim, if it is the owner's.
    fn release(&self, event: Marked, owner: String) -> BoxFuture<'_, Result<(), Error>>;
}

/// In the gateway's own store.
pub(super) struct GatewayDedupe(pub Arc<Inner>);

type Place = (TopicName, GroupName, Box<str>);

impl GatewayDedupe {
    fn place(&self, event: &Marked) -> Result<Place, Error> {
        self.0.check_running()?;
        let topic = event
            .topic
            .parse()
            .map_err(|why| bad_request(format!("topic: {why}")))?;
        let group = event
            .group
            .parse()
            .map_err(|why| bad_request(format!("group: {why}")))?;
        Ok((topic, group, event.id.as_str().into()))
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        match self.0.shared.perform(write).await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(refused)) => Err(refusal(&refused).into()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &StoreError) -> Error {
        self.0
            .check_running()
            .err()
            .unwrap_or_else(|| store_unavailable(error).into())
    }
}

fn refusal(refused: &Refused) -> Failure {
    let code = match refused {
        Refused::TooLarge { .. } => ErrorCode::TooLarge,
        Refused::NoSuchGroup(_) => ErrorCode::NotSubscribed,
        _ => ErrorCode::Conflict,
    };
    Failure::new(code, refused.to_string())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl DedupeStore for GatewayDedupe {
    fn seen(&self, event: Marked) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let (topic, group, id) = self.place(&event)?;
            let now_ms = self.0.shared.clock.now_ms();
            let seen = self.0.shared.store.seen(&topic, &group, &id, now_ms).await;
            seen.map_err(|error| self.failed(&error))
        })
    }

    fn mark(&self, event: Marked, ttl: Duration) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (topic, group, id) = self.place(&event)?;
            let until_ms = self.0.shared.clock.now_ms().saturating_add(millis(ttl));
            let mark = Write::MarkSeen {
                topic,
                group,
                id,
                until_ms,
            };
            self.write(mark).await.map(drop)
        })
    }

    fn claim(&self, event: Marked, owner: String, ttl: Duration) -> BoxFuture<'_, Result<Claim, Error>> {
        Box::pin(async move {
            let (topic, group, id) = self.place(&event)?;
            let claim = Write::ClaimEvent {
                topic,
                group,
                id,
                owner: owner.into(),
                ttl_ms: millis(ttl),
            };
            match self.write(claim).await? {
                Written::Claim(EventClaim::Granted) => Ok(Claim::Granted),
                Written::Claim(EventClaim::Seen) => Ok(Claim::Seen),
                Written::Claim(EventClaim::Held { left_ms }) => Ok(Claim::Held {
                    left: Duration::from_millis(left_ms),
                }),
                other => Err(Error::Failed(format!("a claim was answered {other:?}"))),
            }
        })
    }

    fn release(&self, event: Marked, owner: String) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (topic, group, id) = self.place(&event)?;
            let release = Write::ReleaseEvent {
                topic,
                group,
                id,
                owner: owner.into(),
            };
            self.write(release).await.map(drop)
        })
    }
}
