//! A batch of writes: topics and groups at the same time, the writes of each one after the other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::PoisonError;

use mongodb::bson::Document;
use mongodb::options::WriteConcern;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::append::{Append, Manner, Part};
use super::database::{insist, majority};
use super::event_row::Draft;
use super::group_writes::{Change, GroupWork, Place, SAVED, letters, plain_update};
use super::{Shared, keys};
use crate::domain::{CursorUpdate, GroupName, TopicName};
use crate::store::{CommitResult, Refused, StoreError, Write, Written};

/// What one transaction takes of a topic's events: enough to share its cost, and not so much that others wait for it.
const EVENTS_MAX: usize = 2_000;
const BYTES_MAX: usize = 8 << 20;
/// What one command takes of cursors.
const UPDATES_MAX: usize = 1_000;
const RANGES_MAX: usize = 50_000;

/// A write with its place in the batch.
type Numbered = (usize, Write);
type Answer = (usize, Result<Written, Refused>);
type Answers = Result<Vec<Answer>, StoreError>;

/// Whether a write is a save of cursors that needs no transaction.
fn is_plain(write: &Write) -> bool {
    let plain = |update: &CursorUpdate| update.retries.is_empty() && update.settled.is_empty();
    matches!(write, Write::SaveCursors { updates, dead_letters, .. }
        if dead_letters.is_empty() && !updates.is_empty() && updates.iter().all(plain))
}

/// Which writes wait for each other: those of one topic. Where none of them makes or removes a group or the topic, those of
/// each group, and those of the log.
type Line = (TopicName, Option<GroupName>);

fn makes_or_removes(write: &Write) -> bool {
    matches!(
        write,
        Write::CreateGroup { .. } | Write::DeleteGroup { .. } | Write::DeleteTopic { .. }
    )
}

fn lines(batch: Vec<Write>) -> Vec<(TopicName, VecDeque<Numbered>)> {
    let whole: HashSet<TopicName> = batch
        .iter()
        .filter(|write| makes_or_removes(write))
        .map(|write| write.topic().clone())
        .collect();
    let mut lines: Vec<(TopicName, VecDeque<Numbered>)> = Vec::new();
    let mut places: HashMap<Line, usize> = HashMap::new();
    for (number, write) in batch.into_iter().enumerate() {
        let topic = write.topic().clone();
        let group = write.group().filter(|_| !whole.contains(&topic)).cloned();
        let place = *places.entry((topic.clone(), group)).or_insert_with(|| {
            lines.push((topic, VecDeque::new()));
            lines.len() - 1
        });
        lines[place].1.push_back((number, write));
    }
    lines
}

/// Does a batch.
pub(super) async fn commit(shared: Arc<Shared>, batch: Vec<Write>, now_ms: u64, until: Instant) -> CommitResult {
    let count = batch.len();
    let (plain, others): (Vec<_>, Vec<_>) = lines(batch)
        .into_iter()
        .partition(|(_, writes)| writes.iter().all(|(_, write)| is_plain(write)));
    let mut tasks = JoinSet::new();
    let saves: Vec<Numbered> = plain.into_iter().flat_map(|(_, writes)| writes).collect();
    if !saves.is_empty() {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move { save_plain(&shared, saves, now_ms, until).await });
    }
    for (topic, writes) in others {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move {
            let gone = |_| StoreError::Closed;
            let _permit = shared.writes.acquire().await.map_err(gone)?;
            let topic = OneTopic {
                shared: &shared,
                topic: &topic,
                letters: topic.dead_letters(),
                now_ms,
                until,
            };
            topic.apply(writes).await
        });
    }
    let mut answers = vec![None; count];
    let mut failure = None;
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|_| Err(StoreError::Unavailable("a write broke down".into())));
        match done {
            Ok(done) => done
                .into_iter()
                .for_each(|(number, answer)| answers[number] = Some(answer)),
            // The others are done first: what was begun is not left half way.
            Err(error) => failure = Some(error),
        }
    }
    let lost = || StoreError::Unavailable("a write was not answered".into());
    match failure {
        Some(error) => Err(error),
        None => answers.into_iter().map(|answer| answer.ok_or_else(lost)).collect(),
    }
}

