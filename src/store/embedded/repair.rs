//! Keeping what is whole of a damaged folder, and saying what was lost.
//!
//! A new folder is made from all rows that can still be read: tables as far as they go, and every whole batch of the
//! journal, also those behind damage. Whatever can be counted again from the events is: searches, ids, keys, ends. A lost
//! event keeps its seq, as a row that readers leave out, so no number is given twice. The old folder is moved aside
//! as it is.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use fjall::KeyspaceCreateOptions;

use super::check::{REPORT_EVENTS, name_in};
use super::codec::Decoder;
use super::folder::{FolderError, NewFolder, beside};
use super::keys::{self, Space};
use super::open::{OpenError, decode_topic};
use super::repair_log::LogRepair;
use super::rows::{CommitRow, GroupRow, TopicRow, decode_cursor, decode_retry, encode_cursor};
use super::survey::Survey;
use crate::domain::{PARTITIONS_DEFAULT, PartitionCursor, TopicName, partition_of};

/// What a repair kept and lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Topics that were kept.
    pub topics: u64,
    /// Events that were kept.
    pub events: u64,
    /// Groups that were kept.
    pub groups: u64,
    /// What was wrong with the folder's files, each in a sentence.
    pub problems: Vec<String>,
    /// What was lost, each in a sentence.
    pub lost: Vec<String>,
    /// Where the folder as it was is now.
    pub old: PathBuf,
}

/// Claims that may have been given and lost: epochs go on above them.
const EPOCHS_SKIPPED: u64 = 1 << 20;

/// Puts a folder that holds what is whole in the place of a damaged one. No other process may have it open.
pub fn repair_folder(path: &Path, progress: impl FnMut(u64)) -> Result<Repaired, FolderError> {
    let survey = Survey::begin(path)?;
    let suffix = format!("-{}", seconds());
    let old = beside(path, &format!(".damaged{suffix}"));
    let new = NewFolder::begin(&beside(path, &format!(".repaired{suffix}")))?;
    let mut repair = Repair {
        survey: &survey,
        commit: CommitRow::default(),
        state: BTreeMap::new(),
        lost: Vec::new(),
        groups: 0,
        events: 0,
    };
    let made = repair.run(&new, progress);
    let (commit, lost) = (repair.commit, repair.lost);
    let (events, groups) = (repair.events, repair.groups);
    let topics = match made {
        Ok(topics) => topics,
        Err(error) => {
            new.give_up();
            return Err(error);
        }
    };
    new.finish(&commit)?;
    let io_error = |source| OpenError::Io {
        path: path.to_path_buf(),
        source,
    };
    let path = path.canonicalize().map_err(io_error)?;
    std::fs::rename(&path, &old).map_err(io_error)?;
    std::fs::rename(beside(&path, &format!(".repaired{suffix}")), &path).map_err(io_error)?;
    Ok(Repaired {
        topics,
        events,
        groups,
        problems: survey.problems.into_list(),
        lost,
        old,
    })
}

fn seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

struct Repair<'a> {
    survey: &'a Survey,
    commit: CommitRow,
    /// The rows of `state`, as they will be.
    state: BTreeMap<Vec<u8>, Vec<u8>>,
    lost: Vec<String>,
    groups: u64,
    events: u64,
}

/// Events that are looked at to find out how many partitions a topic has, and the most that it can have.
const PLACED_MAX: usize = 1_000;
const PARTITIONS_MAX: u32 = 1_024;

