//! Where a consumer's instances get their events: one member of the group for all of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::super::Error;
use super::super::handle::Inner;
use crate::actors::connection::{Local, LocalActor, LocalHandle, News, Operation};
use crate::actors::messages::Push;
use crate::domain;
use crate::domain::{GroupName, TopicName};
use crate::protocol::SubscribeOpts;

/// How long a consumer whose subscription was ended waits before it subscribes anew; doubled up to the longest.
const REJOIN: Duration = Duration::from_millis(200);
const REJOIN_MAX: Duration = Duration::from_secs(10);

/// An event that is with the consumer.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub event: Arc<domain::Event>,
    pub attempt: u32,
    pub max_attempts: u32,
    /// When its lease is over.
    ends: Instant,
    /// The member whose it is.
    generation: u64,
}

impl Item {
    fn new(push: Push, generation: u64) -> Item {
        let lease = push.lease;
        let lasts = Duration::from_millis(lease.map_or(0, |lease| lease.ack_deadline_ms));
        Item {
            event: push.event,
            attempt: push.attempt,
            max_attempts: lease.map_or(1, |lease| lease.max_attempts),
            ends: Instant::now() + lasts,
            generation,
        }
    }

    /// Whether the group has given it to somebody else meanwhile.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// How long the lease still lasts.
    pub fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }
}

/// The events, for all instances of a consumer.
pub(super) struct Source {
    inner: Arc<Inner>,
    topic: TopicName,
    group: GroupName,
    opts: SubscribeOpts,
    /// Of the member as it is now.
    member: Mutex<LocalHandle>,
    queues: tokio::sync::Mutex<Queues>,
    again: mpsc::UnboundedSender<Item>,
    /// Counts the members that there were.
    generation: AtomicU64,
    /// Set while all that the member has goes back: what is still in its queue is not the consumer's any more.
    leaving: AtomicBool,
    stop: watch::Receiver<bool>,
}

struct Queues {
    news: mpsc::UnboundedReceiver<News>,
    /// What was put off, and is due.
    again: mpsc::UnboundedReceiver<Item>,
}

impl Source {
    /// Becomes a member of the group.
    pub async fn join(
        inner: Arc<Inner>,
        topic: TopicName,
        group: GroupName,
        opts: SubscribeOpts,
        stop: watch::Receiver<bool>,
    ) -> Result<Source, Error> {
        let (member, news) = subscribe(&inner, &topic, &group, &opts).await?;
        let (again, due) = mpsc::unbounded_channel();
        Ok(Source {
            inner,
            topic,
            group,
            opts,
            member: Mutex::new(member),
            queues: tokio::sync::Mutex::new(Queues { news, again: due }),
            again,
            generation: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            stop,
        })
    }

    /// The next event, for one instance. None: the consumer is to end.
    pub async fn next(&self) -> Option<Item> {
        let mut stop = self.stop.clone();
        let take = async {
            let mut queues = self.queues.lock().await;
            loop {
                let Queues { news, again } = &mut *queues;
                let news = tokio::select! {
                    Some(item) = again.recv() => {
                        if item.generation == self.generation.load(Ordering::Acquire) {
                            return item;
                        }
                        continue;
                    }
                    news = news.recv() => news,
                };
                match news {
                    Some(News::Event(push)) if self.leaving.load(Ordering::Acquire) => {
                        self.member().taken(push.event.json.len());
                    }
                    Some(News::Event(push)) => {
                        self.member().taken(push.event.json.len());
                        let item = Item::new(push, self.generation.load(Ordering::Acquire));
                        if self.inner.twice {
                            let _ = self.again.send(item.clone());
                        }
                        return item;
                    }
                    ended => queues.news = self.rejoin(ended).await,
                }
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            item = take => Some(item),
        }
    }

    /// The subscription was ended: by an operator, by the group's own end, or by this consumer itself.
    async fn rejoin(&self, ended: Option<News>) -> mpsc::UnboundedReceiver<News> {
        let mut wait = match ended {
            Some(News::Ended(failure)) => {
                let (topic, group) = (&self.topic, &self.group);
                tracing::warn!(%topic, %group, reason = %failure.msg, "a consumer's subscription ended, it subscribes anew");
                REJOIN
            }
            _ => Duration::ZERO,
        };
        loop {
            tokio::time::sleep(wait).await;
            match subscribe(&self.inner, &self.topic, &self.group, &self.opts).await {
                Ok((member, news)) => {
                    *self.member.lock().unwrap_or_else(PoisonError::into_inner) = member;
                    self.generation.fetch_add(1, Ordering::AcqRel);
                    self.leaving.store(false, Ordering::Release);
                    return news;
                }
                // The consumer is about to be told to end.
                Err(Error::Stopped) => wait = REJOIN_MAX,
                Err(error) => {
                    let (topic, group) = (&self.topic, &self.group);
                    tracing::error!(%topic, %group, %error, "a consumer could not subscribe anew, trying again");
                    wait = (wait * 2).clamp(REJOIN, REJOIN_MAX);
                }
            }
        }
    }

    pub fn member(&self) -> LocalHandle {
        self.member.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves the group, so that all it holds goes back without counting, and becomes a member again.
    pub fn give_all_back(&self) {
        self.leaving.store(true, Ordering::Release);
        self.member().tell(Operation::Leave);
    }

    /// Hands the item out again, later. One whose lease would not last is nobody's here: it comes from the group.
    pub fn postpone(&self, item: Item, by: Duration) {
        let again = self.again.clone();
        let by = by.min(item.left());
        tokio::spawn(async move {
            tokio::time::sleep(by).await;
            let _ = again.send(item);
        });
    }
}

async fn subscribe(
    inner: &Arc<Inner>,
    topic: &TopicName,
    group: &GroupName,
    opts: &SubscribeOpts,
) -> Result<(LocalHandle, mpsc::UnboundedReceiver<News>), Error> {
    inner.check_running()?;
    let key = (topic.clone(), Some(group.clone()));
    let Local { handle, news, joined } = LocalActor::start_on(&inner.arbiter, inner.shared.clone(), key, opts.clone());
    match joined.await {
        Ok(Ok(())) => Ok((handle, news)),
        Ok(Err(failure)) => Err(failure.into()),
        Err(_) => Err(Error::Stopped),
    }
}
