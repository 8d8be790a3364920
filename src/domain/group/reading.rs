//! What a group reads from the log: new events as far as its window and its members reach, and single events again when
//! their body is needed once more.

use std::collections::HashSet;
use std::sync::Arc;

use super::entry::Entry;
use super::{Group, ReadPlan};
use crate::domain::Event;

impl Group {
    /// Everything up to this seq was looked at.
    pub fn read_position(&self) -> u64 {
        self.read_position
    }

    /// Whether the group may look at this seq now.
    pub fn in_window(&self, seq: u64) -> bool {
        seq <= self.lowest_floor().saturating_add(self.limits.window)
    }

    /// Asks for reading up to a seq whatever the demand, because an ack came for it. That ack has to be given again once
    /// the read position is there.
    pub fn read_through(&mut self, seq: u64) {
        self.read_goal = self.read_goal.max(seq);
    }

    /// What to read next, where the log ends at `tail`. `None` where there is no use in it now: nothing new, the window is
    /// full, enough is ready, or nobody has room.
    pub fn next_read(&self, tail: u64) -> Option<ReadPlan> {
        let window_end = self.lowest_floor().saturating_add(self.limits.window);
        let reach = tail.min(window_end).saturating_sub(self.read_position);
        let asked = self.read_goal.saturating_sub(self.read_position).min(reach);
        let wanted = if asked > 0 { asked } else { self.demand().min(reach) };
        if wanted == 0 {
            return None;
        }
        let held = self.window.deliverable_load().bytes;
        Some(ReadPlan {
            from: self.read_position + 1,
            max_events: usize::try_from(wanted).unwrap_or(usize::MAX).min(self.limits.bodies),
            max_bytes: self
                .limits
                .body_bytes
                .saturating_sub(held)
                .max(self.limits.body_bytes / 4),
        })
    }

    /// How many new events the members could use: a batch of each as soon as less than that is ready.
    fn demand(&self) -> u64 {
        if !self.has_room() || self.window.deliverable_load().bytes > self.limits.body_bytes / 2 {
            return 0;
        }
        let takers = self.members.iter().filter(|member| member.room() > 0);
        let batches = takers.fold(0_usize, |sum, member| {
            sum.saturating_add(member.settings.batch_size.max(1) as usize)
        });
        let batch = batches.min(self.limits.bodies / 2);
        if self.window.ready_len() < batch {
            batch as u64
        } else {
            0
        }
    }

    /// Takes what was read: all kept events above the read position up to `upto`, in seq order. What is not among them is
    /// no longer in the log. Moves the read position to `upto`, or as far as the window reaches. What was read before a
    /// [`Group::seek`] is not to be offered after it: it may begin above the new position.
    pub fn offer(&mut self, events: Vec<Arc<Event>>, upto: u64) {
        for event in events {
            if event.seq <= self.read_position || event.seq > upto {
                continue;
            }
            self.move_to(event.seq - 1);
            if !self.in_window(event.seq) {
                break;
            }
            self.read_position = event.seq;
            self.admit(event);
        }
        self.move_to(upto);
        self.forget_retries_read_past();
        self.forget_inherited_read_past();
    }

    /// Moves the read position over seqs that hold nothing, within the window.
    fn move_to(&mut self, seq: u64) {
        let window_end = match self.window.lowest() {
            Some(lowest) => lowest.saturating_sub(1).saturating_add(self.limits.window),
            None => u64::MAX,
        };
        self.read_position = self.read_position.max(seq.min(window_end));
    }

    fn admit(&mut self, event: Arc<Event>) {
        let seq = event.seq;
        let retry = self.stored_retries.remove(&seq);
        let progress = self.partitions.entry(event.partition).or_default();
        let was_acked = progress.was_acked(seq);
        // What was delivered before belongs to the group, whatever the filter says now.
        let left_out = !was_acked
            && retry.is_none()
            && !self.inherited.contains_key(&seq)
            && seq > self.settings.filter_since
            && self
                .settings
                .filter
                .as_ref()
                .is_some_and(|filter| !filter.matches(&event));
        progress.read(seq, event.ordinal, was_acked || left_out);
        if left_out {
            self.unsaved.partition(event.partition);
        } else if was_acked {
            if retry.is_some() {
                self.unsaved.partition(event.partition).settled.insert(seq);
            }
        } else {
            self.window.insert(seq, Entry::new(event, retry));
            self.hold_again(seq);
        }
    }

