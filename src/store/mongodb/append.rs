//! Putting events at the end of a topic, as part of a transaction.
//!
//! The first thing is to move the topic's counters by what the events will take. Who does that has the topic's document to
//! himself until the end of the transaction (another writer's try fails and begins anew), and gets it as it was before:
//! so seqs follow from the database alone, events are committed in the order of their seqs, and an id that is looked up
//! after it cannot come in by another door. Nothing is remembered from one transaction to the next.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::ReturnDocument;

use super::database::{Database, Fault, duplicate_key};
use super::event_row::{Draft, EventRow};
use super::keys;
use super::topic_row::TopicRow;
use super::transaction::{Step, Work};
use crate::domain::{Event, NewEvent, TopicName, partition_of};
use crate::store::placing::{Verdict, judge_append, place_dead_letters};
use crate::store::{Appended, Refused, StoreError, StoreOptions};

impl Borrow<NewEvent> for Draft {
    fn borrow(&self) -> &NewEvent {
        &self.new
    }
}

/// Events that come to stand or not together.
pub(super) type Part = Result<Vec<Draft>, Refused>;

/// What became of each part.
pub(super) type Answers = Vec<Result<Vec<Appended>, Refused>>;

/// How known ids are taken, and whether the topic counts against the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Publish,
    DeadLetters,
}

/// Appends to one topic, in one transaction.
pub(super) struct Append<'a> {
    pub database: &'a Database,
    pub options: &'a StoreOptions,
    pub topic: &'a TopicName,
    pub parts: Vec<Part>,
    pub manner: Manner,
    pub now_ms: u64,
    /// Where the last try put events: those found there by the next one are its own.
    pub earlier: Vec<Arc<Event>>,
    /// An id was there that only an earlier try can have put there: all are looked up from now on.
    pub look_up_all: bool,
}

impl Work for Append<'_> {
    type Answer = Answers;

    fn attempt<'a>(
        &'a mut self,
        session: &'a mut ClientSession,
        uncertain: bool,
    ) -> BoxFuture<'a, Result<Step<Answers>, Fault>> {
        Box::pin(async move {
            let (answers, changed) = self.write(session, uncertain).await?;
            Ok(if changed {
                Step::Commit(answers)
            } else {
                Step::Leave(answers)
            })
        })
    }
}

