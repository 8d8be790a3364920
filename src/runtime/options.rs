//! How a program subscribes, and how a consumer works.

use std::time::Duration;

use super::Error;
use super::error::bad_request;
use super::restarts::Restarts;
use crate::actors::connection::Key;
use crate::domain::{BACKOFF_MS_MAX, Filter, GroupName, StartFrom, TopicName};
use crate::protocol::{ErrorCode, SubscribeOpts};

/// Which events, and as a member of which group. The same options as those of `SUBSCRIBE` over WebSocket.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Subscribe;
///
/// let member = Subscribe::group("orders", "billing").from_earliest().max_attempts(3).ordered(true);
/// let everything = Subscribe::ephemeral("orders");
/// // The last two make it a consumer's: for a builder's `consumer`.
/// let consumer = member.clone().concurrency(4).timeout(Duration::from_secs(5));
/// # let _ = (everything, consumer);
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing by themselves"]
pub struct Subscribe {
    topic: String,
    group: Option<String>,
    opts: SubscribeOpts,
}

impl Subscribe {
    /// As a member of a group, which shares the topic's events and remembers what was acked.
    pub fn group(topic: impl Into<String>, group: impl Into<String>) -> Subscribe {
        Subscribe {
            topic: topic.into(),
            group: Some(group.into()),
            opts: SubscribeOpts::default(),
        }
    }

    /// On one's own: every event, nothing to ack, nothing remembered.
    pub fn ephemeral(topic: impl Into<String>) -> Subscribe {
        Subscribe {
            topic: topic.into(),
            group: None,
            opts: SubscribeOpts::default(),
        }
    }

    /// Where to begin, where the group is new. By default only what comes from now on.
    pub fn from(mut self, from: StartFrom) -> Subscribe {
        self.opts.from = from;
        self
    }

    /// From the oldest event that is kept, where the group is new.
    pub fn from_earliest(self) -> Subscribe {
        self.from(StartFrom::Earliest)
    }

    /// Of the group: after so many deliveries that failed an event goes to `dlq.<topic>`. 5 by default.
    pub fn max_attempts(mut self, attempts: u32) -> Subscribe {
        self.opts.group.max_attempts = Some(attempts);
        self
    }

    /// Of the group: how long an event that failed waits; doubled for each attempt, at most 30 s. 100 ms by default.
    pub fn backoff(mut self, backoff: Duration) -> Subscribe {
        self.opts.group.backoff_ms = Some(millis(backoff));
        self
    }

    /// Of the group: the events of one key one after the other.
    pub fn ordered(mut self, ordered: bool) -> Subscribe {
        self.opts.group.ordered = Some(ordered);
        self
    }

    /// Of the group: what it is about; what the filter leaves out counts as acked.
    pub fn filter(mut self, filter: Filter) -> Subscribe {
        self.opts.group.filter = Some(filter);
        self
    }

    /// The most events held at a time. 100 by default; a consumer's follows from its concurrency.
    pub fn max_in_flight(mut self, events: u32) -> Subscribe {
        self.opts.member.max_in_flight = events;
        self
    }

    /// How long an event may be held without an ack; then it is delivered again. 30 s by default; a consumer's follows from
    /// its [`timeout`](Consume::timeout).
    pub fn ack_timeout(mut self, timeout: Duration) -> Subscribe {
        self.opts.member.ack_timeout_ms = millis(timeout);
        self
    }

    /// For a consumer: how many events are handled at the same time, each by an instance of its own. 1 by default.
    pub fn concurrency(self, instances: u32) -> Consume {
        Consume::from(self).concurrency(instances)
    }

    /// For a consumer: how long the handler may take for an event. 30 s by default.
    pub fn timeout(self, timeout: Duration) -> Consume {
        Consume::from(self).timeout(timeout)
    }

    /// For a consumer: how often it may be restarted before it is given up.
    pub fn restarts(self, restarts: Restarts) -> Consume {
        Consume::from(self).restarts(restarts)
    }

