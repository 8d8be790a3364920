//! Claims on events, for stores that one process has to itself: in memory, because who held one ended with the process.

use std::collections::{BTreeSet, HashMap};

use super::EventClaim;

/// Whose an event is: the group's own number and the event's id.
type Key = (u64, Box<str>);

/// Who has which event, and until when. Claims that are over take no memory once the next one is asked for.
#[derive(Default)]
pub(super) struct Claims {
    held: HashMap<Key, (Box<str>, u64)>,
    /// The same in the order in which they end.
    ends: BTreeSet<(u64, Key)>,
}

impl Claims {
    /// Gives the event to `owner` unless somebody else has it. Who has it may ask again, which moves the end.
    pub fn claim(&mut self, group: u64, id: &str, owner: &str, ttl_ms: u64, now_ms: u64) -> EventClaim {
        self.forget_over(now_ms);
        let key = (group, id.into());
        match self.held.get(&key) {
            Some((other, until_ms)) if **other != *owner => EventClaim::Held {
                left_ms: until_ms.saturating_sub(now_ms),
            },
            _ => {
                self.remove(&key);
                let until_ms = now_ms.saturating_add(ttl_ms);
                self.ends.insert((until_ms, key.clone()));
                self.held.insert(key, (owner.into(), until_ms));
                EventClaim::Granted
            }
        }
    }

    /// Ends a claim, if it is the owner's.
    pub fn release(&mut self, group: u64, id: &str, owner: &str) {
        let key = (group, id.into());
        if self.held.get(&key).is_some_and(|(held_by, _)| **held_by == *owner) {
            self.remove(&key);
        }
    }

    /// Ends a claim, whoever has it: the event is done with.
    pub fn settle(&mut self, group: u64, id: &str) {
        self.remove(&(group, id.into()));
    }

    fn remove(&mut self, key: &Key) {
        if let Some((_, until_ms)) = self.held.remove(key) {
            self.ends.remove(&(until_ms, key.clone()));
        }
    }

    fn forget_over(&mut self, now_ms: u64) {
        while let Some((until_ms, _)) = self.ends.first()
            && *until_ms <= now_ms
        {
            if let Some((_, key)) = self.ends.pop_first() {
                self.held.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_are_over_take_no_memory() {
        let mut claims = Claims::default();
        for n in 0..100_u64 {
            assert_eq!(claims.claim(1, &format!("id-{n}"), "me", 10, n), EventClaim::Granted);
        }
        claims.claim(1, "again", "me", 50, 100);
        claims.claim(1, "again", "me", 20, 100);
        assert_eq!((claims.held.len(), claims.ends.len()), (10, 10));
        claims.settle(1, "again");
        claims.release(1, "id-99", "somebody else");
        assert_eq!((claims.held.len(), claims.ends.len()), (9, 9));
    }
}
