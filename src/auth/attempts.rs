//! Failed attempts to get in, limited for each client address: guessing a token takes longer than it is worth.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use crate::actors::limiter::{Denied, Limiter, retry_after_ms};
use crate::clock::Clock;
use crate::config::{Bucket, Limit};
use crate::protocol::{ErrorCode, Failure};

/// How many may fail in a row, and how fast that comes back.
const FAILURES: Bucket = Bucket {
    capacity: 20,
    refill_per_sec: 1.0,
};
/// After so long without a failure an address's bucket is full again, and need not be kept.
const FULL_AGAIN_MS: u64 = 21_000;
/// The most addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

struct Record {
    limiter: Limiter,
    /// Nothing is looked at before.
    shut_until_ms: u64,
    failed_ms: u64,
}

/// Who failed lately.
pub(super) struct Attempts {
    clock: Clock,
    by_address: Mutex<HashMap<IpAddr, Record>>,
}

impl Attempts {
    pub(super) fn new(clock: Clock) -> Attempts {
        Attempts {
            clock,
            by_address: Mutex::default(),
        }
    }

    /// Whether a token from this address is looked at at all.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), Failure> {
        let now_ms = self.clock.now_ms();
        let records = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        match records.get(&network(address)) {
            Some(record) if record.shut_until_ms > now_ms => {
                let msg = "too many failed attempts from this address";
                Err(Failure::new(ErrorCode::RateLimited, msg).retry_after(record.shut_until_ms - now_ms))
            }
            _ => Ok(()),
        }
    }

    /// An attempt from this address failed.
    pub(super) fn failed(&self, address: IpAddr) {
        let now_ms = self.clock.now_ms();
        let mut records = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= ADDRESSES_MAX {
            records.retain(|_, record| record.failed_ms + FULL_AGAIN_MS > now_ms);
        }
        if records.len() >= ADDRESSES_MAX {
            // Whoever has so many addresses is not held up by a limit for each; the others must not be locked out.
            tracing::warn!("failed attempts from more than {ADDRESSES_MAX} addresses: they are forgotten");
            records.clear();
        }
        let record = records.entry(network(address)).or_insert_with(|| Record {
            limiter: Limiter::new(&Limit::Bucket(FAILURES), self.clock.clone()),
            shut_until_ms: 0,
            failed_ms: 0,
        });
        record.failed_ms = now_ms;
        if let Err(Denied::Wait(wait)) = record.limiter.take(1) {
            record.shut_until_ms = now_ms + retry_after_ms(wait);
        }
    }
}

/// One customer has a /64 of IPv6: its addresses count together.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn failures_shut_an_address_out_for_a_while() {
        let attempts = Attempts::new(Clock::new());
        let (bad, good) = (address("10.0.0.1"), address("10.0.0.2"));
        for _ in 0..=FAILURES.capacity {
            assert_eq!(attempts.check(bad), Ok(()));
            attempts.failed(bad);
        }
        let failure = attempts.check(bad).unwrap_err();
        assert_eq!(
            (failure.code, failure.retry_after_ms),
            (ErrorCode::RateLimited, Some(1_000))
        );
        assert_eq!(attempts.check(good), Ok(()));
        tokio::time::advance(Duration::from_millis(1_000)).await;
        assert_eq!(attempts.check(bad), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_counts_as_one_and_memory_is_bounded() {
        let attempts = Attempts::new(Clock::new());
        for host in 0..=FAILURES.capacity {
            attempts.failed(address(&format!("2001:db8::{host:x}")));
        }
        assert!(attempts.check(address("2001:db8::ffff")).is_err());
        assert!(attempts.check(address("2001:db8:0:1::1")).is_ok());
        for number in 0..2 * u32::try_from(ADDRESSES_MAX).unwrap() {
            attempts.failed(std::net::Ipv4Addr::from_bits(number).into());
        }
        assert!(attempts.by_address.lock().unwrap().len() <= ADDRESSES_MAX);
    }
}