impl<'a> Append<'a> {
    pub fn new(
        database: &'a Database,
        options: &'a StoreOptions,
        topic: &'a TopicName,
        parts: Vec<Part>,
        manner: Manner,
        now_ms: u64,
    ) -> Append<'a> {
        Append {
            database,
            options,
            topic,
            parts,
            manner,
            now_ms,
            earlier: Vec::new(),
            look_up_all: false,
        }
    }

    /// Writes what is new. The second answer says whether anything was.
    pub async fn write(&mut self, session: &mut ClientSession, uncertain: bool) -> Result<(Answers, bool), Fault> {
        self.look_up_all |= uncertain;
        if self.drafts().next().is_none() {
            let answer = |part: &Part| part.as_ref().map(|_| Vec::new()).map_err(Clone::clone);
            return Ok((self.parts.iter().map(answer).collect(), false));
        }
        let Some(before) = self.take_turn(session).await? else {
            let max = self.options.max_topics;
            let refuse = |part: &Part| match part {
                Ok(drafts) if drafts.is_empty() => Ok(Vec::new()),
                Ok(drafts) => {
                    let Ok(verdict) = judge_append::<_, std::convert::Infallible>(drafts, |_| Ok(None));
                    Err(verdict.err().unwrap_or(Refused::TooManyTopics { max }))
                }
                Err(refused) => Err(refused.clone()),
            };
            return Ok((self.parts.iter().map(refuse).collect(), false));
        };
        let (known, hidden) = self.known(session, &before).await?;
        let mut placer = Placer::new(self, before);
        let answers = self.place(&mut placer, &known)?;
        if placer.placed.is_empty() && self.manner == Manner::Publish {
            return Ok((answers, false));
        }
        if placer.placed.len() < self.drafts().count() {
            // Less than the counters were moved by.
            let topic = doc! { "_id": self.topic.as_str() };
            let update = doc! { "$set": placer.row.end_fields() };
            self.database
                .topics
                .update_one(topic, update)
                .session(&mut *session)
                .await?;
        }
        if !hidden.is_empty() {
            let gone = doc! { "_id": { "$in": hidden } };
            self.database.events.delete_many(gone).session(&mut *session).await?;
        }
        self.earlier = placer.placed;
        self.insert(session, placer.documents).await?;
        Ok((answers, true))
    }

    fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.parts.iter().flatten().flatten()
    }

    /// Moves the topic's counters and gives the topic as it was before; makes it where it is not there. `None`: there
    /// are too many topics.
    async fn take_turn(&self, session: &mut ClientSession) -> Result<Option<TopicRow>, Fault> {
        let topics = &self.database.topics;
        let mut partitions = (self.options.rules)(self.topic).partitions.max(1);
        loop {
            let found = topics
                .find_one_and_update(
                    doc! { "_id": self.topic.as_str(), "partitions": partitions as i32, "removing": { "$exists": false } },
                    self.counters(partitions),
                )
                .return_document(ReturnDocument::Before)
                .session(&mut *session)
                .await?;
            if let Some(found) = found {
                return Ok(Some(TopicRow::decode(&found)?.1));
            }
            match topics
                .find_one(doc! { "_id": self.topic.as_str() })
                .session(&mut *session)
                .await?
            {
                None => {
                    if self.manner == Manner::Publish && self.are_too_many_topics().await? {
                        return Ok(None);
                    }
                    let row = TopicRow::new(partitions).document(self.topic);
                    let row = RawDocumentBuf::try_from(&row).map_err(mongodb::error::Error::from)?;
                    if let Err(error) = topics.insert_one(row).session(&mut *session).await {
                        // Another gateway made it at the same time.
                        return Err(duplicate_key(&error).map_or(Fault::Driver(error), |_| Fault::Again));
                    }
                }
                Some(found) => {
                    let row = TopicRow::decode(&found)?.1;
                    if row.removing {
                        // Not in this transaction: there may be any number of events.
                        let _ = session.abort_transaction().await;
                        self.database.finish_removal(self.topic).await?;
                        return Err(Fault::Again);
                    }
                    if row.end.partitions() == partitions {
                        return Err(Fault::Again);
                    }
                    // The number was fixed when the topic was made, whatever is configured now.
                    partitions = row.end.partitions();
                }
            }
        }
    }

    /// What all events together add, if all are new.
    fn counters(&self, partitions: u32) -> Document {
        let (mut count, mut bytes, mut ts_max) = (0_i64, 0_u64, 0_u64);
        let mut by_partition: BTreeMap<u32, i64> = BTreeMap::new();
        for draft in self.drafts() {
            let key = draft.new.key.as_deref().unwrap_or(&draft.new.id);
            let partition = partition_of(key, partitions);
            *by_partition.entry(partition).or_default() += 1;
            count += 1;
            bytes += draft.json_bytes(partition);
            ts_max = ts_max.max(draft.new.ts);
        }
        let mut added = doc! { "seq": count, "bytes": keys::signed(bytes) };
        for (partition, count) in by_partition {
            added.insert(format!("ordinals.{partition}"), count);
        }
        doc! { "$inc": added, "$max": { "at": keys::clamped(self.now_ms), "tsMax": keys::clamped(ts_max) } }
    }

    async fn are_too_many_topics(&self) -> Result<bool, Fault> {
        /// Up to so many are counted one by one; beyond, the collection's own figure is near enough until half are there.
        const COUNTED: u64 = 1_000;
        let max = self.options.max_topics as u64;
        let topics = &self.database.topics;
        if max > COUNTED && topics.estimated_document_count().await? < max / 2 {
            return Ok(false);
        }
        let there = doc! { "removing": { "$exists": false } };
        Ok(topics.count_documents(there).limit(max).await? >= max)
    }

    /// The kept events among the ids that may be there already, and the documents of those that retention has removed but
    /// that are still in the collection: they give their ids back.
    async fn known(
        &self,
        session: &mut ClientSession,
        before: &TopicRow,
    ) -> Result<(HashMap<Box<str>, Arc<Event>>, Vec<Bson>), Fault> {
        let asked = self.drafts().filter(|draft| draft.new.id_given || self.look_up_all);
        let ids: Vec<Bson> = asked
            .map(|draft| Bson::String(keys::event(self.topic, &draft.new.id)))
            .collect();
        let (mut known, mut hidden) = (HashMap::new(), Vec::new());
        if ids.is_empty() || before.end.tail == 0 {
            return Ok((known, hidden));
        }
        let found = self.database.events.find(doc! { "_id": { "$in": ids } });
        let mut cursor = found.session(&mut *session).await?;
        while cursor.advance(&mut *session).await? {
            let event = EventRow::decode(self.topic, cursor.current())?.event;
            if before.keeps(event.seq) {
                known.insert(event.id.clone(), Arc::new(event));
            } else {
                hidden.push(Bson::String(keys::event(self.topic, &event.id)));
            }
        }
        Ok((known, hidden))
    }

    fn place(&self, placer: &mut Placer<'_>, known: &HashMap<Box<str>, Arc<Event>>) -> Result<Answers, StoreError> {
        let placer = RefCell::new(placer);
        let mut answers = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let drafts = match part {
                Ok(drafts) => drafts,
                Err(refused) => {
                    answers.push(Err(refused.clone()));
                    continue;
                }
            };
            let find = |id: &str| placer.borrow().by_id.get(id).or_else(|| known.get(id)).cloned();
            if self.manner == Manner::DeadLetters {
                let found = |id: &str| Ok::<_, StoreError>(find(id).map(|event| event.seq));
                let put = |draft: &Draft| placer.borrow_mut().put(draft);
                let letters = place_dead_letters(drafts, found, put)?;
                answers.push(Ok(letters.into_iter().map(|letter| self.own(letter, known)).collect()));
                continue;
            }
            let verdicts = match judge_append::<_, StoreError>(drafts, |id| Ok(find(id)))? {
                Ok(verdicts) => verdicts,
                Err(refused) => {
                    answers.push(Err(refused));
                    continue;
                }
            };
            let appended = drafts.iter().zip(verdicts).map(|(draft, verdict)| {
                // Ids that the gateway made are looked up only to find what an earlier try put there.
                let made_here = known.get(&draft.new.id).filter(|_| !draft.new.id_given);
                Ok(match (verdict, made_here) {
                    (_, Some(event)) => Appended::New(Arc::clone(event)),
                    (Verdict::Known(seq), None) => self.own(Appended::Known { seq }, known),
                    (Verdict::Place, None) => Appended::New(placer.borrow_mut().put(draft)?),
                })
            });
            answers.push(Ok(appended.collect::<Result<_, StoreError>>()?));
        }
        Ok(answers)
    }

    /// A known event that an earlier try of this very append has put there is new to everybody else.
    fn own(&self, appended: Appended, known: &HashMap<Box<str>, Arc<Event>>) -> Appended {
        let Appended::Known { seq } = appended else {
            return appended;
        };
        let mine = self.earlier.iter().find(|event| event.seq == seq);
        match mine.and_then(|mine| known.get(&mine.id)) {
            Some(event) if event.seq == seq => Appended::New(Arc::clone(event)),
            _ => Appended::Known { seq },
        }
    }

    async fn insert(&mut self, session: &mut ClientSession, documents: Vec<RawDocumentBuf>) -> Result<(), Fault> {
        if documents.is_empty() {
            return Ok(());
        }
        let inserted = self.database.events.insert_many(documents).session(&mut *session).await;
        let Err(error) = inserted else {
            return Ok(());
        };
        match duplicate_key(&error) {
            Some(message) if message.contains(super::indexes::SEQ_INDEX) => {
                let text = format!(
                    "the counter of the topic {} is behind its events: {message}",
                    self.topic
                );
                Err(StoreError::Corrupt(text).into())
            }
            Some(_) if !self.look_up_all => {
                self.look_up_all = true;
                Err(Fault::Again)
            }
            _ => Err(error.into()),
        }
    }
}

