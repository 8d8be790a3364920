//! What each write does to the rows. A write looks first and puts rows only when it is sure to be done, so that a
//! refused one leaves nothing behind.

use std::sync::Arc;

use super::keys::{self, BLOCK, Space};
use super::log;
use super::rows::{BlockRow, EventRow, GroupRow, Rows, TopicRow, encode_number};
use super::staging::Staging;
use super::sweep::Gone;
use crate::domain::{Durability, Event, NewEvent, Retention, TopicName};
use crate::store::claims::Claims;
use crate::store::placing::{Verdict, judge_append, place_dead_letters};
use crate::store::{Appended, EventClaim, Refused, StoreError, StoreOptions, Write, Written};

/// The largest event: what one file of the database's journal is made for.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest id or key of an event: they become keys of the database, which takes 64 KiB.
const KEY_BYTES_MAX: usize = 32 * 1024;

/// Why a write is not done.
pub(super) enum Stop {
    Refused(Refused),
    Store(StoreError),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Refused(refused)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

/// One batch's writes, on their way into its rows.
pub(super) struct Applier<'a, 'b> {
    pub staging: &'b mut Staging<'a>,
    pub options: &'b StoreOptions,
    pub claims: &'b mut Claims,
    pub now_ms: u64,
}

impl Applier<'_, '_> {
    pub fn apply(&mut self, write: Write) -> Result<Written, Stop> {
        // Claims are not on disk: in a batch with others they ask for nothing.
        let is_claim = matches!(write, Write::ClaimEvent { .. } | Write::ReleaseEvent { .. });
        let durable = !is_claim && self.asks_for_fsync(write.topic());
        let written = self.change(write)?;
        self.staging.sync |= durable;
        Ok(written)
    }

    fn asks_for_fsync(&self, topic: &TopicName) -> bool {
        (self.options.rules)(topic).durability == Durability::Fsync
    }

    fn change(&mut self, write: Write) -> Result<Written, Stop> {
        match write {
            Write::Append { topic, events } => self.append(&topic, &events).map(Written::Appended),
            Write::CreateGroup {
                topic,
                group,
                settings,
                cursors,
            } => self.create_group(
                &topic,
                group,
                |epoch| GroupRow {
                    number: epoch,
                    epoch,
                    seeks: 0,
                    partitions: 0,
                    settings,
                    paused: None,
                },
                &cursors,
            ),
            Write::ClaimGroup { topic, group } => {
                let mut row = self.group(&topic, &group)?;
                self.staging.commit.epoch += 1;
                row.epoch = self.staging.commit.epoch;
                self.put_group(&topic, &group, &row);
                Ok(Written::Epoch(row.epoch))
            }
            Write::SaveGroup {
                topic,
                group,
                epoch,
                settings,
                paused,
            } => {
                let row = self.claimed(&topic, &group, epoch)?;
                let row = GroupRow {
                    settings,
                    paused,
                    ..row
                };
                self.put_group(&topic, &group, &row);
                Ok(Written::Done)
            }
            Write::SaveCursors {
                topic,
                group,
                epoch,
                updates,
                dead_letters,
            } => {
                let row = self.claimed(&topic, &group, epoch)?;
                let answers = self.dead_letters(&topic.dead_letters(), &dead_letters)?;
                self.save_cursors(&topic, &group, row, updates);
                Ok(Written::CursorsSaved(answers))
            }
            Write::SeekGroup {
                topic,
                group,
                epoch,
                cursors,
            } => {
                let mut row = self.claimed(&topic, &group, epoch)?;
                self.clear_group(&row)?;
                row.seeks += 1;
                row.settings.filter_since = 0;
                self.put_cursors(&mut row, &cursors);
                self.put_group(&topic, &group, &row);
                Ok(Written::Done)
            }
            Write::DeleteGroup { topic, group } => {
                self.delete_group(&keys::group(topic.as_str(), group.as_str()))?;
                Ok(Written::Done)
            }
            Write::DeleteTopic { topic } => self.delete_topic(&topic),
            Write::MarkSeen {
                topic,
                group,
                id,
                until_ms,
            } => {
                check_len(id.len(), KEY_BYTES_MAX)?;
                let number = self.group(&topic, &group)?.number;
                let key = keys::mark(number, &id);
                let value = encode_number(&key, until_ms);
                self.staging.put(Space::Marks, key, value);
                self.claims.settle(number, &id);
                Ok(Written::Done)
            }
            Write::ClaimEvent {
                topic,
                group,
                id,
                owner,
                ttl_ms,
            } => {
                check_len(id.len(), KEY_BYTES_MAX)?;
                let number = self.group(&topic, &group)?.number;
                let until_ms = (self.staging).row(Space::Marks, &keys::mark(number, &id), |decoder| decoder.u64())?;
                Ok(Written::Claim(match until_ms {
                    Some(until_ms) if until_ms > self.now_ms => EventClaim::Seen,
                    _ => self.claims.claim(number, &id, &owner, ttl_ms, self.now_ms),
                }))
            }
            Write::ReleaseEvent {
                topic,
                group,
                id,
                owner,
            } => {
                let number = self.group(&topic, &group)?.number;
                self.claims.release(number, &id, &owner);
                Ok(Written::Done)
            }
            Write::Trim { topic, retention } => self.trim(&topic, &retention),
        }
    }

