//! The store in memory: for topics that ask for no more, for tests, and as the plainest reading of the contract.
//!
//! One lock over everything, held only while a batch is applied or the answer to a read is gathered; no future in here
//! ever waits.

mod cluster;
mod group;
mod log;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use futures_util::future::BoxFuture;
use tokio::sync::broadcast;
use tokio::time::Instant;

use self::group::Group;
use self::log::Log;
use super::placing::{Verdict, check_epoch, judge_append, place_dead_letters};
use super::{
    Appended, Cluster, CommitResult, GroupState, OwnerId, Refused, Store, StoreError, StoreOptions, TopicMoved,
    TopicState, Write, Written,
};
use crate::domain::{Event, GroupName, NewEvent, TopicName};

/// A store that is gone with the process. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<RwLock<State>>,
    options: StoreOptions,
    /// Where several gateways of this process use it, for tests: news of what was written.
    news: Option<broadcast::Sender<TopicMoved>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    logs: BTreeMap<TopicName, Log>,
    /// By topic, whether it exists or not.
    groups: BTreeMap<TopicName, BTreeMap<GroupName, Group>>,
    /// The newest epoch of all groups: one counter for all, so that a group made again never repeats one.
    epoch: u64,
    /// Until when each owner's lease lasts.
    leases: HashMap<OwnerId, Instant>,
}

impl MemoryStore {
    /// A store without anything in it.
    pub fn new(options: StoreOptions) -> MemoryStore {
        MemoryStore {
            state: Arc::default(),
            options,
            news: None,
        }
    }

    /// One that several gateways of this process may use at once, for tests.
    pub fn shared(options: StoreOptions) -> MemoryStore {
        MemoryStore {
            news: Some(broadcast::Sender::new(cluster::NEWS_KEPT)),
            ..MemoryStore::new(options)
        }
    }

    fn look<T: Send + 'static>(&self, read: impl FnOnce(&State) -> T) -> BoxFuture<'static, Result<T, StoreError>> {
        let answer = match self.state.read() {
            Ok(state) if state.closed => Err(StoreError::Closed),
            Ok(state) => Ok(read(&state)),
            Err(_) => Err(broken()),
        };
        ready(answer)
    }

    fn look_at_log<T: Send + 'static>(
        &self,
        topic: &TopicName,
        without: T,
        read: impl FnOnce(&Log) -> T,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        self.look(|state| state.logs.get(topic).map_or(without, read))
    }

    fn partitions(&self, topic: &TopicName) -> u32 {
        (self.options.rules)(topic).partitions.max(1)
    }
}

fn ready<T: Send + 'static>(answer: T) -> BoxFuture<'static, T> {
    Box::pin(std::future::ready(answer))
}

fn broken() -> StoreError {
    StoreError::Unavailable("a write was broken off half way".into())
}

impl State {
    fn apply(&mut self, write: Write, now_ms: u64, options: &StoreOptions) -> Result<Written, Refused> {
        match write {
            Write::Append { topic, events } => self.append(topic, &events, now_ms, options).map(Written::Appended),
            Write::CreateGroup {
                topic,
                group,
                settings,
                cursors,
            } => {
                let groups = self.groups.entry(topic).or_default();
                if groups.contains_key(&group) {
                    return Err(Refused::GroupExists(group));
                }
                let max = options.max_groups_per_topic;
                if groups.len() >= max {
                    return Err(Refused::TooManyGroups { max });
                }
                self.epoch += 1;
                groups.insert(group, Group::new(settings, cursors, self.epoch));
                Ok(Written::Epoch(self.epoch))
            }
            Write::ClaimGroup { topic, group, owner } => self.claim(&topic, group, owner),
            Write::ReleaseGroup { topic, group, epoch } => {
                self.claimed(&topic, group, epoch)?.owner = None;
                Ok(Written::Done)
            }
            Write::SaveGroup {
                topic,
                group,
                epoch,
                settings,
                paused,
            } => {
                let group = self.claimed(&topic, group, epoch)?;
                group.settings = settings;
                group.paused = paused;
                Ok(Written::Done)
            }
            Write::SaveCursors {
                topic,
                group,
                epoch,
                updates,
                dead_letters,
            } => {
                let group = self.claimed(&topic, group, epoch)?;
                for update in updates {
                    group.update(update);
                }
                Ok(Written::CursorsSaved(self.dead_letters(
                    &topic,
                    &dead_letters,
                    now_ms,
                    options,
                )))
            }
            Write::SeekGroup {
                topic,
                group,
                epoch,
                cursors,
            } => {
                self.claimed(&topic, group, epoch)?.seek(cursors);
                Ok(Written::Done)
            }
            Write::DeleteGroup { topic, group } => {
                if let Some(groups) = self.groups.get_mut(&topic) {
                    groups.remove(&group);
                }
                Ok(Written::Done)
            }
            Write::DeleteTopic { topic } => {
                self.logs.remove(&topic);
                self.groups.remove(&topic);
                Ok(Written::Done)
            }
            Write::MarkSeen {
                topic,
                group,
                id,
                until_ms,
            } => {
                self.group(&topic, group)?.mark(id, until_ms, now_ms);
                Ok(Written::Done)
            }
            Write::ClaimEvent {
                topic,
                group,
                id,
                owner,
                ttl_ms,
            } => {
                let group = self.group(&topic, group)?;
                Ok(Written::Claim(group.claim(&id, &owner, ttl_ms, now_ms)))
            }
            Write::ReleaseEvent {
                topic,
                group,
                id,
                owner,
            } => {
                self.group(&topic, group)?.release(&id, &owner);
                Ok(Written::Done)
            }
            Write::Trim { topic, retention } => Ok(match self.logs.get_mut(&topic) {
                Some(log) => {
                    let events = log.trim(&retention, now_ms);
                    Written::Trimmed {
                        first: log.first(),
                        events,
                    }
                }
                None => Written::Trimmed { first: 1, events: 0 },
            }),
        }
    }

