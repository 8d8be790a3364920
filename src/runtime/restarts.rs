//! How often something may fail before it is given up.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How a consumer or an actor that crashed is started again: after a back-off that doubles, and not more than so many
/// times in so long. By default 10 times in a minute, after 100 ms at first and 10 s at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    max: u32,
    within: Duration,
    backoff: Duration,
    backoff_max: Duration,
}

impl Default for Restarts {
    fn default() -> Self {
        Restarts {
            max: 10,
            within: Duration::from_secs(60),
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
        }
    }
}

impl Restarts {
    /// At most `max` restarts within a time; one more crash and it is given up.
    pub fn at_most(max: u32, within: Duration) -> Restarts {
        Restarts {
            max,
            within,
            ..Restarts::default()
        }
    }

    /// Other waits before a restart: the first, and the longest.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Restarts {
        self.backoff = first;
        self.backoff_max = longest.max(first);
        self
    }
}

/// What to do after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    RestartAfter(Duration),
    GiveUp,
}

/// The crashes of one consumer or actor.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    recent: VecDeque<Instant>,
    total: u64,
}

impl Crashes {
    /// Another one.
    pub fn add(&mut self, policy: &Restarts, now: Instant) -> Verdict {
        self.total += 1;
        self.recent.push_back(now);
        self.recent.retain(|at| now.duration_since(*at) < policy.within);
        let count = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if count > policy.max {
            return Verdict::GiveUp;
        }
        let doubled = policy
            .backoff
            .saturating_mul(1_u32.checked_shl(count - 1).unwrap_or(u32::MAX));
        Verdict::RestartAfter(doubled.min(policy.backoff_max))
    }

    /// Somebody lets it try again: what was before does not count.
    pub fn forgive(&mut self) {
        self.recent.clear();
    }

    /// How many there were ever.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn restarts_are_within_their_intensity_and_back_off() {
        let policy = Restarts::at_most(3, Duration::from_secs(10))
            .backoff(Duration::from_millis(100), Duration::from_millis(300));
        let mut crashes = Crashes::default();
        for wait_ms in [100, 200, 300] {
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(crashes.add(&policy, Instant::now()), Verdict::RestartAfter(wait));
        }
        assert_eq!(crashes.add(&policy, Instant::now()), Verdict::GiveUp);
        crashes.forgive();
        assert_eq!(
            crashes.add(&policy, Instant::now()),
            Verdict::RestartAfter(Duration::from_millis(100))
        );
        assert_eq!(crashes.total(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn who_crashes_now_and_then_is_always_restarted() {
        let policy = Restarts::at_most(3, Duration::from_secs(10));
        let mut crashes = Crashes::default();
        for _ in 0..100 {
            assert_ne!(crashes.add(&policy, Instant::now()), Verdict::GiveUp);
            tokio::time::advance(Duration::from_millis(3_334)).await;
        }
    }

    #[test]
    fn extreme_policies_do_not_overflow() {
        let policy = Restarts::at_most(u32::MAX, Duration::MAX).backoff(Duration::MAX, Duration::MAX);
        let mut crashes = Crashes::default();
        for _ in 0..100 {
            assert_eq!(
                crashes.add(&policy, Instant::now()),
                Verdict::RestartAfter(Duration::MAX)
            );
        }
    }
}
