//! Answers in order. The answers to a connection's publishes to one topic come in their order, and so do those to its
//! acks in one group; each such line of requests is a lane. All others are answered as they are done.

use std::collections::{HashMap, VecDeque};

use crate::actors::reply::{Replied, Ticket};
use crate::domain::group::MemberId;
use crate::domain::{GroupName, TopicName};
use crate::protocol::Corr;

/// The lane of requests whose answers have no order.
const UNORDERED: usize = 0;

/// A line of requests whose answers keep their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LaneKey {
    Publishes(TopicName),
    Acks(TopicName, GroupName),
}

#[derive(Default)]
struct Lane {
    key: Option<LaneKey>,
    /// The number of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
}

struct Slot {
    corr: Option<Corr>,
    result: Option<Replied>,
}

/// A request without an order.
#[derive(Debug)]
pub(super) struct Single {
    pub(super) corr: Option<Corr>,
    /// For a SUBSCRIBE, whose.
    pub(super) member: Option<MemberId>,
}

/// An answer that may be written now.
pub(super) struct Ready {
    pub(super) corr: Option<Corr>,
    pub(super) member: Option<MemberId>,
    pub(super) result: Replied,
}

/// The open requests of a connection.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    by_key: HashMap<LaneKey, usize>,
    free: Vec<usize>,
    singles: HashMap<u64, Single>,
    next_single: u64,
    open: usize,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        Lanes {
            lanes: vec![Lane::default()],
            by_key: HashMap::new(),
            free: Vec::new(),
            singles: HashMap::new(),
            next_single: 0,
            open: 0,
        }
    }

    /// How many requests have no answer yet.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// A request whose answer has no order.
    pub(super) fn open_single(&mut self, corr: Option<Corr>, member: Option<MemberId>) -> Ticket {
        self.open += 1;
        self.next_single += 1;
        self.singles.insert(self.next_single, Single { corr, member });
        Ticket {
            lane: UNORDERED,
            number: self.next_single,
        }
    }

    /// A request whose answer comes after those before it in the lane.
    pub(super) fn open_ordered(&mut self, key: LaneKey, corr: Option<Corr>) -> Ticket {
        self.open += 1;
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => {
                let at = self.free.pop().unwrap_or_else(|| {
                    self.lanes.push(Lane::default());
                    self.lanes.len() - 1
                });
                self.lanes[at].key = Some(key.clone());
                self.by_key.insert(key, at);
                at
            }
        };
        let lane = &mut self.lanes[at];
        lane.slots.push_back(Slot { corr, result: None });
        Ticket {
            lane: at,
            number: lane.base + lane.slots.len() as u64 - 1,
        }
    }

    /// Takes an answer; puts what may be written now into `ready`.
    pub(super) fn answer(&mut self, ticket: Ticket, result: Replied, ready: &mut Vec<Ready>) {
        if ticket.lane == UNORDERED {
            if let Some(Single { corr, member }) = self.singles.remove(&ticket.number) {
                self.open -= 1;
                ready.push(Ready { corr, member, result });
            }
            return;
        }
        let Some(lane) = self.lanes.get_mut(ticket.lane) else {
            return;
        };
        let at = ticket
            .number
            .checked_sub(lane.base)
            .and_then(|at| usize::try_from(at).ok());
        let Some(slot) = at.and_then(|at| lane.slots.get_mut(at)) else {
            return;
        };
        slot.result = Some(result);
        while lane.slots.front().is_some_and(|slot| slot.result.is_some()) {
            let Some(Slot {
                corr,
                result: Some(result),
            }) = lane.slots.pop_front()
            else {
                break;
            };
            lane.base += 1;
            self.open -= 1;
            ready.push(Ready {
                corr,
                member: None,
                result,
            });
        }
        if lane.slots.is_empty()
            && let Some(key) = lane.key.take()
        {
            self.by_key.remove(&key);
            self.free.push(ticket.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::reply::Outcome;
    use crate::protocol::Answer;

    fn ok() -> Replied {
        Ok(Outcome::Answer(Answer::Ok))
    }

    fn publishes(topic: &str) -> LaneKey {
        LaneKey::Publishes(topic.parse().unwrap())
    }

    #[test]
    fn a_lane_keeps_its_order_and_holds_up_no_other() {
        let mut lanes = Lanes::new();
        let first = lanes.open_ordered(publishes("a"), None);
        let second = lanes.open_ordered(publishes("a"), None);
        let other = lanes.open_ordered(publishes("b"), None);
        let single = lanes.open_single(None, Some(7));
        let mut ready = Vec::new();
        lanes.answer(second, ok(), &mut ready);
        assert_eq!(ready.len(), 0, "it waits for the one before it");
        lanes.answer(other, ok(), &mut ready);
        lanes.answer(single, ok(), &mut ready);
        assert_eq!(ready.len(), 2);
        lanes.answer(first, ok(), &mut ready);
        assert_eq!((ready.len(), lanes.open()), (4, 0));
    }

    #[test]
    fn lanes_are_used_again_and_late_answers_are_ignored() {
        let mut lanes = Lanes::new();
        let mut ready = Vec::new();
        for round in 0..100 {
            let ticket = lanes.open_ordered(publishes(&format!("t{round}")), None);
            lanes.answer(ticket, ok(), &mut ready);
            lanes.answer(ticket, ok(), &mut ready);
        }
        assert_eq!((ready.len(), lanes.open()), (100, 0));
        assert_eq!(lanes.lanes.len(), 2);
        assert!(lanes.by_key.is_empty());
    }
}
