//! The group's store: what is saved, what is lost, and beginning again from it.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{LIMITS, PARTITIONS, World};
use crate::domain::group::{Changes, Group};
use crate::domain::{PartitionCursor, Retry};

/// What a store would have.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub cursors: Vec<PartitionCursor>,
    pub retries: BTreeMap<u64, Retry>,
    pub dead: BTreeSet<u64>,
}

impl World {
    pub fn take_changes(&mut self) {
        let (dirty, busy) = (self.group.is_dirty(), self.saving.is_some());
        let Some(changes) = self.group.take_changes() else {
            assert!(busy || !dirty);
            return;
        };
        assert!(dirty && !busy);
        assert_eq!(changes.dropped_dead, self.model.dropped_dead);
        self.model.dropped_dead = 0;
        for letter in &changes.dead {
            let item = self.model.item(letter.event.seq);
            assert!(item.handed || (item.dying && item.is_open()), "{item:?}");
            assert_eq!(
                (letter.attempts, &*letter.reason),
                (item.attempts, item.reason.as_str())
            );
            (item.handed, item.acked) = (true, true);
        }
        let handed = self.model.items.iter().filter(|item| item.handed).count();
        assert_eq!(handed, changes.dead.len(), "a dead letter did not come again");
        let cursors = self.group.cursors();
        for update in &changes.updates {
            assert_eq!(update.cursor, cursors[update.partition as usize]);
            for retry in &update.retries {
                let item = self.model.item(retry.seq);
                assert!(item.is_open() && item.event.partition == update.partition);
                assert_eq!(*retry, item.retry());
            }
            for &seq in &update.settled {
                assert!(self.model.item(seq).acked);
            }
        }
        self.saving = Some(changes);
    }

    pub fn write(&mut self, changes: &Changes) {
        for update in &changes.updates {
            let before = std::mem::replace(
                &mut self.stored.cursors[update.partition as usize],
                update.cursor.clone(),
            );
            assert!(before.floor <= update.cursor.floor, "a floor went down");
            for retry in &update.retries {
                self.stored.retries.insert(retry.seq, retry.clone());
            }
            for seq in &update.settled {
                self.stored.retries.remove(seq);
            }
        }
        self.stored
            .dead
            .extend(changes.dead.iter().map(|letter| letter.event.seq));
    }

    pub fn answer_save(&mut self, written: bool, told: bool) {
        let Some(changes) = self.saving.take() else {
            return;
        };
        if written {
            self.write(&changes);
        }
        if written && told {
            for letter in &changes.dead {
                self.model.item(letter.event.seq).handed = false;
            }
            self.group.saved();
        } else {
            self.model.dropped_dead += changes.dropped_dead;
            self.group.save_failed();
        }
    }

    pub fn restart(&mut self, written: bool) {
        if let Some(changes) = self.saving.take().filter(|_| written) {
            self.write(&changes);
        }
        self.loads.clear();
        self.model.members.clear();
        self.model.group_paused = false;
        let retries = self.stored.retries.values().cloned().collect();
        let (settings, cursors) = (self.model.settings.clone(), self.stored.cursors.clone());
        self.group = Group::with_limits(LIMITS, settings, cursors, retries, self.model.dead_letters);
        self.model.begin(&self.stored.cursors, &self.stored.retries);
        self.expire(self.first);
    }

    /// The group begins again from what is stored, and goes on with its members and what they hold.
    pub fn bequeath(&mut self) {
        // What was not saved is another matter: see `restart`.
        while self.saving.is_some() || self.group.is_dirty() {
            self.answer_save(true, true);
            self.take_changes();
            self.answer_save(true, true);
        }
        let held: Vec<_> = self.model.items.iter().filter(|item| item.is_open()).collect();
        let held: Vec<_> = held
            .iter()
            .filter_map(|item| Some((item.event.seq, item.holder?)))
            .collect();
        let estate = self.group.estate(|_| true);
        let members = std::mem::take(&mut self.model.members);
        self.restart(false);
        self.model.members = members;
        for member in self.model.members.values_mut() {
            (member.paused, member.events, member.bytes, member.named) = (true, 0, 0, false);
        }
        for (seq, holder) in held {
            let item = self.model.item(seq);
            (item.holder, item.delivered) = (Some(holder).filter(|_| !item.acked), true);
        }
        self.group.inherit(estate);
        while !self.group.inherited.is_empty() {
            assert!(self.read(usize::MAX), "what members hold is read, whatever the demand");
        }
    }

    pub fn expire(&mut self, first: u64) {
        self.first = first;
        let mut expected = 0;
        for seq in 1..first {
            let item = self.model.item(seq);
            expected += u64::from(item.is_open());
            (item.removed, item.acked, item.holder) = (true, true, None);
        }
        assert_eq!(self.group.expire_below(first, &[]), expected);
    }

    pub fn seek(&mut self, floor: u64) {
        let mut cursors = vec![
            PartitionCursor {
                floor,
                ..PartitionCursor::default()
            };
            PARTITIONS as usize
        ];
        for item in self.model.items.iter().filter(|item| item.event.seq <= floor) {
            cursors[item.event.partition as usize].floor_ordinal += 1;
        }
        self.group.seek(cursors.clone());
        self.stored.cursors = cursors;
        self.stored.retries.clear();
        self.saving = self.saving.take().map(|_| Changes::default());
        self.model.begin(&self.stored.cursors, &self.stored.retries);
        self.expire(self.first);
    }
}
