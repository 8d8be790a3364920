//! What is asked for on the command line, and what that means for a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::super::args::ClientArgs;
use super::super::failure::Failure;
use crate::domain::{BadName, GroupName, TopicName};

/// The most events that a consumer holds without an ack.
pub(super) const IN_FLIGHT: u64 = 1_000;

/// How long the last deliveries may keep one waiting.
const STALL: Duration = Duration::from_secs(10);

/// What `bench` takes.
#[derive(Debug, Args)]
pub(in super::super) struct BenchArgs {
    /// Where to publish. By default a new topic; what is published stays in the gateway.
    #[arg(long)]
    topic: Option<TopicName>,
    /// Connections that publish.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count(1, 1_000))]
    publishers: usize,
    /// Groups that consume; each gets every event. 0: nobody consumes.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count(0, 1_000))]
    groups: usize,
    /// Connections of each group.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count(1, 1_000))]
    consumers: usize,
    /// Closed loop: how many events of each publisher may wait for their OK.
    #[arg(long, value_name = "N", default_value = "256", value_parser = count(1, 8_192))]
    window: usize,
    /// Open loop: so many events a second in all, whatever the gateway does. Latency counts from when an event was due.
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "window", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Bytes of each event's payload.
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = count(100, 900_000))]
    payload: usize,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// How long to publish before that.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    warm_up: Duration,
    /// Draw throughput over time and latency by percentile into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

fn count(least: u64, most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most)
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.01..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number of events a second, from 0.01 on".to_owned()),
    }
}

/// How events are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loop {
    /// So many of each publisher wait for their answer.
    Closed(usize),
    /// So many a second of each publisher.
    Open(f64),
}

/// A run, as it will be.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Tells the run's events from others in the topic.
    pub(super) name: String,
    pub(super) topic: TopicName,
    pub(super) publishers: usize,
    pub(super) groups: Vec<GroupName>,
    /// Connections of each group.
    pub(super) consumers: usize,
    pub(super) sending: Loop,
    pub(super) payload: usize,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    /// What was confirmed and not delivered after so long without any delivery is missing.
    pub(super) stall: Duration,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> Result<Plan, Failure> {
        // The end of a UUIDv7 is random.
        let name = format!("{:08x}", uuid::Uuid::now_v7().as_u128() & u128::from(u32::MAX));
        let bad = |error: BadName| Failure::Failed(error.to_string());
        let group = |number| format!("bench-{name}-{number}").parse::<GroupName>().map_err(bad);
        Ok(Plan {
            topic: match &args.topic {
                Some(topic) => topic.clone(),
                None => format!("bench.{name}").parse().map_err(bad)?,
            },
            publishers: args.publishers,
            groups: (0..args.groups).map(group).collect::<Result<_, _>>()?,
            consumers: args.consumers,
            sending: match args.rate {
                Some(rate) => Loop::Open(rate / args.publishers as f64),
                None => Loop::Closed(args.window),
            },
            payload: args.payload,
            warm_up: args.warm_up,
            duration: args.duration.max(Duration::from_millis(1)),
            stall: STALL,
            name,
        })
    }

    /// How long events are published.
    pub(super) fn publishing(&self) -> Duration {
        self.warm_up + self.duration
    }

    /// Whether a moment of the run, in nanoseconds, is measured.
    pub(super) fn measures(&self, nanos: u64) -> bool {
        (self.warm_up..self.publishing()).contains(&Duration::from_nanos(nanos))
    }
}
