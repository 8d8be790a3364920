//! What a group's store has to know: collected while things happen, handed out as one batch at a time, and kept until the
//! store has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::Entry;
use super::{Changes, DeadLetter, Group};
use crate::domain::CursorUpdate;

/// What is not saved yet.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// The partitions that changed.
    partitions: BTreeMap<u32, PartitionChange>,
    /// Dead letters that were handed to the store.
    pub dead: Vec<HandedOver>,
    pub dropped_dead: u64,
}

/// What changed in a partition besides its cursor, which is told whole.
#[derive(Debug, Default)]
pub(super) struct PartitionChange {
    /// Events whose retry is new or changed.
    pub retries: BTreeSet<u64>,
    /// Events whose retry is over.
    pub settled: BTreeSet<u64>,
}

/// A dead letter, acked by the cursor that goes with it. Its key waits until both are saved.
#[derive(Debug)]
pub(super) struct HandedOver {
    pub seq: u64,
    pub key: Option<Arc<str>>,
    letter: DeadLetter,
}

impl Unsaved {
    /// A partition, which from now on counts as changed.
    pub fn partition(&mut self, partition: u32) -> &mut PartitionChange {
        self.partitions.entry(partition).or_default()
    }

    fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.dead.is_empty() && self.dropped_dead == 0
    }
}

impl Group {
    /// Whether there is something to save that was not handed out yet.
    pub fn is_dirty(&self) -> bool {
        !self.unsaved.is_empty() || !self.window.doomed().is_empty()
    }

    /// What changed since the last time, where something did and nothing is with the store. The caller answers with
    /// [`Group::saved`] or [`Group::save_failed`].
    pub fn take_changes(&mut self) -> Option<Changes> {
        if self.saving.is_some() || !self.is_dirty() {
            return None;
        }
        for seq in self.window.doomed().clone() {
            self.hand_over(seq);
        }
        let batch = std::mem::take(&mut self.unsaved);
        let changes = Changes {
            updates: batch
                .partitions
                .iter()
                .map(|(&partition, change)| self.update_of(partition, change))
                .collect(),
            dead: batch.dead.iter().map(|handed| handed.letter.clone()).collect(),
            dropped_dead: batch.dropped_dead,
        };
        for &seq in batch.partitions.values().flat_map(|change| &change.retries) {
            // From here on the store may have it, even if it says that it failed.
            self.window.update(seq, |entry| entry.has_row = true);
        }
        self.saving = Some(batch);
        Some(changes)
    }

    fn update_of(&self, partition: u32, change: &PartitionChange) -> CursorUpdate {
        let progress = self.partitions.get(&partition);
        CursorUpdate {
            partition,
            cursor: progress
                .map(|progress| progress.cursor(self.read_position))
                .unwrap_or_default(),
            retries: change
                .retries
                .iter()
                .filter_map(|&seq| Some(self.window.get(seq)?.retry(seq)))
                .collect(),
            settled: change.settled.iter().copied().collect(),
        }
    }

    fn hand_over(&mut self, seq: u64) {
        let Some(mut entry) = self.window.remove_keeping_key(seq) else {
            return;
        };
        self.note_settled(seq, &entry);
        if let Some(event) = entry.body.take() {
            self.unsaved.dead.push(HandedOver {
                seq,
                key: entry.key,
                letter: DeadLetter {
                    event,
                    attempts: entry.attempts,
                    reason: entry.reason,
                },
            });
        }
    }

    /// Lets cursor and retries know that an event is over.
    pub(super) fn note_settled(&mut self, seq: u64, entry: &Entry) {
        if let Some(progress) = self.partitions.get_mut(&entry.partition) {
            progress.ack(seq);
        }
        let change = self.unsaved.partition(entry.partition);
        change.retries.remove(&seq);
        if entry.has_row {
            change.settled.insert(seq);
        }
    }

    /// The dead letters that were handed out and that the store does not have for certain.
    pub(super) fn unsaved_dead(&self) -> impl Iterator<Item = &HandedOver> {
        let with_store = self.saving.iter().flat_map(|saving| &saving.dead);
        self.unsaved.dead.iter().chain(with_store)
    }

    /// The store has what was handed out: its dead letters are over.
    pub fn saved(&mut self) {
        for handed in self.saving.take().unwrap_or_default().dead {
            self.window.release_key(handed.key.as_deref(), handed.seq);
        }
    }

    /// The store may not have what was handed out: all of it comes again with the next changes.
    pub fn save_failed(&mut self) {
        let Some(failed) = self.saving.take() else {
            return;
        };
        for (partition, change) in failed.partitions {
            let again = self.unsaved.partition(partition);
            // Those that were settled meanwhile are among the settled ones already.
            again
                .retries
                .extend(change.retries.into_iter().filter(|&seq| self.window.get(seq).is_some()));
            again.settled.extend(change.settled);
        }
        self.unsaved.dead.extend(failed.dead);
        self.unsaved.dropped_dead = self.unsaved.dropped_dead.saturating_add(failed.dropped_dead);
    }
}
