//! What every store does alike when it puts events into a log: numbers, arrival times, partitions and known ids.
//! Written once, so that two stores cannot come to differ in it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Appended, Refused};
use crate::domain::{Event, NewEvent, Place, TopicName, partition_of};

/// The end of a topic's log: all that the next event's place follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The highest seq that was given.
    pub tail: u64,
    /// The newest event's `at`.
    pub at: u64,
    /// Each partition's newest ordinal; as many as there are partitions, at least one.
    pub ordinals: Vec<u64>,
}

impl LogEnd {
    /// The end of a log without events.
    pub fn new(partitions: u32) -> LogEnd {
        LogEnd {
            tail: 0,
            at: 0,
            ordinals: vec![0; partitions.max(1) as usize],
        }
    }

    /// How many partitions the topic has.
    pub fn partitions(&self) -> u32 {
        self.ordinals.len() as u32
    }

    /// Puts an event at the end.
    pub fn place(&mut self, topic: &TopicName, new: &NewEvent, now_ms: u64) -> Event {
        let partition = partition_of(new.key.as_deref().unwrap_or(&new.id), self.partitions());
        self.tail += 1;
        // Retention by age searches `at`, so a clock that stepped back must not be seen in it.
        self.at = self.at.max(now_ms);
        let ordinal = self.ordinals.get_mut(partition as usize).map_or(0, |newest| {
            *newest += 1;
            *newest
        });
        let place = Place {
            seq: self.tail,
            at: self.at,
            partition,
            ordinal,
        };
        Event::place(topic, new, place)
    }
}

/// What is to be done with one event of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It gets the next place.
    Place,
    /// The topic has it, under this seq.
    Known(u64),
}

/// Looks at the ids of a [`super::Write::Append`] before anything of it is done. `find` gives the kept event of an id.
pub(crate) fn judge_append<N: Borrow<NewEvent>, E>(
    events: &[N],
    mut find: impl FnMut(&str) -> Result<Option<Arc<Event>>, E>,
) -> Result<Result<Vec<Verdict>, Refused>, E> {
    let conflict = |id: &str| Ok(Err(Refused::Conflict { id: id.into() }));
    let all = || events.iter().map(Borrow::<NewEvent>::borrow);
    if !all().any(|event| event.id_given) {
        return Ok(Ok(vec![Verdict::Place; events.len()]));
    }
    let mut ids = HashSet::with_capacity(events.len());
    let mut verdicts = Vec::with_capacity(events.len());
    for event in all() {
        if !ids.insert(&*event.id) {
            return conflict(&event.id);
        }
        let known = if event.id_given { find(&event.id)? } else { None };
        verdicts.push(match known {
            Some(known) if known.payload() != event.payload.as_bytes() => return conflict(&event.id),
            Some(known) => Verdict::Known(known.seq),
            None => Verdict::Place,
        });
    }
    Ok(Ok(verdicts))
}

/// Puts dead letters at the end of their log, those left out that it has already, whatever their payload: a dead
/// letter's id says which event of which group it stands for. `find` gives the seq of an id, `put` takes what is new.
pub(crate) fn place_dead_letters<N: Borrow<NewEvent>, E>(
    letters: &[N],
    mut find: impl FnMut(&str) -> Result<Option<u64>, E>,
    mut put: impl FnMut(&N) -> Result<Arc<Event>, E>,
) -> Result<Vec<Appended>, E> {
    let mut placed: HashMap<&str, u64> = HashMap::with_capacity(letters.len());
    let mut answers = Vec::with_capacity(letters.len());
    for letter in letters {
        let id: &str = &letter.borrow().id;
        let known = match placed.get(id) {
            Some(seq) => Some(*seq),
            None => find(id)?,
        };
        answers.push(match known {
            Some(seq) => Appended::Known { seq },
            None => {
                let event = put(letter)?;
                placed.insert(id, event.seq);
                Appended::New(event)
            }
        });
    }
    Ok(answers)
}

/// A dead letter that is too large for its store: `original` keeps all but its payload, and `err` says so.
pub(crate) fn without_original_payload(letter: &NewEvent) -> NewEvent {
    type Raw<'a> = BTreeMap<String, &'a RawValue>;
    let shortened = || {
        let mut record: Raw<'_> = serde_json::from_str(&letter.payload).ok()?;
        let mut original: Raw<'_> = serde_json::from_str(record.get("original")?.get()).ok()?;
        original.remove("payload");
        let original = serde_json::value::to_raw_value(&original).ok()?;
        let err: String = serde_json::from_str(record.get("err")?.get()).ok()?;
        let err =
            serde_json::value::to_raw_value(&format!("{err} (the payload is too large for a dead letter)")).ok()?;
        record.insert("original".into(), &original);
        record.insert("err".into(), &err);
        serde_json::to_string(&record).ok()
    };
    NewEvent {
        payload: shortened().unwrap_or_else(|| "null".into()).into(),
        ..letter.clone()
    }
}

/// A write to a group needs the newest claim; anything else is not the owner's.
pub(crate) fn check_epoch(newest: u64, given: u64) -> Result<(), Refused> {
    if newest == given { Ok(()) } else { Err(Refused::Fenced) }
}

/// Whether an event that came at `at` is older than `age_ms` allows.
pub(crate) fn is_expired(at: u64, age_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at) > age_ms
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn event(id: &str, payload: &str) -> NewEvent {
        NewEvent {
            id: id.into(),
            id_given: true,
            ts: 1,
            key: None,
            headers: vec![],
            payload: payload.into(),
            tags: vec![],
            caused_by: vec![],
            sid: None,
        }
    }

    #[test]
    fn arrival_never_steps_back_and_ordinals_count_each_partition() {
        let topic = "t".parse().unwrap();
        let mut end = LogEnd::new(2);
        let placed: Vec<Event> = [50, 40, 60]
            .iter()
            .map(|&now| end.place(&topic, &event("same", "1"), now))
            .collect();
        assert_eq!(placed.iter().map(|event| event.at).collect::<Vec<_>>(), [50, 50, 60]);
        assert_eq!(placed.iter().map(|event| event.ordinal).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(end.ordinals.iter().sum::<u64>(), 3);
    }

    #[test]
    fn a_topic_without_partitions_has_one() {
        let mut end = LogEnd::new(0);
        assert_eq!(end.place(&"t".parse().unwrap(), &event("a", "1"), 1).ordinal, 1);
    }

    #[test]
    fn ids_are_looked_at_before_anything_is_done() {
        let topic = "t".parse().unwrap();
        let known = Arc::new(LogEnd::new(1).place(&topic, &event("a", "1"), 1));
        let judge = |events: &[NewEvent]| {
            judge_append::<_, Infallible>(events, |id| Ok((id == "a").then(|| Arc::clone(&known)))).unwrap()
        };
        assert_eq!(
            judge(&[event("a", "1"), event("b", "2")]).unwrap(),
            [Verdict::Known(1), Verdict::Place]
        );
        for bad in [[event("b", "1"), event("a", "2")], [event("b", "1"), event("b", "1")]] {
            assert!(matches!(judge(&bad), Err(Refused::Conflict { .. })));
        }
    }
}
