//! Token buckets: governor's, with the contract's words for what it answers.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::clock::Clock;
use crate::config::{Bucket, Limit};

/// The longest a whole bucket may take to fill, in nanoseconds (about 73 years): beyond, governor's arithmetic overflows.
const FILL_NANOS_MAX: u64 = u64::MAX / 8;

type Governor = RateLimiter<NotKeyed, InMemoryState, Clock, NoOpMiddleware<Nanos>>;

/// A token bucket, or none.
pub struct Limiter {
    governor: Option<Governor>,
    capacity: u32,
    /// How long one token takes.
    period: Duration,
    clock: Clock,
}

/// Why tokens were not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// There will be enough after this time, if nobody else takes any.
    Wait(Duration),
    /// Never: the bucket holds fewer.
    OverCapacity(u32),
}

impl Limiter {
    /// A full bucket.
    pub fn new(limit: &Limit, clock: Clock) -> Limiter {
        let bucket = match limit {
            Limit::Off => None,
            Limit::Bucket(bucket) => Some(*bucket),
        };
        Limiter {
            capacity: bucket.map_or(u32::MAX, |bucket| bucket.capacity),
            period: bucket.map_or(Duration::ZERO, period),
            governor: bucket
                .and_then(quota)
                .map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            clock,
        }
    }

    /// Whether it limits anything at all.
    pub fn is_off(&self) -> bool {
        self.governor.is_none()
    }

    /// Takes `n` tokens, or none.
    pub fn take(&self, n: u32) -> Result<(), Denied> {
        let (Some(governor), Some(count)) = (&self.governor, NonZeroU32::new(n)) else {
            return Ok(());
        };
        match governor.check_n(count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => Err(Denied::Wait(until.wait_time_from(self.clock.now()))),
            Err(_) => Err(Denied::OverCapacity(self.capacity)),
        }
    }

    /// Takes as many tokens as there are, at most `n`; where there is none, says how long the next one takes.
    pub fn take_up_to(&self, n: u32) -> Result<u32, Duration> {
        let mut wanted = n.min(self.capacity);
        // What is missing follows from the wait; a second round is needed only where somebody else took some meanwhile.
        while wanted > 0 {
            match self.take(wanted) {
                Ok(()) => return Ok(wanted),
                Err(Denied::OverCapacity(_)) => return Ok(0),
                Err(Denied::Wait(wait)) if wanted == 1 => return Err(wait),
                Err(Denied::Wait(wait)) => {
                    let missing = self.tokens_in(wait);
                    wanted = wanted.saturating_sub(missing).clamp(1, wanted - 1);
                }
            }
        }
        Ok(0)
    }

    /// How many tokens come in this time, rounded up.
    fn tokens_in(&self, wait: Duration) -> u32 {
        let period = self.period.as_nanos().max(1);
        u32::try_from(wait.as_nanos().div_ceil(period)).unwrap_or(u32::MAX)
    }
}

/// The contract's `retry_after_ms`: the wait, rounded up to milliseconds.
pub fn retry_after_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn quota(bucket: Bucket) -> Option<Quota> {
    let capacity = NonZeroU32::new(bucket.capacity)?;
    Some(Quota::with_period(period(bucket))?.allow_burst(capacity))
}

fn period(bucket: Bucket) -> Duration {
    let longest = Duration::from_nanos(FILL_NANOS_MAX / u64::from(bucket.capacity.max(1)));
    Duration::try_from_secs_f64(1.0 / bucket.refill_per_sec)
        .unwrap_or(longest)
        .clamp(Duration::from_nanos(1), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(capacity: u32, refill_per_sec: f64) -> Limiter {
        Limiter::new(
            &Limit::Bucket(Bucket {
                capacity,
                refill_per_sec,
            }),
            Clock::new(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_what_is_missing_over_the_refill() {
        let limiter = limiter(10, 4.0);
        assert_eq!(limiter.take(10), Ok(()));
        // 3 tokens at 4 a second: 750 ms, exactly.
        assert_eq!(limiter.take(3), Err(Denied::Wait(Duration::from_millis(750))));
        tokio::time::advance(Duration::from_millis(749)).await;
        assert_eq!(limiter.take(3), Err(Denied::Wait(Duration::from_millis(1))));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(limiter.take(3), Ok(()));
        assert_eq!(limiter.take(1), Err(Denied::Wait(Duration::from_millis(250))));
    }

    #[tokio::test(start_paused = true)]
    async fn fractions_of_a_token_a_second_work() {
        let limiter = limiter(1, 0.5);
        assert_eq!(limiter.take(1), Ok(()));
        assert_eq!(limiter.take(1), Err(Denied::Wait(Duration::from_secs(2))));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(limiter.take(1), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_the_capacity_never_succeeds_and_takes_nothing() {
        let limiter = limiter(5, 1.0);
        assert_eq!(limiter.take(6), Err(Denied::OverCapacity(5)));
        assert_eq!(limiter.take(5), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn take_up_to_takes_what_there_is() {
        let limiter = limiter(10, 10.0);
        assert_eq!(limiter.take_up_to(4), Ok(4));
        assert_eq!(limiter.take_up_to(100), Ok(6));
        assert_eq!(limiter.take_up_to(100), Err(Duration::from_millis(100)));
        tokio::time::advance(Duration::from_millis(350)).await;
        assert_eq!(limiter.take_up_to(100), Ok(3));
        assert_eq!(limiter.take_up_to(1), Err(Duration::from_millis(50)));
    }

    #[tokio::test(start_paused = true)]
    async fn extreme_refills_do_not_overflow() {
        for refill in [f64::MIN_POSITIVE, 1e-12, 1e12] {
            let limiter = limiter(1_000_000, refill);
            assert_eq!(limiter.take(1_000_000), Ok(()));
            let _ = limiter.take(1_000_000);
            let _ = limiter.take_up_to(1_000_000);
        }
    }

    #[test]
    fn waits_are_rounded_up_to_milliseconds() {
        assert_eq!(retry_after_ms(Duration::from_nanos(1)), 1);
        assert_eq!(retry_after_ms(Duration::from_millis(5)), 5);
        assert_eq!(retry_after_ms(Duration::from_micros(5_001)), 6);
    }
}