    fn group(&mut self, topic: &TopicName, group: GroupName) -> Result<&mut Group, Refused> {
        let found = self.groups.get_mut(topic).and_then(|groups| groups.get_mut(&group));
        found.ok_or(Refused::NoSuchGroup(group))
    }

    fn claimed(&mut self, topic: &TopicName, group: GroupName, epoch: u64) -> Result<&mut Group, Refused> {
        let group = self.group(topic, group)?;
        check_epoch(group.epoch, epoch)?;
        Ok(group)
    }

    fn append(
        &mut self,
        topic: TopicName,
        events: &[NewEvent],
        now_ms: u64,
        options: &StoreOptions,
    ) -> Result<Vec<Appended>, Refused> {
        let log = self.logs.get(&topic);
        let find = |id: &str| Ok(log.and_then(|log| log.by_id(id)));
        let Ok(verdicts) = judge_append::<_, std::convert::Infallible>(events, find);
        let verdicts = verdicts?;
        if log.is_none() && !events.is_empty() && self.logs.len() >= options.max_topics {
            return Err(Refused::TooManyTopics {
                max: options.max_topics,
            });
        }
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let log = self.log(&topic, options);
        let answers = events.iter().zip(verdicts).map(|(event, verdict)| match verdict {
            Verdict::Known(seq) => Appended::Known { seq },
            Verdict::Place => Appended::New(log.push(&topic, event, now_ms)),
        });
        Ok(answers.collect())
    }

    fn dead_letters(
        &mut self,
        topic: &TopicName,
        letters: &[NewEvent],
        now_ms: u64,
        options: &StoreOptions,
    ) -> Vec<Appended> {
        if letters.is_empty() {
            return Vec::new();
        }
        let topic = topic.dead_letters();
        let log = std::cell::RefCell::new(self.log(&topic, options));
        let Ok(answers) = place_dead_letters::<_, std::convert::Infallible>(
            letters,
            |id| Ok(log.borrow().seq_of_id(id)),
            |letter| Ok(log.borrow_mut().push(&topic, letter, now_ms)),
        );
        answers
    }

    fn log(&mut self, topic: &TopicName, options: &StoreOptions) -> &mut Log {
        self.logs
            .entry(topic.clone())
            .or_insert_with(|| Log::new((options.rules)(topic).partitions))
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        let answer = match self.state.write() {
            Ok(state) if state.closed => Err(StoreError::Closed),
            Ok(mut state) => {
                let apply = |write| {
                    let watched = self.watched(&write);
                    let answer = state.apply(write, now_ms, &self.options);
                    self.tell(watched, &answer);
                    answer
                };
                Ok(batch.into_iter().map(apply).collect())
            }
            Err(_) => Err(broken()),
        };
        ready(answer)
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>> {
        self.look(|state| {
            let states = state.logs.iter().map(|(topic, log)| (topic.clone(), log.state()));
            states.collect()
        })
    }

    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>> {
        self.look_at_log(topic, None, |log| Some(log.state()))
    }

    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.look_at_log(topic, Vec::new(), |log| log.read(from_seq, max_events, max_bytes))
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.look_at_log(topic, Vec::new(), |log| {
            seqs.iter().filter_map(|seq| log.get(*seq)).collect()
        })
    }

    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.look_at_log(topic, vec![None; ids.len()], |log| {
            ids.iter().map(|id| log.seq_of_id(id)).collect()
        })
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.look_at_log(topic, 1, |log| log.seq_at_ts(ts))
    }

    fn newest_by_key(
        &self,
        topic: &TopicName,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>> {
        self.look_at_log(topic, None, |log| log.newest_by_key(key))
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>> {
        let none = vec![0; self.partitions(topic) as usize];
        self.look_at_log(topic, none, |log| log.ordinals_at(seq))
    }

    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>> {
        self.look(|state| {
            let groups = state.groups.get(topic);
            groups.map_or(Vec::new(), |groups| groups.keys().cloned().collect())
        })
    }

    fn group(
        &self,
        topic: &TopicName,
        group: &GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupState>, StoreError>> {
        self.look(|state| Some(state.groups.get(topic)?.get(group)?.state()))
    }

    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.look(|state| {
            let group = state.groups.get(topic).and_then(|groups| groups.get(group));
            group.is_some_and(|group| group.has_mark(id, now_ms))
        })
    }

    fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.news.is_some().then(|| Arc::new(self.clone()) as Arc<dyn Cluster>)
    }

    fn shares(&self, _: &TopicName) -> bool {
        self.news.is_some()
    }

    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.look(|_| ())
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        if let Ok(mut state) = self.state.write() {
            *state = State {
                closed: true,
                ..State::default()
            };
        }
        ready(Ok(()))
    }
}
