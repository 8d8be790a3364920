//! How fast something goes lately: events published to a topic, events settled by a group.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Over how long a rate is taken.
const SPAN_MS: u64 = 10_000;
/// How far apart two samples are at least: so there are few, however often something happens.
const STEP_MS: u64 = 500;

/// Takes note of a total that rises, and says how fast it did.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    /// Times, and what the total had been until then.
    samples: VecDeque<(u64, u64)>,
    total: u64,
    rose_ms: Option<u64>,
}

impl Meter {
    /// The total as it is now. One that is lower than before begins anew.
    pub fn note(&self, total: u64, now_ms: u64) {
        let mut inner = self.lock();
        match inner.samples.back() {
            None => inner.samples.push_back((now_ms, total)),
            Some(_) if total < inner.total => {
                inner.samples.clear();
                inner.samples.push_back((now_ms, total));
            }
            Some(_) if total == inner.total => {}
            Some(&(at, _)) => {
                inner.rose_ms = Some(now_ms);
                if now_ms >= at.saturating_add(STEP_MS) {
                    // What it was until now: the rise belongs to what comes after this sample.
                    let before = inner.total;
                    inner.samples.push_back((now_ms, before));
                    let old = now_ms.saturating_sub(SPAN_MS);
                    while inner.samples.get(1).is_some_and(|&(at, _)| at <= old) {
                        inner.samples.pop_front();
                    }
                }
            }
        }
        inner.total = total;
    }

    /// How much the total rose in a second, over the last 10 s or since the first note.
    pub fn per_second(&self, now_ms: u64) -> f64 {
        let inner = self.lock();
        let old = now_ms.saturating_sub(SPAN_MS);
        let (Some(&(begin, _)), Some(&(_, before))) =
            (inner.samples.front(), inner.samples.iter().find(|&&(at, _)| at > old))
        else {
            return 0.0;
        };
        let span_ms = now_ms.saturating_sub(begin.max(old)).max(1_000);
        inner.total.saturating_sub(before) as f64 * 1_000.0 / span_ms as f64
    }

    /// When the total rose last.
    pub fn rose_ms(&self) -> Option<u64> {
        self.lock().rose_ms
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        // Nothing in here panics while it holds the lock; if something did, the numbers are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_told_and_fades() {
        let meter = Meter::default();
        meter.note(1_000, 0);
        for second in 1..=60_u64 {
            meter.note(1_000 + second * 50, second * 1_000);
        }
        let rate = meter.per_second(60_000);
        assert!((49.0..=56.0).contains(&rate), "{rate}");
        assert_eq!(meter.rose_ms(), Some(60_000));
        let later = meter.per_second(65_000);
        assert!(later < rate && later > 0.0, "{later}");
        assert_eq!(meter.per_second(80_000), 0.0);
    }

    #[test]
    fn what_was_there_before_the_first_note_is_no_rate() {
        let meter = Meter::default();
        meter.note(1_000_000, 5_000);
        assert_eq!(meter.per_second(5_001), 0.0);
        meter.note(1_000_010, 5_100);
        assert_eq!(meter.per_second(6_000), 10.0);
    }

    #[test]
    fn a_total_that_falls_begins_anew() {
        let meter = Meter::default();
        meter.note(100, 0);
        meter.note(200, 1_000);
        meter.note(0, 2_000);
        assert_eq!(meter.per_second(2_500), 0.0);
    }

    #[test]
    fn many_notes_take_little_memory() {
        let meter = Meter::default();
        (0..100_000).for_each(|n| meter.note(n, n));
        assert!(meter.lock().samples.len() <= 22);
    }
}
