//! What must hold after every step, and at the end of every history.

use super::model::Item;
use super::steps::Step;
use super::world::{LIMITS, World};
use crate::domain::{MemberSettings, Retry};

impl World {
    pub fn check(&self) {
        self.group.window.assert_sound();
        let items = &self.model.items;
        let open: Vec<u64> = items
            .iter()
            .filter(|item| item.is_open())
            .map(|item| item.event.seq)
            .collect();
        assert_eq!(self.group.window.seqs(), open);
        let lowest_floor = open.first().map_or(self.group.read_position(), |lowest| lowest - 1);
        assert!(self.group.read_position() <= lowest_floor + LIMITS.window);
        assert_eq!(self.group.member_count(), self.model.members.len());
        let stats = self.group.stats();
        let count = |test: &dyn Fn(&Item) -> bool| items.iter().filter(|item| test(item)).count();
        assert_eq!(stats.inflight, count(&|item| item.holder.is_some()));
        assert_eq!(stats.dying, count(&|item| item.is_open() && item.dying));
        assert_eq!(stats.ready, count(&|item| self.model.is_deliverable(item)));
        assert_eq!(
            stats.held,
            count(&|item| self.model.is_ready(item) && self.model.is_held(item))
        );
        assert_eq!(stats.oldest_unacked, open.first().copied());
        assert!(self.group.next_deadline().is_none_or(|at| at > self.model.now_ms));
        for (partition, cursor) in (0..).zip(self.group.cursors()) {
            if let Some(expected) = self.model.cursor(partition, self.group.read_position()) {
                assert_eq!(cursor, expected, "partition {partition}");
            }
            let mine = || items.iter().filter(|item| item.event.partition == partition);
            for item in mine().filter(|item| !item.removed) {
                assert_eq!(cursor.is_acked(item.event.seq), item.acked, "{item:?} {cursor:?}");
            }
            if !self.anything_removed {
                let unacked = mine().filter(|item| !item.acked).count() as u64;
                assert_eq!(
                    mine().count() as u64 - cursor.floor_ordinal - cursor.acked_count,
                    unacked
                );
            }
        }
        let (lag, tail) = (self.group.lag(self.model.tail()), self.model.tail());
        // What was removed counts until the group finds out.
        let is_unacked = |item: &&Item| !item.acked && (!item.removed || item.is_open());
        let unacked = items.iter().filter(is_unacked).count() as u64;
        // Where single events were removed, what is left of a stored count is not known before it was read again.
        if !self.anything_removed || self.group.read_position() >= tail {
            assert_eq!(lag, unacked, "the lag");
        }
        assert_eq!(self.group.snapshot(tail).lag, lag);
        assert!(self.group.unsaved_dead().count() <= 2 * LIMITS.loads);
        if !self.group.is_dirty() && self.saving.is_none() {
            self.check_stored();
        }
    }

    /// A group that has nothing to save has all of it in the store.
    fn check_stored(&self) {
        for item in self.model.items.iter().filter(|item| item.offered && !item.removed) {
            let cursor = &self.stored.cursors[item.event.partition as usize];
            assert_eq!(cursor.is_acked(item.event.seq), item.acked, "{item:?} {cursor:?}");
        }
        let failed = self
            .model
            .items
            .iter()
            .filter(|item| item.is_open() && item.attempts > 0);
        let expected: Vec<Retry> = failed.map(Item::retry).collect();
        let read = self.stored.retries.range(..=self.group.read_position());
        assert_eq!(read.map(|(_, retry)| retry.clone()).collect::<Vec<_>>(), expected);
    }

    /// Everybody leaves, one member that acks all it gets comes, and the store works: then nothing may be left.
    pub fn come_to_rest(&mut self) {
        for id in self.model.members.keys().copied().collect::<Vec<_>>() {
            self.leave(id, false);
        }
        self.take(Step::PauseGroup(false));
        self.take(Step::Join(
            9,
            MemberSettings {
                max_in_flight: 2,
                ..MemberSettings::default()
            },
        ));
        self.settle_down();
        for round in 0.. {
            assert!(
                round < 1_000,
                "the group does not come to its end: {:?}",
                self.group.stats()
            );
            self.pump();
            while let Some(seq) = self.some_held(0) {
                self.ack(seq);
            }
            self.settle_down();
            self.answer_save(true, true);
            self.take_changes();
            self.answer_save(true, true);
            self.take(Step::Pass(30_000));
            self.settle_down();
            self.check();
            if !self.group.is_dirty()
                && self.group.stats().oldest_unacked.is_none()
                && self.group.read_position() == self.model.tail()
            {
                break;
            }
        }
        let lost = self.model.items.iter().find(|item| !item.acked);
        assert!(lost.is_none(), "lost: {lost:?}");
        assert!(self.stored.retries.is_empty(), "left over: {:?}", self.stored.retries);
    }
}
