//! The unacked events between a group's lowest floor and its read position, and the lists that say what can be done with
//! them: each entry is in at most one list, and [`Window::update`] is the only way to change it.
//!
//! An event's body is kept only while it can be delivered now (or is about to be a dead letter), and only so many: what
//! does not fit is read again when its turn comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::entry::{Entry, Spot, State};
use crate::domain::{Event, WINDOW};

/// What bounds a group's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most seqs looked at past the lowest floor.
    pub window: u64,
    /// The most bodies kept for delivery.
    pub bodies: usize,
    /// The most bytes of them (one is always kept), and of those kept for dead letters.
    pub body_bytes: usize,
    /// The most events that are read again at a time, and the most that are dead letters at a time.
    pub loads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            window: WINDOW,
            bodies: 1_000,
            body_bytes: 4 << 20,
            loads: 100,
        }
    }
}

/// How many bodies a list has, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub count: usize,
    pub bytes: usize,
}

impl Load {
    pub fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether it is within these bounds, one being fine however large.
    pub fn is_within(&self, count_max: usize, bytes_max: usize) -> bool {
        self.count <= 1 || (self.count <= count_max && self.bytes <= bytes_max)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Window {
    limits: Limits,
    entries: BTreeMap<u64, Entry>,
    ids: HashMap<Arc<str>, u64>,
    /// The unacked seqs of each key; `None` where the group is not ordered.
    keys: Option<HashMap<Arc<str>, BTreeSet<u64>>>,
    deliverable: BTreeSet<u64>,
    deliverable_load: Load,
    /// By [`Spot::Hungry`]'s `others_may_pass`, then by seq.
    hungry: BTreeSet<(bool, u64)>,
    timed: BTreeSet<(u64, u64)>,
    dying: BTreeSet<u64>,
    doomed: BTreeSet<u64>,
    doomed_load: Load,
}

impl Window {
    pub fn new(limits: Limits, ordered: bool) -> Window {
        Window {
            limits,
            keys: ordered.then(HashMap::new),
            ..Window::default()
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn lowest(&self) -> Option<u64> {
        self.entries.keys().next().copied()
    }

    pub fn lowest_below(&self, seq: u64) -> Option<u64> {
        self.lowest().filter(|&lowest| lowest < seq)
    }

    pub fn get(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(&seq)
    }

    pub fn seq_of(&self, id: &str) -> Option<u64> {
        self.ids.get(id).copied()
    }

    pub fn seqs(&self) -> Vec<u64> {
        self.entries.keys().copied().collect()
    }

    /// Adds an event above all that are in it.
    pub fn insert(&mut self, seq: u64, entry: Entry) {
        self.ids.insert(entry.id.clone(), seq);
        if let (Some(keys), Some(key)) = (&mut self.keys, &entry.key) {
            keys.entry(key.clone()).or_default().insert(seq);
        }
        self.entries.insert(seq, entry);
        self.place(seq);
    }

    pub fn remove(&mut self, seq: u64) -> Option<Entry> {
        let entry = self.remove_keeping_key(seq)?;
        self.release_key(entry.key.as_deref(), seq);
        Some(entry)
    }

    /// Removes an event whose key goes on waiting until [`Window::release_key`].
    pub fn remove_keeping_key(&mut self, seq: u64) -> Option<Entry> {
        let entry = self.entries.remove(&seq)?;
        self.ids.remove(&entry.id);
        self.unlist(seq, entry.spot, entry.size);
        Some(entry)
    }

    /// Lets the next event of a key go.
    pub fn release_key(&mut self, key: Option<&str>, seq: u64) {
        let (Some(keys), Some(key)) = (&mut self.keys, key) else {
            return;
        };
        let Some(seqs) = keys.get_mut(key) else {
            return;
        };
        seqs.remove(&seq);
        match seqs.first().copied() {
            Some(next) => self.place(next),
            None => drop(keys.remove(key)),
        }
    }

    /// Changes an entry and puts it into the list where it then belongs.
    pub fn update<R>(&mut self, seq: u64, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let result = change(self.entries.get_mut(&seq)?);
        self.place(seq);
        Some(result)
    }

    /// Makes the keys' events come one after the other, or not. `leaving`: what was removed with its key kept waiting.
    pub fn set_ordered(&mut self, ordered: bool, leaving: Vec<(Arc<str>, u64)>) {
        if ordered == self.keys.is_some() {
            return;
        }
        self.keys = ordered.then(|| {
            let mut keys = HashMap::<Arc<str>, BTreeSet<u64>>::new();
            let open = self
                .entries
                .iter()
                .filter_map(|(&seq, entry)| Some((entry.key.clone()?, seq)));
            for (key, seq) in open.chain(leaving) {
                keys.entry(key).or_default().insert(seq);
            }
            keys
        });
        for seq in self.seqs() {
            self.place(seq);
        }
    }

    /// The event to be delivered next, with its size: the lowest, unless a lower one still has to be read again.
    pub fn next_deliverable(&self) -> Option<(u64, usize)> {
        self.deliverables().next()
    }

    /// The events that can be delivered now, lowest first, with their sizes.
    pub fn deliverables(&self) -> impl Iterator<Item = (u64, usize)> {
        let blocker = self.hungry_from(false).next().unwrap_or(u64::MAX);
        self.deliverable
            .range(..blocker)
            .filter_map(|&seq| Some((seq, self.entries.get(&seq)?.size)))
    }

    /// What could be delivered had it its body, lowest first: of those that others may pass, or of those they may not.
    pub fn hungry_from(&self, others_may_pass: bool) -> impl Iterator<Item = u64> {
        self.hungry
            .range((others_may_pass, 0)..=(others_may_pass, u64::MAX))
            .map(|&(_, seq)| seq)
    }

    pub fn highest_deliverable(&self) -> Option<u64> {
        self.deliverable.last().copied()
    }

    pub fn deliverable_load(&self) -> Load {
        self.deliverable_load
    }

    /// All entries, lowest seq first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(&seq, entry)| (seq, entry))
    }

    /// Whether an event waits for an earlier one of its key; then that one's seq and how many wait for it.
    pub fn key_holder(&self, entry: &Entry) -> Option<(u64, usize)> {
        let seqs = self.keys.as_ref()?.get(entry.key.as_ref()?)?;
        Some((*seqs.first()?, seqs.len().saturating_sub(1)))
    }

    pub fn dying(&self) -> impl Iterator<Item = u64> {
        self.dying.iter().copied()
    }

    pub fn doomed(&self) -> &BTreeSet<u64> {
        &self.doomed
    }

    pub fn doomed_load(&self) -> Load {
        self.doomed_load
    }

    /// The earliest time at which something happens, and to what.
    pub fn next_timed(&self) -> Option<(u64, u64)> {
        self.timed.first().copied()
    }

    pub fn timed_len(&self) -> usize {
        self.timed.len()
    }

    pub fn ready_len(&self) -> usize {
        self.deliverable.len() + self.hungry.len()
    }

    pub fn dying_len(&self) -> usize {
        self.dying.len() + self.doomed.len()
    }

    /// Gives an entry the body it was waiting for; one that does not wait any more drops it.
    pub fn give_body(&mut self, event: Arc<Event>) {
        self.update(event.seq, |entry| entry.body = Some(event));
    }

    fn place(&mut self, seq: u64) {
        let Some(entry) = self.entries.get_mut(&seq) else {
            return;
        };
        let first_of_key = match (&self.keys, &entry.key) {
            (Some(keys), Some(key)) => keys
                .get(key)
                .and_then(BTreeSet::first)
                .is_none_or(|&first| first >= seq),
            _ => true,
        };
        let has_body = entry.body.is_some();
        let mut doomed_load = self.doomed_load;
        doomed_load.add(entry.size);
        let may_be_doomed =
            entry.spot == Spot::Doomed || doomed_load.is_within(self.limits.loads, self.limits.body_bytes);
        let spot = match entry.state {
            State::Leased { until_ms, .. } => Spot::Timed(until_ms),
            State::Waiting => Spot::Timed(entry.due_ms),
            State::Dying if has_body && may_be_doomed => Spot::Doomed,
            State::Dying => Spot::Dying,
            State::Ready if !first_of_key => {
                entry.was_held = true;
                Spot::Nowhere
            }
            State::Ready if has_body => Spot::Deliverable,
            State::Ready => Spot::Hungry {
                others_may_pass: entry.attempts > 0 || entry.was_held,
            },
        };
        if !matches!(spot, Spot::Deliverable | Spot::Doomed) {
            entry.body = None;
        }
        let size = entry.size;
        let before = std::mem::replace(&mut entry.spot, spot);
        if before != spot {
            self.unlist(seq, before, size);
            self.list(seq, spot, size);
        }
    }

    fn unlist(&mut self, seq: u64, spot: Spot, size: usize) {
        match spot {
            Spot::Nowhere => {}
            Spot::Deliverable => {
                self.deliverable.remove(&seq);
                self.deliverable_load.remove(size);
            }
            Spot::Hungry { others_may_pass } => drop(self.hungry.remove(&(others_may_pass, seq))),
            Spot::Timed(at) => drop(self.timed.remove(&(at, seq))),
            Spot::Dying => drop(self.dying.remove(&seq)),
            Spot::Doomed => {
                self.doomed.remove(&seq);
                self.doomed_load.remove(size);
            }
        }
    }

    fn list(&mut self, seq: u64, spot: Spot, size: usize) {
        match spot {
            Spot::Nowhere => {}
            Spot::Deliverable => {
                self.deliverable.insert(seq);
                self.deliverable_load.add(size);
                self.drop_bodies();
            }
            Spot::Hungry { others_may_pass } => drop(self.hungry.insert((others_may_pass, seq))),
            Spot::Timed(at) => drop(self.timed.insert((at, seq))),
            Spot::Dying => drop(self.dying.insert(seq)),
            Spot::Doomed => {
                self.doomed.insert(seq);
                self.doomed_load.add(size);
            }
        }
    }

    /// Keeps the bodies within their bounds; the highest seqs are delivered last, so theirs go first.
    fn drop_bodies(&mut self) {
        while !self
            .deliverable_load
            .is_within(self.limits.bodies, self.limits.body_bytes)
            && let Some(highest) = self.highest_deliverable()
        {
            self.update(highest, |entry| entry.body = None);
        }
    }
}

#[cfg(test)]
impl Window {
    /// Checks the lists against the entries, one by one.
    pub fn assert_sound(&self) {
        let (mut ready, mut doomed, mut listed) = (Load::default(), Load::default(), 0);
        for (&seq, entry) in &self.entries {
            assert_eq!(self.ids.get(&entry.id), Some(&seq));
            let (is_listed, keeps_body) = match entry.spot {
                Spot::Nowhere => (true, false),
                Spot::Deliverable => {
                    ready.add(entry.size);
                    (self.deliverable.contains(&seq), true)
                }
                Spot::Hungry { others_may_pass } => (self.hungry.contains(&(others_may_pass, seq)), false),
                Spot::Timed(at) => (self.timed.contains(&(at, seq)), false),
                Spot::Dying => (self.dying.contains(&seq), false),
                Spot::Doomed => {
                    doomed.add(entry.size);
                    (self.doomed.contains(&seq), true)
                }
            };
            assert!(is_listed, "{seq} is not where it says: {:?}", entry.spot);
            assert_eq!(entry.body.is_some(), keeps_body, "{seq}: {:?}", entry.spot);
            listed += usize::from(entry.spot != Spot::Nowhere);
        }
        assert_eq!(self.ids.len(), self.entries.len());
        assert_eq!(listed, self.ready_len() + self.timed.len() + self.dying_len());
        assert_eq!(
            (ready.count, ready.bytes),
            (self.deliverable_load.count, self.deliverable_load.bytes)
        );
        assert_eq!(
            (doomed.count, doomed.bytes),
            (self.doomed_load.count, self.doomed_load.bytes)
        );
        assert!(ready.is_within(self.limits.bodies, self.limits.body_bytes));
        assert!(doomed.is_within(self.limits.loads, self.limits.body_bytes));
        if let (Some(&lowest), Some(&highest)) = (self.entries.keys().next(), self.entries.keys().last()) {
            assert!(highest - lowest < self.limits.window);
        }
    }
}