    /// Lets the store forget retries of events that are gone. Their partition is not known any more; a retry is found by
    /// its seq alone, so any update can name it.
    fn forget_retries_read_past(&mut self) {
        while let Some(retry) = self.stored_retries.first_entry()
            && *retry.key() <= self.read_position
        {
            let (seq, _) = retry.remove_entry();
            if let Some(&partition) = self.partitions.keys().next() {
                self.unsaved.partition(partition).settled.insert(seq);
            }
        }
    }

    /// The seqs whose body is needed again, for a redelivery or a dead letter. Each is named once until
    /// [`Group::loaded`] or [`Group::load_failed`].
    pub fn take_loads(&mut self, now_ms: u64) -> Vec<u64> {
        self.tick(now_ms);
        let mut seqs = self.dead_letter_loads();
        if self.has_room() {
            let room = self.limits.loads.saturating_sub(self.loading.len() + seqs.len());
            seqs.extend(self.redelivery_loads(room));
        }
        self.loading.extend(&seqs);
        seqs
    }

    fn dead_letter_loads(&self) -> Vec<u64> {
        let mut seqs = Vec::new();
        // One load of dead letters at a time, so that they do not pile up while the store does not take them.
        if self.unsaved_dead().next().is_some() {
            return seqs;
        }
        let mut load = self.window.doomed_load();
        for seq in self.window.dying() {
            load.add(self.size_of(seq));
            if !load.is_within(self.limits.loads, self.limits.body_bytes)
                || self.loading.len() + seqs.len() >= self.limits.loads
            {
                break;
            }
            if !self.loading.contains(&seq) {
                seqs.push(seq);
            }
        }
        seqs
    }

    fn redelivery_loads(&self, room: usize) -> Vec<u64> {
        let mut seqs = Vec::new();
        let mut load = self.window.deliverable_load();
        // What comes before a body that is kept is loaded even if none fits: the highest one gives way to it.
        let highest = self.window.highest_deliverable().unwrap_or_default();
        for others_may_pass in [false, true] {
            for seq in self.window.hungry_from(others_may_pass) {
                load.add(self.size_of(seq));
                let is_useful = seq < highest || load.is_within(self.limits.bodies, self.limits.body_bytes);
                if !is_useful || seqs.len() >= room {
                    break;
                }
                if !self.loading.contains(&seq) {
                    seqs.push(seq);
                }
            }
        }
        seqs
    }

    fn size_of(&self, seq: u64) -> usize {
        self.window.get(seq).map_or(0, |entry| entry.size)
    }

    /// Takes what was read again. What was asked for and is not among `events` was removed from the log and counts as
    /// acked; the answer is how many of those were unacked.
    pub fn loaded(&mut self, asked: &[u64], events: Vec<Arc<Event>>) -> u64 {
        let mut missing: HashSet<u64> = asked.iter().copied().collect();
        self.load_failed(asked);
        for event in events {
            if missing.remove(&event.seq) {
                self.window.give_body(event);
            }
        }
        missing.into_iter().map(|seq| u64::from(self.settle(seq))).sum()
    }

    /// What was asked for could not be read: it is asked for again.
    pub fn load_failed(&mut self, asked: &[u64]) {
        for seq in asked {
            self.loading.remove(seq);
        }
    }

    /// The log begins at `first` now: what was before counts as acked. `ordinals` are those of each partition just below
    /// `first`. The answer is how many unacked events that were: exactly, but that events which a filter would have left
    /// out are counted, and that one acked in an earlier life may stand for one that was not.
    pub fn expire_below(&mut self, first: u64, ordinals: &[u64]) -> u64 {
        let mut expired = 0;
        while let Some(seq) = self.window.lowest_below(first) {
            expired += u64::from(self.settle(seq));
        }
        for (partition, ordinal) in (0..).zip(ordinals) {
            let progress = self.partitions.entry(partition).or_default();
            if let Some(unread) = progress.skip_below(first, *ordinal) {
                expired += unread;
                self.unsaved.partition(partition);
            }
        }
        self.move_to(first.saturating_sub(1));
        self.forget_retries_read_past();
        self.forget_inherited_read_past();
        expired
    }

    fn lowest_floor(&self) -> u64 {
        self.window
            .lowest()
            .map_or(self.read_position, |lowest| lowest.saturating_sub(1))
    }
}
