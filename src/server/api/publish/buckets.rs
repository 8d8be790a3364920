//! One token bucket for each caller over HTTP: requests have no connection that could have one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::actors::limiter::{Denied, Limiter};
use crate::auth::network;
use crate::clock::Clock;
use crate::config::Limit;

/// The most callers that are remembered.
const CALLERS_MAX: usize = 10_000;

/// Whose bucket it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    /// Somebody whose token has a name.
    Subject(Arc<str>),
    /// Everybody else there.
    Address(IpAddr),
}

struct Bucket {
    limiter: Limiter,
    used_ms: u64,
}

/// The callers' buckets.
pub(in crate::server) struct CallerBuckets {
    limit: Limit,
    clock: Clock,
    /// After so long without use a bucket is full again, and need not be kept.
    full_again_ms: u64,
    by_caller: Mutex<HashMap<Whose, Bucket>>,
}

impl CallerBuckets {
    /// Buckets of this size.
    pub(in crate::server) fn new(limit: &Limit, clock: Clock) -> CallerBuckets {
        let full_again_ms = match limit {
            Limit::Off => 0,
            Limit::Bucket(bucket) => (f64::from(bucket.capacity) / bucket.refill_per_sec * 1_000.0).ceil() as u64,
        };
        CallerBuckets {
            limit: *limit,
            clock,
            full_again_ms,
            by_caller: Mutex::default(),
        }
    }

    /// Takes a token for one publish.
    pub(super) fn take(&self, subject: Option<&Arc<str>>, client: IpAddr) -> Result<(), Denied> {
        if self.limit == Limit::Off {
            return Ok(());
        }
        let whose = match subject {
            Some(subject) => Whose::Subject(subject.clone()),
            None => Whose::Address(network(client)),
        };
        let now_ms = self.clock.now_ms();
        let mut buckets = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&whose) {
            buckets.retain(|_, bucket| bucket.used_ms.saturating_add(self.full_again_ms) > now_ms);
        }
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&whose) {
            // Whoever has so many names is not held up by a bucket for each; the others must not be locked out.
            tracing::warn!("more than {CALLERS_MAX} callers publish over HTTP: their buckets begin anew");
            buckets.clear();
        }
        let bucket = buckets.entry(whose).or_insert_with(|| Bucket {
            limiter: Limiter::new(&self.limit, self.clock.clone()),
            used_ms: now_ms,
        });
        bucket.used_ms = now_ms;
        bucket.limiter.take(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Bucket as Size;

    fn buckets() -> CallerBuckets {
        let size = Size {
            capacity: 2,
            refill_per_sec: 1.0,
        };
        CallerBuckets::new(&Limit::Bucket(size), Clock::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_subject_has_one_bucket_wherever_it_comes_from() {
        let buckets = buckets();
        let (here, there) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let ann: Arc<str> = "ann".into();
        assert_eq!(buckets.take(Some(&ann), here), Ok(()));
        assert_eq!(buckets.take(Some(&ann), there), Ok(()));
        assert_eq!(
            buckets.take(Some(&ann), here),
            Err(Denied::Wait(Duration::from_secs(1)))
        );
        assert_eq!(buckets.take(None, here), Ok(()), "who has no name has the address's");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_who_waits_is_not_forgotten_for_it() {
        let buckets = buckets();
        let ann: Arc<str> = "ann".into();
        let address = |number: u32| std::net::Ipv4Addr::from_bits(number).into();
        for number in 0..u32::try_from(CALLERS_MAX).unwrap() - 1 {
            assert_eq!(buckets.take(None, address(number)), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        for _ in 0..2 {
            assert_eq!(buckets.take(Some(&ann), address(0)), Ok(()));
        }
        assert_eq!(buckets.take(None, address(u32::MAX)), Ok(()));
        assert!(buckets.take(Some(&ann), address(0)).is_err());
        assert_eq!(buckets.by_caller.lock().unwrap().len(), 2);
        for number in 0..3 * u32::try_from(CALLERS_MAX).unwrap() {
            assert_eq!(buckets.take(None, address(number)), Ok(()));
        }
        assert!(buckets.by_caller.lock().unwrap().len() <= CALLERS_MAX);
    }
}