/// Saves of cursors that need no transaction, of any number of groups in few commands. Where not every cursor was there
/// with its epoch, the groups are looked at one by one.
async fn save_plain(shared: &Shared, saves: Vec<Numbered>, now_ms: u64, until: Instant) -> Answers {
    let mut answers = Vec::with_capacity(saves.len());
    let mut rest = VecDeque::from(saves);
    while !rest.is_empty() {
        let (mut taken, mut updates, mut ranges) = (Vec::new(), Vec::<Document>::new(), 0);
        while let Some((number, write)) = rest.pop_front() {
            if let Write::SaveCursors {
                topic,
                group,
                epoch,
                updates: changed,
                ..
            } = &write
            {
                ranges += changed.iter().map(|update| update.cursor.acked.len()).sum::<usize>();
                updates.extend(changed.iter().map(|update| plain_update(topic, group, *epoch, update)));
            }
            taken.push((number, write));
            if updates.len() >= UPDATES_MAX || ranges >= RANGES_MAX {
                break;
            }
        }
        let expected = updates.len() as u64;
        let met = insist(until, || {
            Box::pin(shared.database.update_many(keys::CURSORS, updates.clone(), None))
        })
        .await?;
        if met == expected {
            answers.extend(taken.into_iter().map(|(number, _)| (number, Ok(SAVED))));
            continue;
        }
        for (number, write) in taken {
            let topic = write.topic().clone();
            let topic = OneTopic {
                shared,
                topic: &topic,
                letters: topic.dead_letters(),
                now_ms,
                until,
            };
            answers.push((number, topic.other(write).await?));
        }
    }
    Ok(answers)
}

/// The writes of one topic.
struct OneTopic<'a> {
    shared: &'a Shared,
    topic: &'a TopicName,
    /// The topic of its dead letters.
    letters: TopicName,
    now_ms: u64,
    until: Instant,
}

