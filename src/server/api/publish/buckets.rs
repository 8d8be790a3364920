//! One token bucket for each caller over HTTP: requests have no connection that could have one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    clock: Clock,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    limit: Limit,
    by_caller: HashMap<Whose, Bucket>,
}

impl CallerBuckets {
    /// Buckets of this size.
    pub(in crate::server) fn new(limit: &Limit, clock: Clock) -> CallerBuckets {
        let buckets = Buckets {
            limit: *limit,
            by_caller: HashMap::new(),
        };
        CallerBuckets {
            clock,
            buckets: Mutex::new(buckets),
        }
    }

    /// Buckets have this size from now on; where it is another one, all begin anew.
    pub(super) fn renew(&self, limit: Limit) -> &CallerBuckets {
        let mut buckets = self.lock();
        if buckets.limit != limit {
            buckets.limit = limit;
            buckets.by_caller.clear();
        }
        self
    }

    /// Takes a token for one publish.
    pub(super) fn take(&self, subject: Option<&Arc<str>>, client: IpAddr) -> Result<(), Denied> {
        let whose = match subject {
            Some(subject) => Whose::Subject(subject.clone()),
            None => Whose::Address(network(client)),
        };
        let now_ms = self.clock.now_ms();
        let Buckets { limit, by_caller } = &mut *self.lock();
        // After so long without use a bucket is full again, and need not be kept.
        let full_again_ms = match limit {
            Limit::Off => return Ok(()),
            Limit::Bucket(bucket) => (f64::from(bucket.capacity) / bucket.refill_per_sec * 1_000.0).ceil() as u64,
        };
        if by_caller.len() >= CALLERS_MAX && !by_caller.contains_key(&whose) {
            by_caller.retain(|_, bucket| bucket.used_ms.saturating_add(full_again_ms) > now_ms);
        }
        if by_caller.len() >= CALLERS_MAX && !by_caller.contains_key(&whose) {
            // Whoever has so many names is not held up by a bucket for each; the others must not be locked out.
            tracing::warn!("more than {CALLERS_MAX} callers publish over HTTP: their buckets begin anew");
            by_caller.clear();
        }
        let bucket = by_caller.entry(whose).or_insert_with(|| Bucket {
            limiter: Limiter::new(limit, self.clock.clone()),
            used_ms: now_ms,
        });
        bucket.used_ms = now_ms;
        bucket.limiter.take(1)
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(buckets.lock().by_caller.len(), 2);
        for number in 0..3 * u32::try_from(CALLERS_MAX).unwrap() {
            assert_eq!(buckets.take(None, address(number)), Ok(()));
        }
        assert!(buckets.lock().by_caller.len() <= CALLERS_MAX);
    }
}
