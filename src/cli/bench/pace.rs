//! Waiting for a moment more exactly than tokio's timers do, which are rounded up to milliseconds: a timer of the kernel's.

use std::io;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// One timer. It is read like a pipe, and so tokio takes it for one.
pub(super) struct Pace(pipe::Receiver);

impl Pace {
    pub(super) fn new() -> io::Result<Pace> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Pace(pipe::Receiver::from_owned_fd_unchecked(timer)?))
    }

    /// Waits.
    pub(super) async fn wait(&mut self, time: Duration) -> io::Result<()> {
        let value = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            // A time of zero would switch it off.
            tv_nsec: i64::from(time.subsec_nanos()).max(i64::from(time.as_secs() == 0)),
        };
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: value,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        self.0.read_exact(&mut [0; 8]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_waits_at_least_so_long_and_can_be_used_again() {
        let mut pace = Pace::new().unwrap();
        for wait in [Duration::ZERO, Duration::from_micros(200), Duration::from_millis(5)] {
            let began = std::time::Instant::now();
            pace.wait(wait).await.unwrap();
            assert!(began.elapsed() >= wait);
        }
    }
}
