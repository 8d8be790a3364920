//! The newest events of a topic, in memory: what groups and ephemeral subscriptions at the tail are served from.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::Event;

/// The most events that are kept.
const EVENTS_MAX: usize = 4_096;
/// The most bytes that are kept.
const BYTES_MAX: usize = 4 << 20;

/// The tail, shared by a topic and its groups, which run on one arbiter: the lock is never waited for.
#[derive(Debug)]
pub struct Tail(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// Contiguous up to `tail`.
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    tail: u64,
}

/// What the tail has from some seq on.
#[derive(Debug, PartialEq, Eq)]
pub enum TailRead {
    /// These, and `upto` is the last seq that was looked at.
    Events {
        /// In seq order.
        events: Vec<Arc<Event>>,
        /// How far this goes.
        upto: u64,
    },
    /// It begins later: read the store.
    Behind,
    /// There is nothing yet.
    Nothing,
}

impl Inner {
    fn first(&self) -> u64 {
        self.tail + 1 - self.events.len() as u64
    }

    fn get(&self, seq: u64) -> Option<&Arc<Event>> {
        let at = usize::try_from(seq.checked_sub(self.first())?).ok()?;
        self.events.get(at)
    }
}

impl Tail {
    /// The tail of a topic that was just loaded.
    pub fn new(tail: u64) -> Tail {
        Tail(Mutex::new(Inner {
            events: VecDeque::new(),
            bytes: 0,
            tail,
        }))
    }

    /// The highest seq that is known to be durable.
    pub fn seq(&self) -> u64 {
        self.lock().tail
    }

    /// Adds new events. Those that are known are passed over; after a gap the memory starts anew, and readers of what
    /// lies in it find it in the store.
    pub fn extend(&self, events: impl IntoIterator<Item = Arc<Event>>) {
        let mut inner = self.lock();
        for event in events {
            if event.seq <= inner.tail {
                continue;
            }
            if event.seq != inner.tail + 1 {
                inner.events.clear();
                inner.bytes = 0;
            }
            inner.tail = event.seq;
            inner.bytes += event.size();
            inner.events.push_back(event);
        }
        while inner.events.len() > EVENTS_MAX || inner.bytes > BYTES_MAX {
            let Some(oldest) = inner.events.pop_front() else { break };
            inner.bytes -= oldest.size();
        }
    }

    /// The newest event, where it is in memory.
    pub fn newest(&self) -> Option<Arc<Event>> {
        self.lock().events.back().cloned()
    }

    /// The lowest seq in memory; the tail + 1 where there is none.
    pub fn first(&self) -> u64 {
        self.lock().first()
    }

    /// Whether one of these has the place of another event in memory: the store took back what it had said before.
    pub fn contradicts(&self, events: &[Arc<Event>]) -> bool {
        let inner = self.lock();
        let differs = |event: &Arc<Event>| inner.get(event.seq).is_some_and(|known| known.id != event.id);
        events.iter().any(differs)
    }

    /// Up to where these, read from [`Tail::first`] on, are what is in memory.
    pub fn in_common(&self, events: &[Arc<Event>]) -> u64 {
        let inner = self.lock();
        let same = |event: &&Arc<Event>| inner.get(event.seq).is_some_and(|known| known.id == event.id);
        let last = events.iter().take_while(same).last();
        last.map_or(inner.first().saturating_sub(1), |event| event.seq)
    }

    /// The store has more than was said here: what is in memory is no longer its end.
    pub fn jump_to(&self, tail: u64) {
        let mut inner = self.lock();
        if tail > inner.tail {
            inner.events.clear();
            inner.bytes = 0;
            inner.tail = tail;
        }
    }

    /// The events from a seq on.
    pub fn read(&self, from: u64, max_events: usize, max_bytes: usize) -> TailRead {
        let inner = self.lock();
        if from > inner.tail {
            return TailRead::Nothing;
        }
        let Some(skip) = from.checked_sub(inner.first()) else {
            return TailRead::Behind;
        };
        let mut bytes = 0;
        let fits = |event: &&Arc<Event>| {
            let fits = bytes < max_bytes;
            bytes += event.json.len();
            fits
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let events: Vec<_> = inner
            .events
            .iter()
            .skip(skip)
            .take(max_events)
            .take_while(fits)
            .cloned()
            .collect();
        match events.last() {
            Some(last) => TailRead::Events { upto: last.seq, events },
            None => TailRead::Behind,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics while it holds the lock; if something did, the numbers are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{NewEvent, Place};

    fn event(seq: u64) -> Arc<Event> {
        let new = NewEvent {
            id: seq.to_string().into(),
            id_given: false,
            ts: 0,
            key: None,
            headers: vec![],
            payload: "1".into(),
            tags: vec![],
            caused_by: vec![],
            sid: None,
        };
        Arc::new(Event::place(
            &"t".parse().unwrap(),
            &new,
            Place {
                seq,
                at: 0,
                partition: 0,
                ordinal: seq,
            },
        ))
    }

    fn seqs(read: TailRead) -> Vec<u64> {
        match read {
            TailRead::Events { events, .. } => events.iter().map(|event| event.seq).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_serves_what_it_has_and_says_where_it_begins() {
        let tail = Tail::new(5);
        assert_eq!(tail.read(3, 10, 1_000), TailRead::Behind);
        assert_eq!(tail.read(6, 10, 1_000), TailRead::Nothing);
        tail.extend([event(6), event(7), event(8)]);
        assert_eq!(seqs(tail.read(6, 10, 1_000)), [6, 7, 8]);
        assert_eq!(seqs(tail.read(7, 1, 1_000)), [7]);
        assert_eq!(seqs(tail.read(6, 10, 1)), [6], "one is always read");
        assert_eq!(tail.read(5, 10, 1_000), TailRead::Behind);
    }

    #[test]
    fn known_events_are_passed_over_and_a_gap_starts_anew() {
        let tail = Tail::new(0);
        tail.extend([event(1), event(1), event(2)]);
        assert_eq!(seqs(tail.read(1, 10, 1_000)), [1, 2]);
        tail.extend([event(5)]);
        assert_eq!(tail.read(1, 10, 1_000), TailRead::Behind);
        assert_eq!(tail.read(3, 10, 1_000), TailRead::Behind);
        assert_eq!(seqs(tail.read(5, 10, 1_000)), [5]);
        tail.jump_to(9);
        assert_eq!(tail.read(5, 10, 1_000), TailRead::Behind);
        assert_eq!(tail.seq(), 9);
    }

    #[test]
    fn another_event_in_a_known_place_is_noticed() {
        let tail = Tail::new(3);
        assert!(!tail.contradicts(&[event(3)]), "what is not in memory is not known");
        tail.extend([event(4), event(5)]);
        assert!(!tail.contradicts(&[event(3), event(4), event(5), event(6)]));
        let mut other = (*event(5)).clone();
        other.id = "another".into();
        let other = Arc::new(other);
        assert!(tail.contradicts(&[event(4), other.clone()]));
        assert_eq!(tail.in_common(&[event(4), other.clone()]), 4);
        assert_eq!(tail.in_common(&[other]), 3);
        assert_eq!(tail.in_common(&[]), 3);
        assert_eq!(tail.newest(), Some(event(5)));
    }

    #[test]
    fn it_is_bounded() {
        let tail = Tail::new(0);
        tail.extend((1..=10_000).map(event));
        assert_eq!(tail.read(1, 10, 1_000), TailRead::Behind);
        assert_eq!(seqs(tail.read(10_000, 10, 1_000)), [10_000]);
        assert!(tail.lock().events.len() <= EVENTS_MAX);
    }
}
