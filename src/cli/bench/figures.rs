//! What is counted while a run is under way.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::super::failure::Failure;
use super::plan::Plan;

/// The longest latency that is told from longer ones.
const LONGEST: Duration = Duration::from_secs(120);
/// How many points a line over time has.
const POINTS: u32 = 50;

/// Events over time.
#[derive(Debug)]
pub(super) struct Series {
    width: Duration,
    counts: Vec<u64>,
}

impl Series {
    fn new(plan: &Plan) -> Series {
        Series {
            width: (plan.publishing() / POINTS).max(Duration::from_millis(10)),
            counts: Vec::new(),
        }
    }

    /// Events at a moment, in nanoseconds of the run.
    pub(super) fn add(&mut self, nanos: u64, events: u64) {
        let at = (u128::from(nanos) / self.width.as_nanos()) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += events;
    }

    /// All events.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Seconds of the run, and events a second from then on. The last stretch is left out: it may be cut short.
    pub(super) fn per_second(&self) -> impl Iterator<Item = (f64, f64)> {
        let width = self.width.as_secs_f64();
        let whole = self.counts.len().saturating_sub(1);
        let counts = self.counts.iter().take(whole).enumerate();
        counts.map(move |(at, count)| (at as f64 * width, *count as f64 / width))
    }

    /// Events a second in the last whole stretch before a moment.
    pub(super) fn newest_per_second(&self, now: Duration) -> f64 {
        let at = (now.as_nanos() / self.width.as_nanos()) as usize;
        let count = at.checked_sub(1).and_then(|at| self.counts.get(at));
        count.map_or(0.0, |count| *count as f64 / self.width.as_secs_f64())
    }
}

/// One kind of answer to a publish that is not `OK`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefusalKind {
    pub(super) code: String,
    pub(super) msg: String,
}

/// What is counted.
#[derive(Debug)]
pub(super) struct Figures {
    /// Nanoseconds until the `OK`, of events that were sent while it was measured.
    pub(super) confirm: Histogram<u64>,
    /// Nanoseconds until a member had the event.
    pub(super) deliver: Histogram<u64>,
    pub(super) confirmed: Series,
    pub(super) delivered: Series,
    pub(super) acked: Series,
    /// Events whose `OK`, delivery or ack came while it was measured.
    pub(super) measured: Measured,
    pub(super) refused: BTreeMap<RefusalKind, u64>,
    /// Publishes that may or may not have happened.
    pub(super) unsure: u64,
    /// Answers to a publisher that were not in the order of its requests, or whose seqs were not.
    pub(super) answers_out_of_order: u64,
    /// Acks that were refused.
    pub(super) acks_refused: u64,
    /// Events of others in the topic.
    pub(super) foreign: u64,
    /// Confirmed events that were yet to be delivered when publishing ended, all groups together.
    pub(super) behind: u64,
}

/// Counts of the time that is measured.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Measured {
    pub(super) confirmed: u64,
    pub(super) delivered: u64,
    pub(super) acked: u64,
}

impl Figures {
    pub(super) fn new(plan: &Plan) -> Result<Figures, Failure> {
        let histogram = || {
            let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
            Histogram::new_with_bounds(1_000, longest, 3).map_err(|error| Failure::Failed(error.to_string()))
        };
        Ok(Figures {
            confirm: histogram()?,
            deliver: histogram()?,
            confirmed: Series::new(plan),
            delivered: Series::new(plan),
            acked: Series::new(plan),
            measured: Measured::default(),
            refused: BTreeMap::new(),
            unsure: 0,
            answers_out_of_order: 0,
            acks_refused: 0,
            foreign: 0,
            behind: 0,
        })
    }
}
