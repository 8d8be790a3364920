//! What happens when an actor panics: its cause is in the log, its end is counted, whoever needs it next starts it anew
//! from the store. One that dies again and again is left alone for a while, and that can be seen.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::{ErrorCode, Failure};
use crate::telemetry::Metrics;

/// So many deaths ...
const DEATHS_MAX: usize = 5;
/// ... in so long are too many; then the actor is not started for as long again.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Record {
    deaths: VecDeque<Instant>,
    /// Until then it is not started.
    barred: Option<Instant>,
}

/// Who died lately.
pub struct Supervision {
    metrics: Metrics,
    records: Mutex<HashMap<String, Record>>,
    /// Of a program's own: what was given up, with why.
    failed: Mutex<HashMap<String, String>>,
}

impl Supervision {
    /// Nobody so far.
    pub fn new(metrics: Metrics) -> Supervision {
        Supervision {
            metrics,
            records: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// To be called when an actor is dropped: counts its end where that is a panic's doing. `name` tells it from others.
    pub fn ended(&self, actor: &'static str, name: &str) -> bool {
        if !std::thread::panicking() {
            return false;
        }
        self.died(actor, name, Instant::now());
        true
    }

    fn died(&self, actor: &'static str, name: &str, now: Instant) {
        self.metrics.actor_restarted(actor);
        let mut records = self.lock();
        records.retain(|_, record| record.is_recent(now));
        let record = records.entry(name.to_owned()).or_default();
        record.deaths.push_back(now);
        record.deaths.retain(|death| now.duration_since(*death) < PERIOD);
        if record.deaths.len() < DEATHS_MAX {
            tracing::error!(actor, name, "an actor panicked; it is started again when it is needed");
        } else {
            record.barred = Some(now + PERIOD);
            let seconds = PERIOD.as_secs();
            tracing::error!(
                actor,
                name,
                seconds,
                "an actor panicked too often and is not started for a while"
            );
        }
    }

    /// Whether an actor may be started; where not, what to tell those who ask for it.
    pub fn may_start(&self, name: &str) -> Result<(), Failure> {
        let now = Instant::now();
        let barred = self.lock().get(name).and_then(|record| record.barred);
        match barred.map(|until| until.saturating_duration_since(now)) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(wait) => {
                let msg = format!("{name} failed too often and is left alone for a while");
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                Err(Failure::new(ErrorCode::StoreUnavailable, msg).retry_after(wait_ms + 1))
            }
        }
    }

    /// A consumer or actor of the program's own was given up.
    pub fn fail(&self, name: &str, why: &str) {
        self.failed().insert(name.to_owned(), why.to_owned());
    }

    /// It works again.
    pub fn recover(&self, name: &str) {
        self.failed().remove(name);
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that may not be started now or was given up, in order.
    pub fn barred(&self) -> Vec<String> {
        let now = Instant::now();
        let barred = |record: &Record| record.barred.is_some_and(|until| until > now);
        let mut names: Vec<String> = self
            .lock()
            .iter()
            .filter(|(_, record)| barred(record))
            .map(|(name, _)| name.clone())
            .collect();
        names.extend(self.failed().iter().map(|(name, why)| format!("{name}: {why}")));
        names.sort_unstable();
        names
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn is_recent(&self, now: Instant) -> bool {
        let last = |death: &Instant| now.duration_since(*death) < PERIOD;
        self.deaths.back().is_some_and(last) || self.barred.is_some_and(|until| until > now)
    }
}

/// Places in the actors at which a test can make something go wrong. There is nothing behind it in a gateway that runs.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Faults {
    /// Called with the name of each place that is passed.
    #[doc(hidden)]
    pub fn new(plan: impl Fn(&'static str) + Send + Sync + 'static) -> Faults {
        Faults(Some(Arc::new(plan)))
    }

    /// A place is passed.
    pub(crate) fn at(&self, place: &'static str) {
        if let Some(plan) = &self.0 {
            plan(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_dies_too_often_is_left_alone_and_then_tried_again() {
        let supervision = Supervision::new(Metrics::new());
        for _ in 1..DEATHS_MAX {
            supervision.died("topic", "t", Instant::now());
        }
        supervision.died("topic", "other", Instant::now());
        assert!(supervision.may_start("t").is_ok());
        supervision.died("topic", "t", Instant::now());
        let failure = supervision.may_start("t").unwrap_err();
        assert_eq!(failure.retry_after_ms, Some(10_001));
        assert_eq!(supervision.barred(), ["t"]);
        assert!(supervision.may_start("other").is_ok());
        tokio::time::advance(PERIOD).await;
        assert!(supervision.may_start("t").is_ok() && supervision.barred().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_dies_now_and_then_is_always_started() {
        let supervision = Supervision::new(Metrics::new());
        for _ in 0..100 {
            supervision.died("topic", "t", Instant::now());
            assert!(supervision.may_start("t").is_ok());
            tokio::time::advance(PERIOD / 4).await;
        }
        tokio::time::advance(PERIOD).await;
        supervision.died("topic", "other", Instant::now());
        assert_eq!(supervision.lock().len(), 1, "what is over is forgotten");
    }
}
