//! What is on its way to a connection and not yet with the kernel, in numbers that can be read from outside: an actor
//! whose client does not read is frozen, its timers too, and cannot look after itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::Room;

/// Why a connection was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing could be written for `gateway.write_timeout`.
    WriteTimeout,
    /// Its answers passed `gateway.write_buffer`.
    WriteBuffer,
    /// All buffers passed `gateway.write_budget`, and its was the largest.
    WriteBudget,
}

impl Cut {
    /// The reason as it stands in log and metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cut::WriteTimeout => "write_timeout",
            Cut::WriteBuffer => "write_buffer",
            Cut::WriteBudget => "write_budget",
        }
    }
}

/// Bytes on their way to one connection, and how it stands with its socket.
#[derive(Debug)]
pub struct Backlog {
    /// Events, from the moment they are handed out until the socket's buffer takes them.
    room: Room,
    /// Answers, likewise.
    answers: AtomicUsize,
    /// What of both is encoded.
    encoded_events: AtomicUsize,
    encoded_answers: AtomicUsize,
    /// The most bytes of both.
    max: usize,
    /// Set while the socket's buffer is full.
    blocked: AtomicBool,
    /// When the socket's buffer last took something.
    progress_ms: AtomicU64,
    /// When the push that waits for a token gets one; 0 where none waits.
    token_at_ms: AtomicU64,
    /// Set when room was given back, until the actor has seen it.
    freed: AtomicBool,
    cut: OnceLock<(Cut, u64)>,
    /// A second descriptor of the socket, to end it from outside.
    socket: Mutex<Option<OwnedFd>>,
}

impl Backlog {
    /// Half of `max` is for events, so that a busy consumer's own answers always fit.
    pub(super) fn new(max: usize, socket: Option<OwnedFd>) -> Arc<Backlog> {
        Arc::new(Backlog {
            room: Room::new(max / 2),
            answers: AtomicUsize::new(0),
            encoded_events: AtomicUsize::new(0),
            encoded_answers: AtomicUsize::new(0),
            max,
            blocked: AtomicBool::new(false),
            progress_ms: AtomicU64::new(0),
            token_at_ms: AtomicU64::new(0),
            freed: AtomicBool::new(false),
            cut: OnceLock::new(),
            socket: Mutex::new(socket),
        })
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// All bytes on their way.
    pub(super) fn bytes(&self) -> usize {
        self.room.used() + self.answers.load(Ordering::Acquire)
    }

    /// Answers are sent to the actor. False: that is more than may wait.
    pub(super) fn add_answers(&self, bytes: usize) -> bool {
        self.answers.fetch_add(bytes, Ordering::AcqRel) + bytes + self.room.used() <= self.max
    }

    /// The actor encoded frames: `sent` are the bytes of answers as they were counted when they were sent to it,
    /// `answers` as they are now; `events` are the bytes of events, as they were counted.
    pub(crate) fn encoded(&self, sent: usize, answers: usize, events: usize) {
        self.answers.fetch_add(answers, Ordering::AcqRel);
        self.answers.fetch_sub(sent, Ordering::AcqRel);
        self.encoded_answers.fetch_add(answers, Ordering::AcqRel);
        self.encoded_events.fetch_add(events, Ordering::AcqRel);
    }

    /// All that was encoded is with the socket.
    pub(super) fn written(&self) {
        let answers = self.encoded_answers.swap(0, Ordering::AcqRel);
        self.answers.fetch_sub(answers, Ordering::AcqRel);
        let events = self.encoded_events.swap(0, Ordering::AcqRel);
        if events > 0 {
            self.room.give_back(events);
            self.freed.store(true, Ordering::Release);
        }
    }

    /// Whether room was given back since the last time.
    pub(super) fn take_freed(&self) -> bool {
        self.freed.load(Ordering::Acquire) && self.freed.swap(false, Ordering::AcqRel)
    }

    /// The socket's buffer takes more, or, with `blocked`, has just taken what may have filled it.
    pub(super) fn progress(&self, now_ms: u64, blocked: bool) {
        self.progress_ms.store(now_ms, Ordering::Release);
        self.blocked.store(blocked, Ordering::Release);
    }

    /// Since when the socket takes nothing.
    pub(super) fn blocked_since_ms(&self) -> Option<u64> {
        self.is_blocked().then(|| self.progress_ms.load(Ordering::Acquire))
    }

    /// A push waits for a token, which comes then; or none does.
    pub(super) fn set_token_at(&self, at_ms: Option<u64>) {
        self.token_at_ms.store(at_ms.unwrap_or(0), Ordering::Release);
    }

    pub(super) fn token_at_ms(&self) -> Option<u64> {
        Some(self.token_at_ms.load(Ordering::Acquire)).filter(|at| *at > 0)
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Whether nothing could be written for so long.
    pub(super) fn is_stalled(&self, now_ms: u64, timeout: Duration) -> bool {
        let since = now_ms.saturating_sub(self.progress_ms.load(Ordering::Acquire));
        self.is_blocked() && u128::from(since) >= timeout.as_millis()
    }

    /// Marks it as cut off; false where it was before.
    pub(super) fn cut(&self, cut: Cut, now_ms: u64) -> bool {
        self.cut.set((cut, now_ms)).is_ok()
    }

    /// When and why it was cut off.
    pub(super) fn cut_off(&self) -> Option<(Cut, u64)> {
        self.cut.get().copied()
    }

    /// Ends the socket: whatever the actor does, its next read or write fails.
    pub(crate) fn shut(&self) {
        if let Some(socket) = self.take_socket() {
            let socket = socket2::SockRef::from(&socket);
            // What the kernel still holds for a client that does not read is dropped with the socket.
            let _ = socket.set_linger(Some(Duration::ZERO));
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Takes a second descriptor.
    pub(super) fn hold(&self, socket: OwnedFd) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    /// Gives the second descriptor up: as long as there is one, the socket does not close.
    pub(super) fn take_socket(&self) -> Option<OwnedFd> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_until_they_are_written() {
        let backlog = Backlog::new(1_000, None);
        assert!(backlog.room().take(300) && backlog.add_answers(100));
        backlog.encoded(100, 120, 300);
        assert_eq!(backlog.bytes(), 420);
        assert!(!backlog.take_freed());
        backlog.written();
        assert_eq!(backlog.bytes(), 0);
        assert!(backlog.take_freed() && !backlog.take_freed());
        assert!(backlog.add_answers(1_000) && !backlog.add_answers(1));
    }

    #[test]
    fn only_a_blocked_socket_stalls() {
        let (backlog, timeout) = (Backlog::new(1_000, None), Duration::from_millis(100));
        backlog.progress(1_000, false);
        assert!(!backlog.is_stalled(9_999, timeout));
        backlog.progress(1_000, true);
        assert!(!backlog.is_stalled(1_099, timeout) && backlog.is_stalled(1_100, timeout));
        assert!(backlog.cut(Cut::WriteTimeout, 5) && !backlog.cut(Cut::WriteBudget, 6));
        assert_eq!(backlog.cut_off(), Some((Cut::WriteTimeout, 5)));
    }
}