    fn append(&mut self, topic: &TopicName, events: &[NewEvent]) -> Result<Vec<Appended>, Stop> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        check_sizes(events)?;
        let row = log::topic(self.staging, topic.as_str())?;
        let verdicts = judge_append(events, |id| {
            let Some(row) = &row else {
                return Ok(None);
            };
            match log::seq_of_id(self.staging, row, id)? {
                Some(seq) => log::event(self.staging, row, seq).map(|found| Some(Arc::new(found.event))),
                None => Ok::<_, StoreError>(None),
            }
        })??;
        let mut row = match row {
            Some(row) => row,
            None if self.staging.topics >= self.options.max_topics => {
                let max = self.options.max_topics;
                return Err(Refused::TooManyTopics { max }.into());
            }
            None => self.make_topic(topic),
        };
        let mut changed = false;
        let answers = events
            .iter()
            .zip(verdicts)
            .map(|(event, verdict)| match verdict {
                Verdict::Known(seq) => Appended::Known { seq },
                Verdict::Place => {
                    changed = true;
                    Appended::New(self.place(topic, &mut row, event))
                }
            })
            .collect();
        if changed {
            self.staging.put_topic(topic.as_str(), &mut row);
        }
        Ok(answers)
    }

    fn dead_letters(&mut self, topic: &TopicName, letters: &[NewEvent]) -> Result<Vec<Appended>, Stop> {
        if letters.is_empty() {
            return Ok(Vec::new());
        }
        check_sizes(letters)?;
        self.staging.sync |= self.asks_for_fsync(topic);
        let row = log::topic(self.staging, topic.as_str())?;
        let mut row = row.unwrap_or_else(|| self.make_topic(topic));
        let known = row.clone();
        let this = std::cell::RefCell::new(self);
        let answers = place_dead_letters(
            letters,
            |id| log::seq_of_id(this.borrow().staging, &known, id),
            |letter| Ok::<_, StoreError>(this.borrow_mut().place(topic, &mut row, letter)),
        )?;
        if row != known {
            this.into_inner().staging.put_topic(topic.as_str(), &mut row);
        }
        Ok(answers)
    }

    fn make_topic(&mut self, topic: &TopicName) -> TopicRow {
        self.staging.commit.topic_number += 1;
        self.staging.topics += 1;
        let number = self.staging.commit.topic_number;
        self.staging.made.push(number);
        TopicRow::new(number, (self.options.rules)(topic).partitions)
    }

    fn place(&mut self, topic: &TopicName, row: &mut TopicRow, new: &NewEvent) -> Arc<Event> {
        let event = row.end.place(topic, new, self.now_ms);
        self.staging.commit.tails += 1;
        let (seq, number) = (event.seq, row.number);
        row.bytes_through += event.json.len() as u64;
        row.ts_max = row.ts_max.max(event.ts);
        row.block_ts_max = row.block_ts_max.max(event.ts);
        let mut point = |key: Vec<u8>| {
            let value = encode_number(&key, seq);
            self.staging.put(Space::Index, key, value);
        };
        point(keys::id(number, &event.id));
        if let Some(key) = &event.key {
            point(keys::newest(number, key));
        }
        if seq.is_multiple_of(BLOCK) {
            let block = BlockRow {
                ordinals: row.end.ordinals.clone(),
                ts_max: row.ts_max,
                block_ts_max: row.block_ts_max,
            };
            row.block_ts_max = 0;
            let key = keys::block(number, seq / BLOCK - 1);
            let value = block.encode(&key);
            self.staging.put(Space::Index, key, value);
        }
        let stored = EventRow {
            event,
            commit: self.staging.commit.number,
            bytes_through: row.bytes_through,
        };
        let key = keys::event(number, seq);
        let value = stored.encode(&key);
        self.staging.put(Space::Events, key, value);
        Arc::new(stored.event)
    }

    fn trim(&mut self, topic: &TopicName, retention: &Retention) -> Result<Written, Stop> {
        let Some(mut row) = log::topic(self.staging, topic.as_str())? else {
            return Ok(Written::Trimmed { first: 1, events: 0 });
        };
        let first = log::trim_point(self.staging, &row, retention, self.now_ms)?;
        let events = first - row.first;
        if events > 0 {
            let bytes_before = log::event(self.staging, &row, first - 1)?.bytes_through;
            self.staging.gone.push(Gone {
                number: row.number,
                first: Some(first),
                events,
                bytes: bytes_before.saturating_sub(row.bytes_before),
            });
            row.bytes_before = bytes_before;
            row.first_ordinals = log::ordinals_at(self.staging, &row, first - 1)?;
            row.first = first;
            self.staging.put_topic(topic.as_str(), &mut row);
            // Rows are removed for good after this: no power cut may bring the old `first` back.
            self.staging.sync = true;
        }
        Ok(Written::Trimmed { first, events })
    }

    fn delete_topic(&mut self, topic: &TopicName) -> Result<Written, Stop> {
        if let Some(row) = log::topic(self.staging, topic.as_str())? {
            self.staging.remove(Space::State, keys::topic(topic.as_str()));
            self.staging.topics = self.staging.topics.saturating_sub(1);
            let tails = &mut self.staging.commit.tails;
            *tails = tails.saturating_sub(row.end.tail);
            let state = row.state();
            self.staging.gone.push(Gone {
                number: row.number,
                first: None,
                events: state.events,
                bytes: state.bytes,
            });
            // As in `trim`.
            self.staging.sync = true;
        }
        for key in self.staging.keys_with_prefix(&keys::groups(topic.as_str()))? {
            self.delete_group(&key)?;
        }
        Ok(Written::Done)
    }
}

fn check_sizes(events: &[NewEvent]) -> Result<(), Refused> {
    for event in events {
        check_len(event.size(), EVENT_BYTES_MAX)?;
        check_len(event.id.len(), KEY_BYTES_MAX)?;
        check_len(event.key.as_ref().map_or(0, |key| key.len()), KEY_BYTES_MAX)?;
    }
    Ok(())
}

fn check_len(bytes: usize, max: usize) -> Result<(), Refused> {
    if bytes > max {
        return Err(Refused::TooLarge { bytes, max });
    }
    Ok(())
}
