//! The one clock. Everything that measures or waits in the gateway asks it, so that tests can pause time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use governor::nanos::Nanos;
use tokio::time::Instant;

/// Epoch milliseconds that never step back while the process runs, whatever happens to the machine's clock.
///
/// It reads the machine's clock once and then counts on tokio's time, which tests pause and advance.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    start_ms: u64,
}

impl Clock {
    /// A clock that starts with the machine's time.
    pub fn new() -> Clock {
        Clock {
            start: Instant::now(),
            start_ms: machine_ms(),
        }
    }

    /// Milliseconds for leases, back-off and arrival (`at`): never steps back.
    pub fn now_ms(&self) -> u64 {
        self.start_ms + u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// The moment at which [`Clock::now_ms`] will be `ms`.
    pub fn instant_at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms.saturating_sub(self.start_ms))
    }

    /// The machine's time, for events whose publisher gave no `ts`: this one follows corrections.
    pub fn timestamp_ms(&self) -> u64 {
        machine_ms()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

/// What the rate limiters count on.
impl governor::clock::Clock for Clock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

fn machine_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2)
}
