//! How far a group has come in one partition, kept so that an ack costs O(log n) and the stored cursor can be told at any
//! time.
//!
//! Only what was read in this life is tracked event by event. What the stored cursor says about seqs that are not read
//! (again) yet is kept as it was stored, and gives way as the read position moves over it.

use std::collections::BTreeMap;

use crate::domain::{PartitionCursor, SeqRange};

/// Acked events with no unacked one of the partition between them, by the seq of the first.
#[derive(Debug, Clone, Copy)]
struct Run {
    last: u64,
    first_ordinal: u64,
    last_ordinal: u64,
}

impl Run {
    /// Ordinals count what was removed from the log in between, too: it is no lag.
    fn events(&self) -> u64 {
        self.last_ordinal.saturating_sub(self.first_ordinal).saturating_add(1)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Progress {
    stored: PartitionCursor,
    /// How many events of the stored ranges were not read again yet.
    stored_left: u64,
    /// The ordinal of the newest event read.
    read_ordinal: u64,
    /// Read and not acked, with their ordinals.
    unacked: BTreeMap<u64, u64>,
    /// Acked above the lowest unacked one.
    runs: BTreeMap<u64, Run>,
}

impl Progress {
    pub fn new(stored: PartitionCursor) -> Progress {
        Progress {
            stored_left: stored.acked_count,
            read_ordinal: stored.floor_ordinal,
            stored,
            ..Progress::default()
        }
    }

    /// The floor that was stored: nothing up to it needs to be read.
    pub fn stored_floor(&self) -> u64 {
        self.stored.floor
    }

    /// Whether an event that is being read was acked in an earlier life.
    pub fn was_acked(&self, seq: u64) -> bool {
        self.stored.is_acked(seq)
    }

    /// Takes note of an event above all those read before.
    pub fn read(&mut self, seq: u64, ordinal: u64, acked: bool) {
        if seq > self.stored.floor && self.stored.is_acked(seq) {
            self.stored_left = self.stored_left.saturating_sub(1);
        }
        self.read_ordinal = self.read_ordinal.max(ordinal);
        if acked {
            self.note_acked(seq, ordinal);
        } else {
            self.unacked.insert(seq, ordinal);
        }
    }

    /// The log begins at `first` now, and `ordinal` is the newest below it. Where events were not read yet, they never
    /// will be: the answer is how many of them were not acked.
    pub fn skip_below(&mut self, first: u64, ordinal: u64) -> Option<u64> {
        let skipped = ordinal.checked_sub(self.read_ordinal).filter(|skipped| *skipped > 0)?;
        self.read_ordinal = ordinal;
        // Only the sum of what the stored ranges cover is known: where one of them goes on above, this is an estimate.
        let below = |range: &SeqRange| (range.last.saturating_add(1).min(first)).saturating_sub(range.first);
        let covered = self.stored.acked.iter().map(below).fold(0, u64::saturating_add);
        // None of them is empty: each that is wholly above has an event at least.
        let above = self.stored.acked.iter().filter(|range| range.first >= first).count() as u64;
        let acked = skipped.min(self.stored_left.saturating_sub(above)).min(covered);
        self.stored_left -= acked;
        Some(skipped - acked)
    }

    /// How many of the partition's events are settled: acked, left out or gone.
    pub fn settled(&self, read_position: u64) -> u64 {
        // Once the stored ranges are read, what is left of their count was removed from the log, and passed.
        let is_unread = self.stored.acked.last().is_some_and(|range| range.last > read_position);
        let left = if is_unread { self.stored_left } else { 0 };
        let known = self.read_ordinal.saturating_add(left);
        known.saturating_sub(self.unacked.len() as u64)
    }

    /// Acks one of the unacked events.
    pub fn ack(&mut self, seq: u64) {
        let Some(ordinal) = self.unacked.remove(&seq) else {
            return;
        };
        self.note_acked(seq, ordinal);
        let lowest = self.unacked.keys().next().copied().unwrap_or(u64::MAX);
        while let Some(run) = self.runs.first_entry()
            && *run.key() < lowest
        {
            run.remove();
        }
    }

    fn note_acked(&mut self, seq: u64, ordinal: u64) {
        let Some((&unacked_below, _)) = self.unacked.range(..seq).next_back() else {
            return;
        };
        let unacked_above = self.unacked.range(seq..).next().map_or(u64::MAX, |(&above, _)| above);
        let mut first = seq;
        let mut run = Run {
            last: seq,
            first_ordinal: ordinal,
            last_ordinal: ordinal,
        };
        if let Some((&start, before)) = self.runs.range(..seq).next_back()
            && before.last > unacked_below
        {
            first = start;
            run.first_ordinal = before.first_ordinal;
        }
        if let Some((&start, &after)) = self.runs.range(seq..).next()
            && start < unacked_above
        {
            run.last = after.last;
            run.last_ordinal = after.last_ordinal;
            self.runs.remove(&start);
        }
        self.runs.insert(first, run);
    }

    /// The cursor as it would be stored now.
    pub fn cursor(&self, read_position: u64) -> PartitionCursor {
        let (floor, floor_ordinal) = match self.unacked.first_key_value() {
            Some((&seq, &ordinal)) => (seq.saturating_sub(1), ordinal.saturating_sub(1)),
            None => (read_position, self.read_ordinal),
        };
        let mut cursor = PartitionCursor {
            floor: floor.max(self.stored.floor),
            floor_ordinal: floor_ordinal.max(self.stored.floor_ordinal),
            acked: Vec::with_capacity(self.runs.len()),
            acked_count: 0,
        };
        for (&first, run) in &self.runs {
            cursor.acked.push(SeqRange { first, last: run.last });
            cursor.acked_count = cursor.acked_count.saturating_add(run.events());
        }
        let mut unread = self
            .stored
            .acked
            .iter()
            .filter(|range| range.last > read_position)
            .peekable();
        if unread.peek().is_some() {
            cursor.acked_count = cursor.acked_count.saturating_add(self.stored_left);
        }
        for range in unread {
            match cursor.acked.last_mut() {
                // The position is inside of this range: what was read of it is the last run.
                Some(run) if run.last >= range.first => run.last = range.last,
                _ => cursor.acked.push(SeqRange {
                    first: range.first.max(read_position.saturating_add(1)),
                    last: range.last,
                }),
            }
        }
        cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(cursor: &PartitionCursor) -> Vec<(u64, u64)> {
        cursor.acked.iter().map(|range| (range.first, range.last)).collect()
    }

    /// Events at the seqs 10, 20, … 60 with the ordinals 1 to 6, none acked.
    fn six() -> Progress {
        let mut progress = Progress::new(PartitionCursor::default());
        for ordinal in 1..=6 {
            progress.read(ordinal * 10, ordinal, false);
        }
        progress
    }

    #[test]
    fn acks_in_any_order_keep_the_earlier_unacked_one() {
        let mut progress = six();
        for seq in [20, 40, 30, 60] {
            progress.ack(seq);
        }
        let cursor = progress.cursor(65);
        assert_eq!((cursor.floor, cursor.floor_ordinal), (9, 0));
        assert_eq!(ranges(&cursor), [(20, 40), (60, 60)]);
        assert_eq!(cursor.acked_count, 4);
        progress.ack(10);
        let cursor = progress.cursor(65);
        assert_eq!((cursor.floor, cursor.floor_ordinal), (49, 4));
        assert_eq!((ranges(&cursor), cursor.acked_count), (vec![(60, 60)], 1));
        progress.ack(50);
        let cursor = progress.cursor(65);
        assert_eq!((cursor.floor, cursor.floor_ordinal, cursor.acked.len()), (65, 6, 0));
    }

    #[test]
    fn an_ack_twice_or_of_what_is_not_there_changes_nothing() {
        let mut progress = six();
        progress.ack(20);
        let before = progress.cursor(60);
        progress.ack(20);
        progress.ack(25);
        assert_eq!(progress.cursor(60), before);
    }

    #[test]
    fn what_was_removed_between_acked_events_is_no_lag() {
        let mut progress = Progress::new(PartitionCursor::default());
        progress.read(1, 1, false);
        progress.read(2, 2, true);
        progress.read(9, 5, true);
        assert_eq!(progress.cursor(9).acked_count, 4);
    }

    #[test]
    fn a_stored_cursor_comes_back_whole_at_every_read_position() {
        let mut progress = six();
        for seq in [20, 30, 50, 60] {
            progress.ack(seq);
        }
        let stored = progress.cursor(65);
        let mut again = Progress::new(stored.clone());
        assert_eq!(again.cursor(9), stored);
        for ordinal in 1..=6_u64 {
            let seq = ordinal * 10;
            again.read(seq, ordinal, again.was_acked(seq));
            let now = again.cursor(seq);
            assert_eq!((now.floor, now.floor_ordinal, now.acked_count), (9, 0, 4), "{seq}");
            assert_eq!(now.acked, stored.acked, "{seq}");
        }
    }

    #[test]
    fn what_was_never_read_is_counted_once_when_it_expires() {
        let mut progress = six();
        for seq in [20, 30, 60] {
            progress.ack(seq);
        }
        let mut again = Progress::new(progress.cursor(65));
        assert_eq!(again.skip_below(51, 5), Some(3), "10, 40 and 50 were not acked");
        assert_eq!(again.skip_below(51, 5), None);
        assert_eq!(again.skip_below(70, 6), Some(0));
        let mut fresh = six();
        assert_eq!(fresh.skip_below(51, 5), None, "all were read");
        assert_eq!(fresh.skip_below(90, 8), Some(2));
    }

    #[test]
    fn a_floor_above_the_read_position_does_not_go_down() {
        let mut progress = Progress::new(PartitionCursor {
            floor: 30,
            floor_ordinal: 3,
            ..PartitionCursor::default()
        });
        progress.read(10, 1, progress.was_acked(10));
        let cursor = progress.cursor(12);
        assert_eq!((cursor.floor, cursor.floor_ordinal), (30, 3));
    }
}
