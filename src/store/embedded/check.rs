//! Is everything in the folder as it was written? Every event, every row that points to one, every group.

use std::collections::HashMap;
use std::path::Path;

use super::codec::Decoder;
use super::folder::FolderError;
use super::keys::{self, BLOCK, Space};
use super::open::decode_topic;
use super::rows::{BlockRow, CommitRow, EventRow, GroupRow, TopicRow, decode_cursor, decode_retry};
use super::survey::{SeqList, Survey};
use crate::domain::{TopicName, partition_of};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Topics that were looked at.
    pub topics: u64,
    /// Events that are whole.
    pub events: u64,
    /// Groups that were looked at.
    pub groups: u64,
    /// What is wrong, each in a sentence; empty where nothing is.
    pub problems: Vec<String>,
}

/// How many events lie between two reports of progress.
pub(super) const REPORT_EVENTS: u64 = 100_000;

/// Reads everything in a folder and changes nothing in it. No other process may have it open.
pub fn check_folder(path: &Path, mut progress: impl FnMut(u64)) -> Result<Findings, FolderError> {
    let mut survey = Survey::begin(path)?;
    let mut findings = Findings::default();
    let mut found = Vec::new();
    let commit = survey.row(Space::State, keys::COMMIT, CommitRow::decode);
    let last = commit.unwrap_or_default();
    if last.number < survey.mark {
        found.push(format!(
            "the store ends with commit {}, but commit {} was written and answered",
            last.number, survey.mark
        ));
    }
    let (rows, hindered) = survey.state(keys::TOPICS);
    if hindered {
        found.push("some rows of topics cannot be read".to_owned());
    }
    let mut tails = 0_u64;
    for (key, value) in rows {
        match decode_topic(&key, &value) {
            Ok((name, topic)) => {
                tails = tails.saturating_add(topic.end.tail);
                findings.topics += 1;
                check_topic(&survey, &name, &topic, &mut findings, &mut found, &mut progress);
            }
            Err(_) => found.push(format!("the row of the topic {} is damaged", name_in(&key))),
        }
    }
    if tails != last.tails {
        found.push(format!(
            "the topics have {tails} events by their rows, but {} were written: rows of topics are lost or old",
            last.tails
        ));
    }
    check_groups(&survey, &mut findings, &mut found);
    found.into_iter().for_each(|problem| survey.problems.add(problem));
    findings.problems = survey.problems.into_list();
    Ok(findings)
}

/// The name in the key of a topic or group.
pub(super) fn name_in(key: &[u8]) -> String {
    let name = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
    name.replace('\0', ", group ")
}

impl Survey {
    /// A row where it is whole.
    pub fn row<T>(&self, space: Space, key: &[u8], decode: impl FnOnce(&mut Decoder) -> Option<T>) -> Option<T> {
        let value = self.spaces.of(space).get(key).ok()??;
        Decoder::whole(key, &value, decode)
    }
}

fn check_topic(
    survey: &Survey,
    name: &TopicName,
    topic: &TopicRow,
    findings: &mut Findings,
    found: &mut Vec<String>,
    progress: &mut impl FnMut(u64),
) {
    let mut checker = Checker {
        survey,
        topic,
        ordinals: topic.first_ordinals.clone(),
        complete: true,
        newest: HashMap::new(),
        lost: SeqList::default(),
        wrong: SeqList::default(),
        unindexed: SeqList::default(),
        blocks: SeqList::default(),
    };
    let walked: Result<(), std::convert::Infallible> =
        survey.events(topic.number, topic.first..=topic.end.tail, |seq, event| {
            match event {
                Some(event) => checker.event(seq, &event),
                None => {
                    checker.complete = false;
                    checker.lost.push(seq);
                }
            }
            checker.block(seq);
            findings.events += 1;
            if findings.events.is_multiple_of(REPORT_EVENTS) {
                progress(findings.events);
            }
            Ok(())
        });
    let Ok(()) = walked;
    findings.events -= checker.lost.count;
    let mut tell = |list: &SeqList, what: &str| {
        if list.count > 0 {
            found.push(format!("topic {name}: {} {what}: {}", list.count, list.text()));
        }
    };
    tell(&checker.lost, "events are missing or damaged");
    tell(&checker.wrong, "events are not in their place (partition or count)");
    tell(&checker.unindexed, "events are not found by their id or key");
    tell(
        &checker.blocks,
        "rows that searches start from are missing or wrong, at",
    );
}