/// Gives events their places and makes their documents.
struct Placer<'a> {
    topic: &'a TopicName,
    now_ms: u64,
    row: TopicRow,
    placed: Vec<Arc<Event>>,
    documents: Vec<RawDocumentBuf>,
    /// Those whose ids a later part of the same transaction may name again.
    by_id: HashMap<Box<str>, Arc<Event>>,
}

impl<'a> Placer<'a> {
    fn new(append: &Append<'a>, before: TopicRow) -> Placer<'a> {
        Placer {
            topic: append.topic,
            now_ms: append.now_ms,
            row: before,
            placed: Vec::new(),
            documents: Vec::new(),
            by_id: HashMap::new(),
        }
    }

    fn put(&mut self, draft: &Draft) -> Result<Arc<Event>, StoreError> {
        let row = &mut self.row;
        let event = Arc::new(row.end.place(self.topic, &draft.new, self.now_ms));
        row.ts_max = row.ts_max.max(event.ts);
        row.bytes += draft.json_bytes(event.partition);
        let document = draft.document(self.topic, &event, row.ts_max, row.bytes, &row.end.ordinals)?;
        self.documents.push(document);
        if draft.new.id_given {
            self.by_id.insert(event.id.clone(), Arc::clone(&event));
        }
        self.placed.push(Arc::clone(&event));
        Ok(event)
    }
}
