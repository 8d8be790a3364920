//! Handled once: around a consumer, with marks and claims.

use std::sync::Arc;
use std::time::Duration;

use super::super::Error;
use super::super::dedupe::{Claim, DedupeStore, MARK_TTL, Marked};
use super::{Consumer, Context, Event};

/// How much longer than the handler may take a claim lasts.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);
/// How often an event that somebody else is handling is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often a mark that failed is tried.
const MARKS_TRIED: u32 = 3;

/// A consumer that handles no event again that it has handled: claim, handle, mark, ack.
///
/// | what happens | what becomes of the event |
/// |---|---|
/// | the handler succeeds | it is marked as handled, for 7 days, and acked |
/// | it was handled before (its ack was lost, or the process died before it) | it is acked, the handler is not called |
/// | the handler fails or panics | it is not marked, and comes again |
/// | another instance is handling it | it is put off until that one is done; that is no failed attempt |
/// | the process dies before the handler was done | it comes again, and is handled |
/// | the process dies after the handler, before the mark | it comes again, and is handled **again** |
///
/// The last line is why nothing outside can be exactly once by this alone. A handler whose effect is a transaction makes it
/// so: write the event's id with the effect, and do nothing where it is there. Everybody else has at-least-once with few
/// repetitions.
///
/// **What an expired claim means.** A claim keeps two instances from handling one event at the same time, for as long as
/// a handler may take (the consumer's `timeout`, and 5 s). A handler is dropped at its timeout, so its claim outlasts it. Only one
/// that cannot be dropped, because it [blocks](super::Blocking), can go on after its claim is over: then another instance may
/// handle the event meanwhile, and both have their effect. Give such a consumer a `timeout` that it never meets.
///
/// ```
/// use tidegate::{Context, Event, ExactlyOnce, Gateway, Subscribe, consumer_fn};
///
/// let builder = Gateway::builder().in_memory().consumer(Subscribe::group("payments", "ledger"), || {
///     ExactlyOnce::new(consumer_fn(async |payment: Event<u32>, _: Context| {
///         println!("charged {}", payment.payload);
///         Ok::<(), String>(())
///     }))
/// });
/// # let _ = builder;
/// ```
pub struct ExactlyOnce<C> {
    consumer: C,
    /// Tells this instance's claims from those of others.
    owner: String,
    mark_ttl: Duration,
    claim_ttl: Option<Duration>,
    /// None: the gateway's own.
    store: Option<Arc<dyn DedupeStore>>,
}

/// Why an [`ExactlyOnce`] consumer failed.
#[derive(Debug, thiserror::Error)]
pub enum ExactlyOnceError<E> {
    /// The handler said so: it is not marked.
    #[error("{0}")]
    Handler(E),
    /// Whether it was handled could not be found out: the handler was not called.
    #[error("not handled, it could not be claimed: {0}")]
    NotClaimed(Error),
    /// It was handled, and that could not be kept: it will be handled again.
    #[error("handled, but not marked: {0}")]
    NotMarked(Error),
}

impl<C: Consumer> ExactlyOnce<C> {
    /// Around a consumer, with the gateway's own store.
    pub fn new(consumer: C) -> ExactlyOnce<C> {
        ExactlyOnce {
            consumer,
            owner: uuid::Uuid::now_v7().to_string(),
            mark_ttl: MARK_TTL,
            claim_ttl: None,
            store: None,
        }
    }

    /// How long it is known that an event was handled. 7 days by default: an event that comes again later, by a seek, is
    /// handled again.
    pub fn mark_for(mut self, ttl: Duration) -> ExactlyOnce<C> {
        self.mark_ttl = ttl;
        self
    }

    /// How long a claim lasts. The consumer's `timeout` and 5 s by default.
    pub fn claim_for(mut self, ttl: Duration) -> ExactlyOnce<C> {
        self.claim_ttl = Some(ttl);
        self
    }

    /// With marks and claims somewhere else.
    pub fn with_store(mut self, store: Arc<dyn DedupeStore>) -> ExactlyOnce<C> {
        self.store = Some(store);
        self
    }
}

impl<C: Consumer> Consumer for ExactlyOnce<C> {
    type Payload = C::Payload;
    type Error = ExactlyOnceError<C::Error>;

    async fn handle(&mut self, event: Event<C::Payload>, ctx: &Context) -> Result<(), Self::Error> {
        let store = self.store.clone().unwrap_or_else(|| ctx.dedupe());
        let marked = Marked {
            topic: event.topic.clone(),
            group: ctx.group().to_owned(),
            id: event.id.clone(),
        };
        let ttl = self.claim_ttl.unwrap_or(ctx.timeout() + CLAIM_MARGIN);
        let claim = store.claim(marked.clone(), self.owner.clone(), ttl).await;
        match claim.map_err(ExactlyOnceError::NotClaimed)? {
            Claim::Granted => {}
            Claim::Seen => {
                ctx.note_duplicate();
                return Ok(());
            }
            Claim::Held { left } => {
                ctx.postpone(left.min(LOOK_AGAIN));
                return Ok(());
            }
        }
        let mut release = Release(Some((store.clone(), marked.clone(), self.owner.clone())));
        if let Err(error) = self.consumer.handle(event, ctx).await {
            release.now().await;
            return Err(ExactlyOnceError::Handler(error));
        }
        if let Some(by) = ctx.take_postponed() {
            // The handler itself puts it off: it is not done.
            release.now().await;
            ctx.postpone(by);
            return Ok(());
        }
        let marking = mark(store.as_ref(), &marked, self.mark_ttl).await;
        release.0 = None;
        marking.map_err(ExactlyOnceError::NotMarked)
    }

    async fn started(&mut self) -> Result<(), Self::Error> {
        self.consumer.started().await.map_err(ExactlyOnceError::Handler)
    }
}

/// The effect is there: the mark is worth more than one try.
async fn mark(store: &dyn DedupeStore, marked: &Marked, ttl: Duration) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        match store.mark(marked.clone(), ttl).await {
            Err(error) if error.is_retryable() && tries < MARKS_TRIED => {
                tries += 1;
                tokio::time::sleep(error.retry_after().unwrap_or(Duration::from_millis(100))).await;
            }
            result => return result,
        }
    }
}

/// Ends a claim whose handler did not succeed, also where it panicked or was dropped: else the event waits for the claim's
/// end.
struct Release(Option<(Arc<dyn DedupeStore>, Marked, String)>);

impl Release {
    async fn now(&mut self) {
        if let Some((store, marked, owner)) = self.0.take() {
            // One that stays ends by itself.
            let _ = store.release(marked, owner).await;
        }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let (Some((store, marked, owner)), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { store.release(marked, owner).await });
        }
    }
}
