//! One group in memory: its place, its retries, the marks of what its consumers have handled, and the claims on what they
//! are handling.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::{CursorUpdate, GroupSettings, PartitionCursor, Retry};
use crate::store::claims::Claims;
use crate::store::{EventClaim, GroupState, Pause};

/// Each group has claims of its own, so its number in them tells nothing.
const OWN: u64 = 0;

pub(super) struct Group {
    pub settings: GroupSettings,
    pub paused: Option<Pause>,
    pub epoch: u64,
    seeks: u64,
    cursors: Vec<PartitionCursor>,
    retries: BTreeMap<u64, Retry>,
    /// Until when each mark lasts, and the same in the order in which they end.
    marks: HashMap<Box<str>, u64>,
    ends: BTreeSet<(u64, Box<str>)>,
    claims: Claims,
}

impl Group {
    pub fn new(settings: GroupSettings, cursors: Vec<PartitionCursor>, epoch: u64) -> Group {
        Group {
            settings,
            paused: None,
            epoch,
            seeks: 0,
            cursors,
            retries: BTreeMap::new(),
            marks: HashMap::new(),
            ends: BTreeSet::new(),
            claims: Claims::default(),
        }
    }

    pub fn state(&self) -> GroupState {
        GroupState {
            settings: self.settings.clone(),
            paused: self.paused.clone(),
            epoch: self.epoch,
            seeks: self.seeks,
            cursors: self.cursors.clone(),
            retries: self.retries.values().cloned().collect(),
        }
    }

    pub fn update(&mut self, update: CursorUpdate) {
        let partition = update.partition as usize;
        if partition >= self.cursors.len() {
            self.cursors.resize(partition + 1, PartitionCursor::default());
        }
        if let Some(cursor) = self.cursors.get_mut(partition) {
            *cursor = update.cursor;
        }
        for retry in update.retries {
            self.retries.insert(retry.seq, retry);
        }
        for seq in update.settled {
            self.retries.remove(&seq);
        }
    }

    pub fn seek(&mut self, cursors: Vec<PartitionCursor>) {
        self.cursors = cursors;
        self.retries.clear();
        self.settings.filter_since = 0;
        self.seeks += 1;
    }

    pub fn claim(&mut self, id: &str, owner: &str, ttl_ms: u64, now_ms: u64) -> EventClaim {
        if self.has_mark(id, now_ms) {
            return EventClaim::Seen;
        }
        self.claims.claim(OWN, id, owner, ttl_ms, now_ms)
    }

    pub fn release(&mut self, id: &str, owner: &str) {
        self.claims.release(OWN, id, owner);
    }

    pub fn mark(&mut self, id: Box<str>, until_ms: u64, now_ms: u64) {
        self.claims.settle(OWN, &id);
        while let Some((until, _)) = self.ends.first()
            && *until <= now_ms
        {
            if let Some((_, over)) = self.ends.pop_first() {
                self.marks.remove(&over);
            }
        }
        if let Some(until) = self.marks.insert(id.clone(), until_ms) {
            self.ends.remove(&(until, id.clone()));
        }
        self.ends.insert((until_ms, id));
    }

    pub fn has_mark(&self, id: &str, now_ms: u64) -> bool {
        self.marks.get(id).is_some_and(|until| *until > now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_over_take_no_memory() {
        let mut group = Group::new(GroupSettings::default(), vec![], 1);
        for n in 0..100_u64 {
            group.mark(format!("id-{n}").into(), n + 10, n);
        }
        group.mark("again".into(), 300, 100);
        group.mark("again".into(), 200, 100);
        assert_eq!((group.marks.len(), group.ends.len()), (10, 10));
        assert!(group.has_mark("again", 199) && !group.has_mark("again", 200));
    }
}
