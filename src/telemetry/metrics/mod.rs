//! Figures for a scraper. Actors take handles once and keep them, so that counting is an atomic addition.
//!
//! Names of topics and groups are the clients' to choose, so the number of labels is bounded: a topic beyond the first
//! 1,000 is counted as `_other`, and so is a group beyond the first 1,000 pairs of topic and group. A gauge of many things
//! at once means nothing: those beyond the bound have counters only.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::domain::{GroupName, TopicName};

/// The media type of [`Metrics::encode_plain`]'s text.
pub const PLAIN_METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The media type of [`Metrics::encode`]'s text.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The most topics, and the most pairs of topic and group, that have labels of their own.
const LABELS_MAX: usize = 1_000;
/// The label of all the others.
const OTHER: &str = "_other";

/// A gauge of fractions.
pub type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabels {
    topic: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    topic: String,
    group: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScopeLabels {
    scope: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActorLabels {
    actor: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// All figures of one gateway. Cloning it is cheap, and all clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

struct Families {
    registry: Registry,
    labelled_topics: Mutex<HashSet<TopicName>>,
    labelled_groups: Mutex<HashSet<(TopicName, GroupName)>>,
    published: Family<TopicLabels, Counter>,
    delivered: Family<GroupLabels, Counter>,
    acked: Family<GroupLabels, Counter>,
    nacked: Family<GroupLabels, Counter>,
    redelivered: Family<GroupLabels, Counter>,
    dead_lettered: Family<GroupLabels, Counter>,
    expired_unacked: Family<GroupLabels, Counter>,
    inflight: Family<GroupLabels, Gauge>,
    lag_events: Family<GroupLabels, Gauge>,
    lag_seconds: Family<GroupLabels, FloatGauge>,
    deduplicated: Family<GroupLabels, Counter>,
    consumer_restarts: Family<GroupLabels, Counter>,
    consumer_failed: Family<GroupLabels, Gauge>,
    rate_limited: Family<ScopeLabels, Counter>,
    mailbox_depth: Family<ActorLabels, Gauge>,
    actor_restarts: Family<ActorLabels, Counter>,
    connections_cut: Family<ReasonLabels, Counter>,
    auth_failures: Family<ReasonLabels, Counter>,
    groups_taken_over: Counter,
    groups_lost: Counter,
    groups_standing_by: Gauge,
    topics_rolled_back: Counter,
    ws_connections: Gauge,
    event_streams: Gauge,
    exports: Gauge,
    publish_latency: Histogram,
    delivery_latency: Histogram,
    store_commit: Histogram,
    store_batch: Histogram,
}

/// One topic's figures.
#[derive(Debug, Clone)]
pub struct TopicMetrics {
    /// `events_published_total`.
    pub published: Counter,
}

/// One group's figures.
#[derive(Debug, Clone)]
pub struct GroupMetrics {
    /// `events_delivered_total`.
    pub delivered: Counter,
    /// `events_acked_total`.
    pub acked: Counter,
    /// `events_nacked_total`.
    pub nacked: Counter,
    /// `events_redelivered_total`.
    pub redelivered: Counter,
    /// `events_dead_lettered_total`.
    pub dead_lettered: Counter,
    /// `events_expired_unacked_total`: what retention took before the group had acked it.
    pub expired_unacked: Counter,
    /// `events_inflight`: delivered and neither acked nor given back.
    pub inflight: Gauge,
    /// `group_lag_events`: not acked yet.
    pub lag_events: Gauge,
    /// `group_lag_seconds`: the age of the oldest that is not acked yet.
    pub lag_seconds: FloatGauge,
}

/// The figures of a consumer that runs in this process. Programs choose them, so their number needs no bound.
#[derive(Debug, Clone)]
pub struct ConsumerMetrics {
    /// `events_deduplicated_total`: not handled, because it had been before.
    pub deduplicated: Counter,
    /// `consumer_restarts_total`: crashes of its instances.
    pub restarts: Counter,
    /// `consumer_failed`: 1 while it is given up.
    pub failed: Gauge,
}

impl Metrics {
    /// Figures that all stand at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let r = &mut registry;
        let families = Families {
            published: register(r, "events_published", "Events committed"),
            delivered: register(r, "events_delivered", "Events handed to a member"),
            acked: register(r, "events_acked", "Events acked"),
            nacked: register(r, "events_nacked", "Events nacked"),
            redelivered: register(r, "events_redelivered", "Deliveries after the first"),
            dead_lettered: register(r, "events_dead_lettered", "Events given up after their last attempt"),
            expired_unacked: register(
                r,
                "events_expired_unacked",
                "Events that retention took before their ack",
            ),
            inflight: register(r, "events_inflight", "Events delivered and not yet settled"),
            lag_events: register(r, "group_lag_events", "Events not yet acked"),
            lag_seconds: register(r, "group_lag_seconds", "Age of the oldest event not yet acked"),
            deduplicated: register(
                r,
                "events_deduplicated",
                "Events not handled because they had been before",
            ),
            consumer_restarts: register(r, "consumer_restarts", "Crashes of a consumer in the process"),
            consumer_failed: register(r, "consumer_failed", "1 while a consumer in the process is given up"),
            rate_limited: register(r, "rate_limited", "Publishes and pushes that met a limit"),
            mailbox_depth: register(r, "mailbox_depth", "Messages that wait"),
            actor_restarts: register(r, "actor_restarts", "Restarts after a failure"),
            connections_cut: register(r, "connections_cut", "Connections ended by the gateway"),
            auth_failures: register(r, "auth_failures", "Tokens that were refused"),
            groups_taken_over: register(r, "groups_taken_over", "Groups that stood by here and are owned now"),
            groups_lost: register(r, "groups_lost", "Groups that were owned here and stand by now"),
            groups_standing_by: register(r, "groups_standing_by", "Groups with members here and another owner"),
            topics_rolled_back: register(
                r,
                "topics_rolled_back",
                "Topics that the store has less of than was seen",
            ),
            ws_connections: register(r, "ws_connections", "Open WebSockets"),
            event_streams: register(r, "event_streams", "Open streams of server-sent events"),
            exports: register(r, "exports", "Exports under way"),
            publish_latency: histogram(
                r,
                "publish_latency_seconds",
                "From a publish to its OK",
                seconds_buckets(),
            ),
            delivery_latency: histogram(r, "delivery_latency_seconds", "From publish to ack", seconds_buckets()),
            store_commit: histogram(r, "store_commit_seconds", "Time of a commit", seconds_buckets()),
            store_batch: histogram(
                r,
                "store_batch_events",
                "Events in a commit",
                exponential_buckets(1.0, 2.0, 14),
            ),
            labelled_topics: Mutex::default(),
            labelled_groups: Mutex::default(),
            registry,
        };
        Metrics(Arc::new(families))
    }

    /// A topic's figures, to keep.
    pub fn topic(&self, topic: &TopicName) -> TopicMetrics {
        let topic = self.topic_label(topic).to_owned();
        TopicMetrics {
            published: self.0.published.get_or_create_owned(&TopicLabels { topic }),
        }
    }

    /// A group's figures, to keep.
    pub fn group(&self, topic: &TopicName, group: &GroupName) -> GroupMetrics {
        let families = &self.0;
        let has_own = has_label(&families.labelled_groups, (topic.clone(), group.clone()));
        let labels = GroupLabels {
            topic: self.topic_label(topic).to_owned(),
            group: if has_own { group.as_str() } else { OTHER }.to_owned(),
        };
        let has_gauges = has_own && labels.topic != OTHER;
        let gauge = |family: &Family<GroupLabels, Gauge>| match has_gauges {
            true => family.get_or_create_owned(&labels),
            false => Gauge::default(),
        };
        GroupMetrics {
            delivered: families.delivered.get_or_create_owned(&labels),
            acked: families.acked.get_or_create_owned(&labels),
            nacked: families.nacked.get_or_create_owned(&labels),
            redelivered: families.redelivered.get_or_create_owned(&labels),
            dead_lettered: families.dead_lettered.get_or_create_owned(&labels),
            expired_unacked: families.expired_unacked.get_or_create_owned(&labels),
            inflight: gauge(&families.inflight),
            lag_events: gauge(&families.lag_events),
            lag_seconds: match has_gauges {
                true => families.lag_seconds.get_or_create_owned(&labels),
                false => FloatGauge::default(),
            },
        }
    }

    /// The figures of a consumer that runs in this process, to keep.
    pub fn consumer(&self, topic: &TopicName, group: &GroupName) -> ConsumerMetrics {
        let labels = GroupLabels {
            topic: topic.to_string(),
            group: group.to_string(),
        };
        ConsumerMetrics {
            deduplicated: self.0.deduplicated.get_or_create_owned(&labels),
            restarts: self.0.consumer_restarts.get_or_create_owned(&labels),
            failed: self.0.consumer_failed.get_or_create_owned(&labels),
        }
    }

    /// A topic was deleted: nothing is told of it any more, nor of its groups, until it is made again.
    pub fn forget_topic(&self, topic: &TopicName) {
        let groups: Vec<GroupName> = {
            let labelled = self.0.labelled_groups.lock().unwrap_or_else(PoisonError::into_inner);
            labelled
                .iter()
                .filter(|(of, _)| of == topic)
                .map(|(_, group)| group.clone())
                .collect()
        };
        groups.iter().for_each(|group| self.forget_group(topic, group));
        if forget_label(&self.0.labelled_topics, topic) {
            let topic = topic.to_string();
            self.0.published.remove(&TopicLabels { topic });
        }
    }

    /// A group was deleted: nothing is told of it any more until it is made again.
    pub fn forget_group(&self, topic: &TopicName, group: &GroupName) {
        let families = &self.0;
        if !forget_label(&families.labelled_groups, &(topic.clone(), group.clone())) {
            return;
        }
        let labels = GroupLabels {
            topic: self.topic_label(topic).to_owned(),
            group: group.to_string(),
        };
        for counters in [
            &families.delivered,
            &families.acked,
            &families.nacked,
            &families.redelivered,
            &families.dead_lettered,
            &families.expired_unacked,
        ] {
            counters.remove(&labels);
        }
        families.inflight.remove(&labels);
        families.lag_events.remove(&labels);
        families.lag_seconds.remove(&labels);
    }

    /// `rate_limited_total{scope}`, to keep.
    pub fn rate_limited(&self, scope: &'static str) -> Counter {
        self.0.rate_limited.get_or_create_owned(&ScopeLabels { scope })
    }

    /// `mailbox_depth{actor}`: what waits for all actors of one kind.
    pub fn mailbox_depth(&self, actor: &'static str) -> Gauge {
        self.0.mailbox_depth.get_or_create_owned(&ActorLabels { actor })
    }

    /// `actor_restarts_total{actor}`.
    pub fn actor_restarted(&self, actor: &'static str) {
        self.0.actor_restarts.get_or_create_owned(&ActorLabels { actor }).inc();
    }

    /// `connections_cut_total{reason}`.
    pub fn connection_cut(&self, reason: &'static str) {
        self.0
            .connections_cut
            .get_or_create_owned(&ReasonLabels { reason })
            .inc();
    }

    /// `auth_failures_total{reason}`.
    pub fn auth_failed(&self, reason: &'static str) {
        self.0.auth_failures.get_or_create_owned(&ReasonLabels { reason }).inc();
    }

    /// `groups_taken_over_total`.
    pub fn group_taken_over(&self) {
        self.0.groups_taken_over.inc();
    }

    /// `groups_lost_total`.
    pub fn group_lost(&self) {
        self.0.groups_lost.inc();
    }

    /// `groups_standing_by`.
    pub fn groups_standing_by(&self, groups: usize) {
        self.0.groups_standing_by.set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// `topics_rolled_back_total`.
    pub fn topic_rolled_back(&self) {
        self.0.topics_rolled_back.inc();
    }

    /// `ws_connections`.
    pub fn ws_connections(&self) -> &Gauge {
        &self.0.ws_connections
    }

    /// `event_streams`.
    pub fn event_streams(&self) -> &Gauge {
        &self.0.event_streams
    }

    /// `exports`.
    pub fn exports(&self) -> &Gauge {
        &self.0.exports
    }

    /// `publish_latency_seconds`: from a publish to its `OK`.
    pub fn publish_took(&self, time: Duration) {
        self.0.publish_latency.observe(time.as_secs_f64());
    }

    /// `delivery_latency_seconds`: from the publish to the ack. Not counted where the event was settled before.
    pub fn delivered_and_acked(&self, came_ms: Option<u64>, now_ms: u64) {
        if let Some(came_ms) = came_ms {
            let latency_ms = now_ms.saturating_sub(came_ms);
            self.0.delivery_latency.observe(latency_ms as f64 / 1_000.0);
        }
    }

    /// `store_commit_seconds` and `store_batch_events`.
    pub fn commit_took(&self, time: Duration, events: usize) {
        self.0.store_commit.observe(time.as_secs_f64());
        self.0.store_batch.observe(events as f64);
    }

    /// All figures as text, of the type [`METRICS_CONTENT_TYPE`].
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into memory cannot fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }

    /// The same in Prometheus's own older format, which its tools and many scrapers read, of the type
    /// [`PLAIN_METRICS_CONTENT_TYPE`]. There a counter's whole name has the `_total`.
    pub fn encode_plain(&self) -> String {
        let text = self.encode();
        let counters: HashSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
            .collect();
        let mut plain = String::with_capacity(text.len());
        for line in text.lines() {
            let described = ["# HELP ", "# TYPE "].iter().find_map(|mark| {
                let (name, rest) = line.strip_prefix(mark)?.split_once(' ')?;
                Some((mark, name, rest))
            });
            match described {
                Some((mark, name, rest)) => {
                    let suffix = if counters.contains(name) { "_total" } else { "" };
                    plain.extend([mark, name, suffix, " ", rest, "\n"]);
                }
                None if line.starts_with('#') => {}
                None => plain.extend([line, "\n"]),
            }
        }
        plain
    }

    /// Whether a topic has a label of its own, or would get one.
    pub fn may_label(&self, topic: &TopicName) -> bool {
        let labelled = self.0.labelled_topics.lock().unwrap_or_else(PoisonError::into_inner);
        labelled.len() < LABELS_MAX || labelled.contains(topic)
    }

    fn topic_label<'a>(&self, topic: &'a TopicName) -> &'a str {
        match has_label(&self.0.labelled_topics, topic.clone()) {
            true => topic.as_str(),
            false => OTHER,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a name has a label of its own: it has where it got one before, or while there are some left.
fn has_label<T: Eq + Hash>(labelled: &Mutex<HashSet<T>>, name: T) -> bool {
    // A panic elsewhere cannot have left the set half-changed.
    let mut labelled = labelled.lock().unwrap_or_else(PoisonError::into_inner);
    if labelled.len() < LABELS_MAX {
        labelled.insert(name);
        return true;
    }
    labelled.contains(&name)
}

/// Frees a name's label; false where it had none of its own.
fn forget_label<T: Eq + Hash>(labelled: &Mutex<HashSet<T>>, name: &T) -> bool {
    labelled.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
}

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: impl Iterator<Item = f64>) -> Histogram {
    let metric = Histogram::new(buckets);
    registry.register(name, help, metric.clone());
    metric
}

/// From 0.1 ms, doubling, to 105 s.
fn seconds_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.000_1, 2.0, 21)
}