impl Repair<'_> {
    fn run(&mut self, new: &NewFolder, mut progress: impl FnMut(u64)) -> Result<u64, FolderError> {
        let last = self.survey.row(Space::State, keys::COMMIT, CommitRow::decode);
        let last = last.unwrap_or_default();
        if last.number < self.survey.mark {
            self.lost.push(format!(
                "commits {} to {} were answered and are not there: what they wrote at the ends of topics and groups",
                last.number + 1,
                self.survey.mark
            ));
        }
        let mut topics = self.topics(&last);
        let highest = topics.values().map(|(_, topic)| topic.number).max().unwrap_or(0);
        let number = last.number.max(self.survey.mark) + 1;
        self.commit = CommitRow {
            number,
            last_in_space: [number; 4],
            topic_number: last.topic_number.max(highest),
            epoch: last.epoch,
            ..last.in_a_new_database()
        };
        self.commit.durable = number;
        self.groups(&mut topics);
        self.commit.tails = topics.values().map(|(_, topic)| topic.end.tail).sum();

        let options = KeyspaceCreateOptions::default;
        let index = self
            .survey
            .database
            .keyspace("rebuilt", options)
            .map_err(engine(self.survey))?;
        let commit = self.commit;
        new.fill(Space::Events, &commit, |put| {
            for (name, topic) in topics.values_mut() {
                let mut log = LogRepair::new(name, topic, &index);
                self.survey
                    .events(topic.number, topic.first..=topic.end.tail, |seq, row| {
                        let row = log.take(self.survey, seq, row)?;
                        self.events += u64::from(!row.is_lost());
                        if seq.is_multiple_of(REPORT_EVENTS) {
                            progress(self.events);
                        }
                        let key = keys::event(log.number, seq);
                        let value = row.encode(&key);
                        put(key.into(), value.into())
                    })?;
                self.lost.extend(log.finish(topic));
                topic.commit = commit.number;
                let key = keys::topic(name.as_str());
                self.state.insert(key.clone(), topic.encode(&key));
            }
            Ok(())
        })?;
        new.fill(Space::Index, &commit, |put| {
            for row in index.iter() {
                let (key, value) = row.into_inner().map_err(engine(self.survey))?;
                put(key, value)?;
            }
            Ok(())
        })?;
        let commit = self.commit;
        new.fill(Space::State, &commit, |put| {
            let rows = std::mem::take(&mut self.state).into_iter();
            rows.map(|(key, value)| (key.into(), value.into()))
                .try_for_each(|(key, value)| put(key, value))
        })?;
        new.fill(Space::Marks, &commit, |put| {
            for row in self.survey.spaces.of(Space::Marks).iter() {
                let Ok((key, value)) = row.into_inner() else {
                    self.lost
                        .push("some marks of events that consumers have handled".to_owned());
                    break;
                };
                if Decoder::whole(&key, &value, |decoder| decoder.u64()).is_some() {
                    put(key, value)?;
                }
            }
            Ok(())
        })?;
        Ok(topics.len() as u64)
    }

    /// All topics by their numbers: those that have a row, and those whose events tell their names.
    fn topics(&mut self, last: &CommitRow) -> BTreeMap<u32, (TopicName, TopicRow)> {
        let mut topics = BTreeMap::new();
        let (rows, hindered) = self.survey.state(keys::TOPICS);
        let mut damaged = hindered;
        for (key, value) in rows {
            match decode_topic(&key, &value) {
                Ok((name, topic)) => drop(topics.insert(topic.number, (name, topic))),
                Err(_) => {
                    damaged = true;
                    self.lost.push(format!(
                        "the row of topic {}: made again from its events, if there are any",
                        name_in(&key)
                    ));
                }
            }
        }
        let tails: u64 = topics.values().map(|(_, topic): &(_, TopicRow)| topic.end.tail).sum();
        // Events of a topic that was deleted may still be there: they are only looked at where rows are missing.
        let look_for_more = damaged || tails != last.tails || last.number < self.survey.mark;
        let mut number = 1;
        while let Some((found, first)) = self.first_event(number) {
            if let Some((_, topic)) = topics.get_mut(&found) {
                topic.end.tail = topic.end.tail.max(self.last_event(found));
            } else if look_for_more
                && let Some((name, topic)) = self.topic_from_events(found, first)
                && topics.values().all(|(known, _)| *known != name)
            {
                topics.insert(found, (name, topic));
            }
            let Some(next) = found.checked_add(1) else { break };
            number = next;
        }
        topics
    }

    /// The first event from a topic number on, by its key.
    fn first_event(&self, number: u32) -> Option<(u32, u64)> {
        let rows = self.survey.spaces.of(Space::Events).range(keys::event(number, 0)..);
        let key = rows.map_while(|row| row.key().ok()).next()?;
        Some((keys::topic_of_row(&key)?, keys::seq_of_event(&key)?))
    }

    fn last_event(&self, number: u32) -> u64 {
        let range = keys::event(number, 0)..=keys::event(number, u64::MAX);
        let mut rows = self.survey.spaces.of(Space::Events).range(range).rev();
        let key = rows.next().and_then(|row| row.key().ok());
        key.and_then(|key| keys::seq_of_event(&key)).unwrap_or(0)
    }

    fn topic_from_events(&self, number: u32, first: u64) -> Option<(TopicName, TopicRow)> {
        let last = self.last_event(number).max(first);
        let (mut name, mut placed) = (None, Vec::new());
        let walked: Result<(), std::convert::Infallible> = self.survey.events(number, first..=last, |_, row| {
            if let Some(row) = row.filter(|row| !row.is_lost()) {
                if placed.len() < PLACED_MAX {
                    let by = row.event.key.as_deref().unwrap_or(&row.event.id).to_owned();
                    placed.push((by, row.event.partition));
                }
                if name.is_none() {
                    let json: Option<serde_json::Value> = serde_json::from_slice(&row.event.json).ok();
                    name = json.and_then(|json| json.get("topic")?.as_str()?.parse::<TopicName>().ok());
                }
            }
            Ok(())
        });
        let Ok(()) = walked;
        let mut topic = TopicRow::new(number, partitions_of(&placed));
        topic.first = first;
        topic.end.tail = last;
        Some((name?, topic))
    }

    /// Groups whose rows are whole, with a cursor for each partition.
    fn groups(&mut self, topics: &mut BTreeMap<u32, (TopicName, TopicRow)>) {
        let by_name: HashMap<String, u32> = topics
            .iter()
            .map(|(number, (name, _))| (name.as_str().to_owned(), *number))
            .collect();
        let (rows, hindered) = self.survey.state(b"g");
        if hindered {
            self.lost
                .push("some groups, whose names cannot be read: they begin anew".to_owned());
        }
        for (key, value) in rows {
            let name = name_in(&key);
            let Some(group) = Decoder::whole(&key, &value, GroupRow::decode) else {
                self.lost.push(format!("topic {name}: it begins anew"));
                continue;
            };
            self.groups += 1;
            self.commit.epoch = self.commit.epoch.max(group.epoch).max(group.number);
            self.state.insert(key.to_vec(), value.to_vec());
            let topic_name = name.split(", group ").next().unwrap_or_default();
            let mut topic = by_name
                .get(topic_name)
                .and_then(|number| topics.get_mut(number))
                .map(|(_, topic)| topic);
            for partition in 0..group.partitions {
                let key = keys::cursor(group.number, partition);
                let stored = self.survey.row(Space::State, &key, decode_cursor);
                if stored.is_none() {
                    self.lost.push(format!(
                        "topic {name}: the place in partition {partition}: its events come again"
                    ));
                }
                let cursor = match &mut topic {
                    Some(topic) => {
                        let start = || PartitionCursor {
                            floor: topic.first.saturating_sub(1),
                            floor_ordinal: topic.first_ordinals.get(partition as usize).copied().unwrap_or(0),
                            ..PartitionCursor::default()
                        };
                        let cursor = stored.unwrap_or_else(start);
                        // What was acked was there: its seqs are not given again.
                        let highest = cursor.acked.last().map_or(cursor.floor, |range| range.last);
                        topic.end.tail = topic.end.tail.max(highest);
                        cursor
                    }
                    // Without its topic a place means nothing.
                    None => PartitionCursor::default(),
                };
                let value = encode_cursor(&key, &cursor);
                self.state.insert(key, value);
            }
            let (retries, _) = self.survey.state(&keys::retries(group.number));
            for (key, value) in retries.into_iter().filter(|_| topic.is_some()) {
                if Decoder::whole(&key, &value, |decoder| decode_retry(&key, decoder)).is_some() {
                    self.state.insert(key.to_vec(), value.to_vec());
                } else {
                    self.lost
                        .push(format!("topic {name}: the attempts of an event, which count anew"));
                }
            }
        }
        self.commit.epoch += EPOCHS_SKIPPED;
    }
}

/// The number of partitions that puts events where they are.
fn partitions_of(placed: &[(String, u32)]) -> u32 {
    let fits = |count: &u32| {
        placed
            .iter()
            .all(|(by, partition)| partition_of(by, *count) == *partition)
    };
    let highest = placed.iter().map(|(_, partition)| *partition).max().unwrap_or(0);
    let mut candidates = std::iter::once(PARTITIONS_DEFAULT).chain(highest + 1..=PARTITIONS_MAX);
    candidates.find(fits).unwrap_or(PARTITIONS_DEFAULT)
}

/// The working copy could not be used.
pub(super) fn engine(survey: &Survey) -> impl Fn(fjall::Error) -> FolderError {
    let path = survey.scratch().to_path_buf();
    move |error| FolderError::Write {
        path: path.clone(),
        why: format!("{error:?}"),
    }
}
