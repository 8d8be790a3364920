//! Which events were published and which arrived: what is missing, doubled or out of order.

use std::collections::HashMap;

/// A set of small numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Adds a number; false where it was in there.
    pub(super) fn add(&mut self, number: u64) -> bool {
        let (at, bit) = ((number / 64) as usize, 1 << (number % 64));
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        let word = &mut self.0[at];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// How many there are that the other does not have.
    fn without(&self, other: &Bits) -> u64 {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        let words = self.0.iter().zip(others);
        words.map(|(own, other)| u64::from((own & !other).count_ones())).sum()
    }
}

/// What arrived at one group.
#[derive(Debug)]
pub(super) struct GroupLedger {
    /// By publisher.
    seen: Vec<Bits>,
    /// Deliveries of what the group had been given before.
    pub(super) doubled: u64,
    /// First deliveries that came to a member after a later one of their partition.
    pub(super) out_of_order: u64,
}

impl GroupLedger {
    pub(super) fn new(publishers: usize) -> GroupLedger {
        GroupLedger {
            seen: vec![Bits::default(); publishers],
            doubled: 0,
            out_of_order: 0,
        }
    }

    /// An event came to a member.
    pub(super) fn note(&mut self, publisher: usize, number: u64) {
        if !self.seen.get_mut(publisher).is_some_and(|seen| seen.add(number)) {
            self.doubled += 1;
        }
    }

    /// How many confirmed events have not come.
    pub(super) fn missing(&self, confirmed: &[Bits]) -> u64 {
        let pairs = confirmed.iter().zip(&self.seen);
        pairs.map(|(confirmed, seen)| confirmed.without(seen)).sum()
    }
}

/// The order in which one member is given events.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The newest seq of each partition.
    newest: HashMap<u32, u64>,
}

impl Order {
    /// Whether a first delivery comes after all earlier ones of its partition.
    pub(super) fn note(&mut self, partition: u32, seq: u64) -> bool {
        let newest = self.newest.entry(partition).or_default();
        let in_order = seq > *newest;
        *newest = seq.max(*newest);
        in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_doubled_is_counted() {
        let mut confirmed = vec![Bits::default(), Bits::default()];
        for number in [0, 1, 63, 64, 1_000] {
            assert!(confirmed[0].add(number) && !confirmed[0].add(number));
        }
        confirmed[1].add(5);
        let mut group = GroupLedger::new(2);
        assert_eq!(group.missing(&confirmed), 6);
        for number in [0, 1, 63, 64] {
            group.note(0, number);
        }
        // One whose answer was lost may come all the same.
        group.note(0, 2_000);
        assert_eq!((group.missing(&confirmed), group.doubled), (2, 0));
        group.note(0, 64);
        group.note(1, 5);
        group.note(0, 1_000);
        assert_eq!((group.missing(&confirmed), group.doubled), (0, 1));
    }

    #[test]
    fn order_is_that_of_a_partition() {
        let mut order = Order::default();
        assert!(order.note(0, 5) && order.note(1, 3) && order.note(0, 6));
        assert!(!order.note(0, 4) && !order.note(0, 6));
        assert!(order.note(0, 7) && order.note(1, 4));
    }
}
