//! How many bytes of events may be on their way to a connection.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes on their way to a connection, and the most that may be. Shared by everyone who sends to it.
#[derive(Debug)]
pub struct Room {
    used: AtomicUsize,
    max: usize,
}

impl Room {
    pub(super) fn new(max: usize) -> Room {
        Room {
            used: AtomicUsize::new(0),
            max,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Takes room. The first is always let in, however large: else an event above the maximum would never come.
    pub fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| (used == 0 || used.saturating_add(bytes) <= self.max).then_some(used + bytes);
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .is_ok()
    }

    /// Gives room back.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether so much would be let in now.
    pub(super) fn has(&self, bytes: usize) -> bool {
        let used = self.used();
        used == 0 || used.saturating_add(bytes) <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_one_always_fits() {
        let room = Room::new(10);
        assert!(room.take(100));
        assert!(!room.take(1) && !room.has(1));
        room.give_back(100);
        assert!(room.take(6) && room.take(4));
        assert!(!room.take(1));
        room.give_back(4);
        assert!(room.has(4) && !room.has(5));
    }
}
