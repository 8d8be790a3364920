//! How far a group has come: what is stored of it, and what a change of it looks like.

/// A run of a topic's seqs, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqRange {
    /// The lowest.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

/// A group's place in one partition.
///
/// Ranges are ranges of the topic's seqs: those of other partitions in between belong to no one here and are covered
/// too, or else every range would have the length 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionCursor {
    /// All of the partition's seqs up to this one are acked.
    pub floor: u64,
    /// How many events of the partition are at or below the floor: with the partition's newest ordinal, its lag.
    pub floor_ordinal: u64,
    /// What is acked above the floor: apart, rising, none of them empty of the partition's events.
    pub acked: Vec<SeqRange>,
    /// How many of the partition's events `acked` covers.
    pub acked_count: u64,
}

impl PartitionCursor {
    /// Whether the partition's event with this seq is acked.
    pub fn is_acked(&self, seq: u64) -> bool {
        if seq <= self.floor {
            return true;
        }
        let after = self.acked.partition_point(|range| range.first <= seq);
        after > 0 && self.acked[after - 1].last >= seq
    }

    /// Whether it says something of seqs above this one.
    pub fn reaches_past(&self, tail: u64) -> bool {
        self.floor > tail || self.acked.last().is_some_and(|range| range.last > tail)
    }

    /// Forgets what it says of seqs above this one: they were taken back, and will be given to other events. `ordinal` is
    /// the partition's newest at the tail.
    pub fn cut_at(&mut self, tail: u64, ordinal: u64) {
        if self.floor > tail {
            self.floor = tail;
            self.floor_ordinal = ordinal;
        }
        self.acked.retain(|range| range.first <= tail);
        if let Some(last) = self.acked.last_mut() {
            last.last = last.last.min(tail);
        }
        self.acked_count = self.acked_count.min(ordinal.saturating_sub(self.floor_ordinal));
    }
}

/// What a group remembers of an event that was delivered and came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Which event.
    pub seq: u64,
    /// How many deliveries of it ended in a way that counts.
    pub attempts: u32,
    /// Not to be delivered before this time, in epoch milliseconds.
    pub due_ms: u64,
    /// Why the last delivery ended.
    pub reason: Box<str>,
}

/// A change of one partition's cursor: the cursor whole, its retries as a difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CursorUpdate {
    /// Which partition.
    pub partition: u32,
    /// The cursor from now on.
    pub cursor: PartitionCursor,
    /// Retries that are new or changed.
    pub retries: Vec<Retry>,
    /// Seqs whose retries are over (acked or dead).
    pub settled: Vec<u64>,
}