impl OneTopic<'_> {
    async fn apply(&self, mut writes: VecDeque<Numbered>) -> Answers {
        let mut answers = Vec::with_capacity(writes.len());
        while let Some((number, write)) = writes.pop_front() {
            match write {
                Write::Append { events, .. } => {
                    let mut numbers = vec![number];
                    let mut parts = vec![self.part(events)];
                    while is_below_limits(&parts)
                        && let Some((number, Write::Append { events, .. })) =
                            writes.pop_front_if(|(_, write)| matches!(write, Write::Append { .. }))
                    {
                        numbers.push(number);
                        parts.push(self.part(events));
                    }
                    answers.extend(numbers.into_iter().zip(self.append(parts).await?));
                }
                write if is_plain(&write) => answers.extend(save_plain_one(self, number, write).await?),
                write => answers.push((number, self.other(write).await?)),
            }
        }
        Ok(answers)
    }

    fn part(&self, events: Vec<crate::domain::NewEvent>) -> Part {
        events.into_iter().map(|event| Draft::new(self.topic, event)).collect()
    }

    fn concern(&self, topic: &TopicName) -> WriteConcern {
        match (self.shared.options.rules)(topic).write_concern {
            crate::domain::WriteConcern::Majority => majority(),
            crate::domain::WriteConcern::One => WriteConcern::nodes(1),
        }
    }

    async fn append(&self, parts: Vec<Part>) -> Result<Vec<Result<Written, Refused>>, StoreError> {
        let Shared { database, options, .. } = self.shared;
        let mut append = Append::new(database, options, self.topic, parts, Manner::Publish, self.now_ms);
        let parts = append.parts.len();
        Ok(
            match database
                .transact(&mut append, self.concern(self.topic), self.until)
                .await?
            {
                Ok(answers) => answers
                    .into_iter()
                    .map(|answer| answer.map(Written::Appended))
                    .collect(),
                Err(refused) => vec![Err(refused); parts],
            },
        )
    }

    async fn change(&self, group: &GroupName, change: Change<'_>) -> Result<Result<Written, Refused>, StoreError> {
        let mut work = GroupWork {
            place: self.place(group),
            options: &self.shared.options,
            change,
            until: self.until,
        };
        // What is written of a group is never less safe than its dead letters, and costs little.
        self.shared.database.transact(&mut work, majority(), self.until).await
    }

    fn place<'a>(&'a self, group: &'a GroupName) -> Place<'a> {
        Place {
            database: &self.shared.database,
            topic: self.topic,
            group,
        }
    }

    /// Any write but an append.
    async fn other(&self, write: Write) -> Result<Result<Written, Refused>, StoreError> {
        let Shared { database, options, .. } = self.shared;
        match write {
            Write::Append { .. } => Err(StoreError::Unavailable("an append out of its place".into())),
            Write::CreateGroup {
                group,
                settings,
                cursors,
                ..
            } => {
                let (settings, cursors) = (&settings, &cursors[..]);
                self.change(&group, Change::Create { settings, cursors }).await
            }
            Write::ClaimGroup { group, owner, .. } => self.change(&group, Change::Claim { owner: &owner }).await,
            Write::ReleaseGroup { group, epoch, .. } => self.place(&group).release_claim(epoch, self.until).await,
            Write::SeekGroup {
                group, epoch, cursors, ..
            } => {
                let cursors = &cursors[..];
                self.change(&group, Change::Seek { epoch, cursors }).await
            }
            Write::DeleteGroup { group, .. } => self.change(&group, Change::Delete).await,
            Write::SaveCursors {
                group,
                epoch,
                updates,
                dead_letters,
                ..
            } => {
                let letters = letters(database, options, &self.letters, dead_letters, self.now_ms);
                let updates = &updates[..];
                self.change(
                    &group,
                    Change::Save {
                        epoch,
                        updates,
                        letters,
                    },
                )
                .await
            }
            Write::SaveGroup {
                group,
                epoch,
                settings,
                paused,
                ..
            } => {
                self.place(&group)
                    .save_group(epoch, &settings, &paused, self.until)
                    .await
            }
            Write::MarkSeen {
                group, id, until_ms, ..
            } => self.place(&group).mark(&id, until_ms, self.until).await,
            Write::ClaimEvent {
                group,
                id,
                owner,
                ttl_ms,
                ..
            } => {
                let place = self.place(&group);
                place.claim(&id, &owner, ttl_ms, self.now_ms, self.until).await
            }
            Write::ReleaseEvent { group, id, owner, .. } => self.place(&group).release(&id, &owner, self.until).await,
            Write::Trim { retention, .. } => {
                let trimmed = database.trim(self.topic, &retention, self.now_ms, self.until).await?;
                self.shared.sweep(self.topic.clone());
                Ok(Ok(trimmed))
            }
            Write::DeleteTopic { .. } => {
                if database.remove_topic(self.topic, self.until).await? {
                    // It is gone for everybody. A large one takes longer to leave the collection than anybody waits.
                    let finish = self.shared.finish_removal(self.topic.clone());
                    let _ = tokio::time::timeout_at(self.until, finish).await;
                }
                Ok(Ok(Written::Done))
            }
        }
    }
}

fn save_plain_one<'a>(
    topic: &'a OneTopic<'_>,
    number: usize,
    write: Write,
) -> futures_util::future::BoxFuture<'a, Answers> {
    Box::pin(save_plain(
        topic.shared,
        vec![(number, write)],
        topic.now_ms,
        topic.until,
    ))
}

fn is_below_limits(parts: &[Part]) -> bool {
    let drafts = || parts.iter().flatten().flatten();
    drafts().count() < EVENTS_MAX && drafts().map(Draft::size).sum::<usize>() < BYTES_MAX
}

impl Shared {
    /// Takes what retention removed out of the collection, in the background; once at a time for each topic.
    fn sweep(self: &Shared, topic: TopicName) {
        let Some(shared) = self.myself.upgrade() else { return };
        let mut sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        if !sweeping.insert(topic.clone()) {
            return;
        }
        drop(sweeping);
        tokio::spawn(async move {
            if let Err(error) = shared.database.sweep(&topic).await {
                tracing::warn!(%topic, %error, "removed events could not be deleted yet");
            }
            let mut sweeping = shared.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
            sweeping.remove(&topic);
        });
    }

    /// Ends when the removed topic is out of the collection; it gets there also if nobody waits.
    fn finish_removal(&self, topic: TopicName) -> tokio::task::JoinHandle<()> {
        let shared = self.myself.upgrade();
        tokio::spawn(async move {
            let Some(shared) = shared else { return };
            if let Err(error) = shared.database.finish_removal(&topic).await {
                tracing::warn!(%topic, %error, "a removed topic's events could not be deleted yet");
            }
        })
    }
}
