//! What waits to be written. Topics take turns: one that is flooded fills its own line, and a write of another one is
//! in the next commit all the same.

use std::collections::{HashMap, VecDeque};

use super::Pending;
use crate::domain::TopicName;

/// A commit takes no more than this at once, so that one large one does not hold up the rest.
const COMMIT_WRITES_MAX: usize = 4_096;
const COMMIT_EVENTS_MAX: usize = 2_048;
const COMMIT_BYTES_MAX: usize = 4 << 20;
/// What a topic may put into a commit before it is the next one's turn.
const TURN_WRITES: usize = 64;
const TURN_EVENTS: usize = 256;
const TURN_BYTES: usize = 256 << 10;

/// The lines of the topics that wait.
#[derive(Default)]
pub(super) struct Queue {
    lines: HashMap<TopicName, VecDeque<Pending>>,
    /// Each topic with a line, once; the first one is next.
    turns: VecDeque<TopicName>,
}

impl Queue {
    pub(super) fn push(&mut self, pending: Pending) {
        let topic = pending.write.topic();
        match self.lines.get_mut(topic) {
            Some(line) => line.push_back(pending),
            None => {
                self.turns.push_back(topic.clone());
                self.lines.insert(topic.clone(), VecDeque::from([pending]));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// What the next commit is to write: each topic's writes in their order, and side by side.
    pub(super) fn next_commit(&mut self) -> Vec<Pending> {
        let mut taken: Vec<Vec<Pending>> = Vec::new();
        let mut places: HashMap<TopicName, usize> = HashMap::new();
        let (mut writes, mut events, mut bytes) = (0, 0, 0);
        while writes < COMMIT_WRITES_MAX
            && events < COMMIT_EVENTS_MAX
            && bytes < COMMIT_BYTES_MAX
            && let Some(topic) = self.turns.pop_front()
        {
            let place = *places.entry(topic.clone()).or_insert_with(|| {
                taken.push(Vec::new());
                taken.len() - 1
            });
            let Some((line, own)) = self.lines.get_mut(&topic).zip(taken.get_mut(place)) else {
                continue;
            };
            let (mut turn_writes, mut turn_events, mut turn_bytes) = (0, 0, 0);
            while turn_writes < TURN_WRITES
                && turn_events < TURN_EVENTS
                && turn_bytes < TURN_BYTES
                && let Some(pending) = line.pop_front()
            {
                turn_writes += 1;
                turn_events += pending.events();
                turn_bytes += pending.bytes;
                own.push(pending);
            }
            writes += turn_writes;
            events += turn_events;
            bytes += turn_bytes;
            if line.is_empty() {
                self.lines.remove(&topic);
            } else {
                self.turns.push_back(topic);
            }
        }
        taken.into_iter().flatten().collect()
    }

    /// Everything, each topic's writes in their order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.turns.clear();
        std::mem::take(&mut self.lines).into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::store::Completion;
    use crate::store::Write;

    /// A write of this topic; its number is the group's name.
    fn pending(topic: &str, number: usize, bytes: usize) -> Pending {
        Pending {
            write: Write::DeleteGroup {
                topic: topic.parse().unwrap(),
                group: format!("g{number}").parse().unwrap(),
            },
            bytes,
            completion: Completion::caller(tokio::sync::oneshot::channel().0),
            _permits: None,
        }
    }

    fn names(commit: &[Pending]) -> Vec<String> {
        let name = |pending: &Pending| match &pending.write {
            Write::DeleteGroup { topic, group } => format!("{topic} {group}"),
            other => panic!("{other:?}"),
        };
        commit.iter().map(name).collect()
    }

    #[test]
    fn a_flooded_topic_keeps_nobody_from_the_next_commit() {
        for bytes in [0, 100 << 10] {
            let mut queue = Queue::default();
            for number in 0..20_000 {
                queue.push(pending("loud", number, bytes));
            }
            queue.push(pending("quiet", 0, 10));
            let first = queue.next_commit();
            assert_eq!(names(&first).iter().filter(|name| *name == "quiet g0").count(), 1);
            // The loud one is not slowed down for it: the commit is as full as it may be.
            let total: usize = first.iter().map(|pending| pending.bytes).sum();
            assert!(
                first.len() >= COMMIT_WRITES_MAX || total >= COMMIT_BYTES_MAX,
                "{}",
                first.len()
            );
            assert!(total < COMMIT_BYTES_MAX + TURN_BYTES + bytes);
        }
    }

    #[test]
    fn a_topic_s_writes_stay_in_their_order_and_none_is_lost() {
        let mut queue = Queue::default();
        let topics = ["a", "b", "c"];
        for number in 0..9_000 {
            queue.push(pending(topics[number % 7 % 3], number, number % 5_000));
        }
        let mut seen: HashMap<String, Vec<usize>> = HashMap::new();
        while !queue.is_empty() {
            let commit = names(&queue.next_commit());
            let mut changes = commit.windows(2).filter(|pair| pair[0][..1] != pair[1][..1]);
            assert!(changes.by_ref().count() < topics.len(), "side by side");
            for name in commit {
                let (topic, number) = name.split_once(" g").unwrap();
                seen.entry(topic.to_owned()).or_default().push(number.parse().unwrap());
            }
        }
        assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 9_000);
        assert!(seen.values().all(|numbers| numbers.is_sorted()));
        assert_eq!(queue.next_commit().len(), 0);
    }
}