struct Checker<'a> {
    survey: &'a Survey,
    topic: &'a TopicRow,
    ordinals: Vec<u64>,
    /// Whether all events so far were there: else their counts say nothing.
    complete: bool,
    /// Where keys' newest events were found to be, for as many keys as fit.
    newest: HashMap<Box<str>, u64>,
    lost: SeqList,
    wrong: SeqList,
    unindexed: SeqList,
    blocks: SeqList,
}

impl Checker<'_> {
    fn event(&mut self, seq: u64, row: &EventRow) {
        if row.is_lost() {
            // A repair noted it; it is no news.
            self.complete = false;
            return;
        }
        let event = &row.event;
        let placed_by = event.key.as_deref().unwrap_or(&event.id);
        let partition = partition_of(placed_by, self.topic.end.partitions());
        let before = self.ordinals.get_mut(event.partition as usize);
        let counted = before.is_some_and(|before| {
            let next = *before + 1;
            *before = event.ordinal;
            event.ordinal == next || (!self.complete && event.ordinal > next)
        });
        if !counted || partition != event.partition {
            self.wrong.push(seq);
        }
        let number = self.topic.number;
        let by_id = self
            .survey
            .row(Space::Index, &keys::id(number, &event.id), |row| row.u64());
        if by_id != Some(seq) || !self.newest_is_known(seq, event.key.as_deref()) {
            self.unindexed.push(seq);
        }
    }

    /// Whether the key leads to an event of the same key that is not older than this one.
    fn newest_is_known(&mut self, seq: u64, key: Option<&str>) -> bool {
        /// As many keys as fit into some 10 MiB.
        const KEYS_MAX: usize = 100_000;
        let Some(key) = key else { return true };
        if let Some(newest) = self.newest.get(key) {
            return *newest >= seq;
        }
        let number = self.topic.number;
        let Some(newest) = self
            .survey
            .row(Space::Index, &keys::newest(number, key), |row| row.u64())
        else {
            return false;
        };
        let has_key = |row: EventRow| row.event.key.as_deref() == Some(key);
        if newest < seq || !self.survey.event(number, newest).is_some_and(has_key) {
            return false;
        }
        if self.newest.len() >= KEYS_MAX {
            self.newest.clear();
        }
        self.newest.insert(key.into(), newest);
        true
    }

    fn block(&mut self, seq: u64) {
        if !seq.is_multiple_of(BLOCK) {
            return;
        }
        let key = keys::block(self.topic.number, seq / BLOCK - 1);
        let block = self.survey.row(Space::Index, &key, BlockRow::decode);
        let right = block.is_some_and(|block| !self.complete || block.ordinals == self.ordinals);
        if !right {
            self.blocks.push(seq);
        }
    }
}

fn check_groups(survey: &Survey, findings: &mut Findings, found: &mut Vec<String>) {
    let (rows, hindered) = survey.state(b"g");
    if hindered {
        found.push("some rows of groups cannot be read".to_owned());
    }
    for (key, value) in rows {
        let name = name_in(&key);
        findings.groups += 1;
        let Some(group) = Decoder::whole(&key, &value, GroupRow::decode) else {
            found.push(format!("the row of topic {name} is damaged"));
            continue;
        };
        for partition in 0..group.partitions {
            let cursor = keys::cursor(group.number, partition);
            if survey.row(Space::State, &cursor, decode_cursor).is_none() {
                found.push(format!(
                    "topic {name}: the cursor of partition {partition} is missing or damaged"
                ));
            }
        }
        let (retries, hindered) = survey.state(&keys::retries(group.number));
        let is_whole = |(key, value): &(fjall::Slice, fjall::Slice)| {
            Decoder::whole(key, value, |decoder| decode_retry(key, decoder)).is_some()
        };
        if hindered || !retries.iter().all(is_whole) {
            found.push(format!("topic {name}: attempts of some events are damaged"));
        }
    }
}