    pub(super) fn check(self) -> Result<(Key, SubscribeOpts), Error> {
        let bad_topic = |why: crate::domain::BadName| Error::Refused {
            code: ErrorCode::BadTopic,
            message: format!("topic: {why}"),
            retry_after: None,
        };
        let topic: TopicName = self.topic.parse().map_err(bad_topic)?;
        let group = |name: String| {
            name.parse::<GroupName>()
                .map_err(|why| bad_request(format!("group: {why}")))
        };
        let group = self.group.map(group).transpose()?;
        let (of_group, of_member) = (&self.opts.group, &self.opts.member);
        within("max_attempts", of_group.max_attempts.unwrap_or(1).into(), 1, 1_000)?;
        within("backoff", of_group.backoff_ms.unwrap_or(0), 0, BACKOFF_MS_MAX)?;
        within("max_in_flight", of_member.max_in_flight.into(), 1, 10_000)?;
        within("ack_timeout", of_member.ack_timeout_ms, 1_000, 3_600_000)?;
        Ok(((topic, group), self.opts))
    }
}

/// How a consumer works: a [`Subscribe`] with how many at a time, how long, and how often it may fail.
#[derive(Debug, Clone)]
#[must_use = "options do nothing by themselves"]
pub struct Consume {
    subscribe: Subscribe,
    concurrency: u32,
    prefetch: Option<u32>,
    timeout: Duration,
    restarts: Restarts,
}

/// The longest that a handler may ask for.
const TIMEOUT_MAX: Duration = Duration::from_secs(15 * 60);
/// What a lease lasts beyond what the handlers need.
const LEASE_MARGIN: Duration = Duration::from_secs(10);

impl From<Subscribe> for Consume {
    fn from(subscribe: Subscribe) -> Consume {
        Consume {
            subscribe,
            concurrency: 1,
            prefetch: None,
            timeout: Duration::from_secs(30),
            restarts: Restarts::default(),
        }
    }
}

/// A consumer's options, checked.
#[derive(Debug, Clone)]
pub(super) struct Consuming {
    pub topic: TopicName,
    pub group: GroupName,
    pub opts: SubscribeOpts,
    pub concurrency: u32,
    pub timeout: Duration,
    pub restarts: Restarts,
}

impl Consume {
    /// How many events are handled at the same time, each by an instance of its own. 1 by default, at most 1,000.
    pub fn concurrency(mut self, instances: u32) -> Consume {
        self.concurrency = instances;
        self
    }

    /// How many events beyond those are kept ready. As many as there are instances, by default; 0 leaves them to the
    /// group's other members.
    pub fn prefetch(mut self, events: u32) -> Consume {
        self.prefetch = Some(events);
        self
    }

    /// How long the handler may take for an event: one that takes longer is dropped, the event counts as failed, and the
    /// instance is made anew. 30 s by default, at most 15 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Consume {
        self.timeout = timeout;
        self
    }

    /// How often it may be restarted before it is given up and its group paused.
    pub fn restarts(mut self, restarts: Restarts) -> Consume {
        self.restarts = restarts;
        self
    }

    pub(super) fn check(self) -> Result<Consuming, Error> {
        let Consume {
            mut subscribe,
            concurrency,
            prefetch,
            timeout,
            restarts,
        } = self;
        within("concurrency", concurrency.into(), 1, 1_000)?;
        within("timeout", millis(timeout), 1, millis(TIMEOUT_MAX))?;
        let prefetch = prefetch.unwrap_or(concurrency);
        within("prefetch", prefetch.into(), 0, 9_000)?;
        if subscribe.group.is_none() {
            return Err(bad_request("group: a consumer is a member of a group"));
        }
        // An event that waits for an instance waits for as long as others are handled before it, and one that another
        // instance has claimed for as long as that may take.
        let rounds = 2 + prefetch.div_ceil(concurrency);
        let lease = (timeout * rounds + LEASE_MARGIN).min(Duration::from_secs(3_600));
        subscribe = subscribe.max_in_flight(concurrency + prefetch).ack_timeout(lease);
        let ((topic, group), opts) = subscribe.check()?;
        let group = group.ok_or_else(|| bad_request("group: a consumer is a member of a group"))?;
        Ok(Consuming {
            topic,
            group,
            opts,
            concurrency,
            timeout,
            restarts,
        })
    }
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(bad_request(format!("{field}: expected {min} to {max}, not {value}")))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
