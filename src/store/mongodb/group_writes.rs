//! What writes to groups do.
//!
//! Every cursor has its group's epoch, so a plain save of cursors needs no transaction: each document is met by its `_id`
//! and epoch or not at all. Whatever touches more than cursors goes through the group's document, and with it through a
//! transaction that a claim cannot pass unseen.

use std::future::IntoFuture as _;

use futures_util::future::BoxFuture;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::Error;
use mongodb::options::ReturnDocument;
use tokio::time::Instant;

use super::append::{Append, Manner};
use super::database::{Database, Fault, duplicate_key, insist, majority};
use super::event_row::{Draft, number};
use super::group_row::{
    GroupRow, cursor_document, cursor_fields, group_document, pause_field, retry_fields, settings_fields,
};
use super::keys;
use super::transaction::{Step, Work};
use crate::domain::{CursorUpdate, GroupName, GroupSettings, NewEvent, PartitionCursor, TopicName};
use crate::store::placing::{check_epoch, without_original_payload};
use crate::store::{Appended, OwnerId, Pause, Refused, StoreError, StoreOptions, Written};

/// A group of a topic.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub database: &'a Database,
    pub topic: &'a TopicName,
    pub group: &'a GroupName,
}

impl Place<'_> {
    fn id(&self) -> Document {
        doc! { "_id": keys::group(self.topic, self.group) }
    }

    fn claimed(&self, epoch: u64) -> Document {
        doc! { "_id": keys::group(self.topic, self.group), "epoch": keys::signed(epoch) }
    }

    /// Why a write found no group with its epoch.
    async fn refusal(&self, epoch: u64, session: Option<&mut ClientSession>) -> Result<Refused, Fault> {
        let find = self.database.groups.find_one(self.id());
        let found = match session {
            Some(session) => find.session(session).await?,
            None => find.await?,
        };
        let Some(found) = found else {
            return Ok(Refused::NoSuchGroup(self.group.clone()));
        };
        match check_epoch(GroupRow::decode(&found)?.epoch, epoch) {
            Err(refused) => Ok(refused),
            // It came back since.
            Ok(()) => Err(Fault::Again),
        }
    }

    /// Puts cursors where there are none.
    async fn insert_cursors(
        &self,
        session: &mut ClientSession,
        epoch: u64,
        cursors: &[PartitionCursor],
    ) -> Result<(), Fault> {
        if cursors.is_empty() {
            return Ok(());
        }
        let document = |(partition, cursor)| raw(&cursor_document(self.topic, self.group, partition, epoch, cursor));
        let documents = (0..).zip(cursors).map(document).collect::<Result<Vec<_>, _>>()?;
        self.database.cursors.insert_many(documents).session(session).await?;
        Ok(())
    }

    async fn delete_rows(&self, session: &mut ClientSession) -> Result<(), Error> {
        let rows = keys::of_group(self.topic, self.group);
        let Database { cursors, retries, .. } = self.database;
        cursors.delete_many(rows.clone()).session(&mut *session).await?;
        retries.delete_many(rows).session(&mut *session).await?;
        Ok(())
    }

    pub async fn save_group(
        &self,
        epoch: u64,
        settings: &GroupSettings,
        paused: &Option<Pause>,
        until: Instant,
    ) -> Result<Result<Written, Refused>, StoreError> {
        let mut fields = settings_fields(settings)?;
        fields.insert("paused", pause_field(paused));
        let update = doc! { "$set": fields };
        self.update_claimed(epoch, update, until).await
    }

    /// Lets a claim go.
    pub async fn release_claim(&self, epoch: u64, until: Instant) -> Result<Result<Written, Refused>, StoreError> {
        let update = doc! { "$unset": { "owner": true } };
        self.update_claimed(epoch, update, until).await
    }

    /// Changes the group's document, where the claim holds.
    async fn update_claimed(
        &self,
        epoch: u64,
        update: Document,
        until: Instant,
    ) -> Result<Result<Written, Refused>, StoreError> {
        let groups = &self.database.groups;
        let met = insist(until, || {
            let update = groups.update_one(self.claimed(epoch), update.clone());
            Box::pin(update.write_concern(majority()).into_future())
        });
        if met.await?.matched_count > 0 {
            return Ok(Ok(Written::Done));
        }
        match self.refusal(epoch, None).await {
            Ok(refused) => Ok(Err(refused)),
            Err(Fault::Driver(error)) => Err(super::database::unavailable(&error)),
            Err(Fault::Store(error)) => Err(error),
            Err(_) => Err(StoreError::Unavailable("the group changed hands meanwhile".into())),
        }
    }
}

fn raw(document: &Document) -> Result<RawDocumentBuf, Fault> {
    RawDocumentBuf::try_from(document).map_err(|error| Fault::Driver(error.into()))
}

impl Database {
    /// The next number of the counter of all claims.
    pub async fn next_epoch(&self, until: Instant) -> Result<u64, StoreError> {
        let counter = insist(until, || {
            let next = self
                .leases
                .find_one_and_update(doc! { "_id": keys::CLAIMS }, doc! { "$inc": { "epoch": 1_i64 } })
                .upsert(true)
                .return_document(ReturnDocument::After)
                .write_concern(majority());
            Box::pin(next.into_future())
        })
        .await?;
        let epoch = counter.as_ref().and_then(|counter| number(counter.get("epoch").ok()??));
        epoch.ok_or_else(|| StoreError::Corrupt("the counter of claims in `leases` is no number".into()))
    }
}

/// One write to a group that takes a transaction.
pub(super) struct GroupWork<'a> {
    pub place: Place<'a>,
    pub options: &'a StoreOptions,
    pub change: Change<'a>,
    pub until: Instant,
}

pub(super) enum Change<'a> {
    Create {
        settings: &'a GroupSettings,
        cursors: &'a [PartitionCursor],
    },
    Claim {
        owner: &'a OwnerId,
    },
    Seek {
        epoch: u64,
        cursors: &'a [PartitionCursor],
    },
    Delete,
    Save {
        epoch: u64,
        updates: &'a [CursorUpdate],
        /// To the topic of dead letters; `None` without any.
        letters: Option<Append<'a>>,
    },
}

impl Work for GroupWork<'_> {
    type Answer = Written;

    fn attempt<'a>(
        &'a mut self,
        session: &'a mut ClientSession,
        uncertain: bool,
    ) -> BoxFuture<'a, Result<Step<Written>, Fault>> {
        Box::pin(self.change(session, uncertain))
    }
}

impl GroupWork<'_> {
    async fn change(&mut self, session: &mut ClientSession, uncertain: bool) -> Result<Step<Written>, Fault> {
        let place = self.place;
        let Database { groups, cursors, .. } = place.database;
        match &mut self.change {
            Change::Create { settings, cursors } => {
                let max = self.options.max_groups_per_topic;
                let known = groups.find_one(place.id()).session(&mut *session).await?;
                if known.is_some() {
                    return Err(Refused::GroupExists(place.group.clone()).into());
                }
                let count = groups
                    .count_documents(keys::of_topic(place.topic))
                    .session(&mut *session)
                    .await?;
                if count >= max as u64 {
                    return Err(Refused::TooManyGroups { max }.into());
                }
                let epoch = place.database.next_epoch(self.until).await?;
                let row = raw(&group_document(place.topic, place.group, epoch, settings)?)?;
                if let Err(error) = groups.insert_one(row).session(&mut *session).await {
                    return Err(match duplicate_key(&error) {
                        Some(_) => Refused::GroupExists(place.group.clone()).into(),
                        None => error.into(),
                    });
                }
                place.insert_cursors(session, epoch, cursors).await?;
                Ok(Step::Commit(Written::Epoch(epoch)))
            }
            Change::Claim { owner } => {
                if let Some(group) = groups.find_one(place.id()).session(&mut *session).await? {
                    place.database.check_holder(&group, owner, session).await?;
                }
                let epoch = place.database.next_epoch(self.until).await?;
                let older =
                    doc! { "_id": keys::group(place.topic, place.group), "epoch": { "$lt": keys::signed(epoch) } };
                let update = doc! { "$set": { "epoch": keys::signed(epoch), "owner": owner.as_str() } };
                let met = groups.update_one(older, update.clone()).session(&mut *session).await?;
                if met.matched_count == 0 {
                    // None there, or a claim that began later was first.
                    return Err(place.refusal(epoch, Some(&mut *session)).await.map_or_else(
                        |fault| fault,
                        |refused| match refused {
                            Refused::Fenced => Fault::Again,
                            refused => refused.into(),
                        },
                    ));
                }
                let all = keys::of_group(place.topic, place.group);
                cursors.update_many(all, update).session(&mut *session).await?;
                Ok(Step::Commit(Written::Epoch(epoch)))
            }
            Change::Seek { epoch, cursors } => {
                let update = doc! { "$inc": { "seeks": 1_i64 } };
                let group = groups.find_one_and_update(place.claimed(*epoch), update);
                let Some(group) = group.session(&mut *session).await? else {
                    return Err(place.refusal(*epoch, Some(session)).await?.into());
                };
                let mut settings = GroupRow::decode(&group)?.settings;
                settings.filter_since = 0;
                let update = doc! { "$set": settings_fields(&settings)? };
                groups.update_one(place.id(), update).session(&mut *session).await?;
                place.delete_rows(session).await?;
                place.insert_cursors(session, *epoch, cursors).await?;
                Ok(Step::Commit(Written::Done))
            }
            Change::Delete => {
                groups.delete_one(place.id()).session(&mut *session).await?;
                place.delete_rows(session).await?;
                Ok(Step::Commit(Written::Done))
            }
            Change::Save {
                epoch,
                updates,
                letters,
            } => {
                // A change of the group's document, so that a claim at the same time is seen.
                let update = doc! { "$inc": { "saves": 1_i64 } };
                let met = groups
                    .update_one(place.claimed(*epoch), update)
                    .session(&mut *session)
                    .await?;
                if met.matched_count == 0 {
                    return Err(place.refusal(*epoch, Some(session)).await?.into());
                }
                save(place, session, *epoch, updates).await?;
                let appended = match letters {
                    Some(letters) => letters.write(session, uncertain).await?.0.into_iter().next(),
                    None => None,
                };
                let appended = appended.transpose()?.unwrap_or_default();
                Ok(Step::Commit(Written::CursorsSaved(appended)))
            }
        }
    }
}

async fn save(
    place: Place<'_>,
    session: &mut ClientSession,
    epoch: u64,
    updates: &[CursorUpdate],
) -> Result<(), Fault> {
    let Place { database, topic, group } = place;
    let (mut cursors, mut retries, mut settled) = (Vec::new(), Vec::new(), Vec::new());
    for update in updates {
        let mut document = cursor_document(topic, group, update.partition, epoch, &update.cursor);
        let id = document.remove("_id");
        cursors.push(doc! { "q": { "_id": id }, "u": { "$set": document }, "upsert": true });
        for retry in &update.retries {
            let id = keys::retry(topic, group, retry.seq);
            let fields = retry_fields(topic, group, retry);
            retries.push(doc! { "q": { "_id": id }, "u": { "$set": fields }, "upsert": true });
        }
        settled.extend(
            update
                .settled
                .iter()
                .map(|seq| Bson::String(keys::retry(topic, group, *seq))),
        );
    }
    database
        .update_many(keys::CURSORS, cursors, Some(&mut *session))
        .await?;
    database
        .update_many(keys::RETRIES, retries, Some(&mut *session))
        .await?;
    if !settled.is_empty() {
        let over = doc! { "_id": { "$in": settled } };
        database.retries.delete_many(over).session(session).await?;
    }
    Ok(())
}

/// Dead letters on their way to their topic. One that is too large for a document goes without its original's payload.
pub(super) fn letters<'a>(
    database: &'a Database,
    options: &'a StoreOptions,
    topic: &'a TopicName,
    letters: Vec<NewEvent>,
    now_ms: u64,
) -> Option<Append<'a>> {
    if letters.is_empty() {
        return None;
    }
    let draft = |letter: NewEvent| {
        Draft::new(topic, letter.clone()).or_else(|_| Draft::new(topic, without_original_payload(&letter)))
    };
    let part = letters.into_iter().map(draft).collect();
    Some(Append::new(
        database,
        options,
        topic,
        vec![part],
        Manner::DeadLetters,
        now_ms,
    ))
}

/// The change of one cursor in a save that needs no transaction.
pub(super) fn plain_update(topic: &TopicName, group: &GroupName, epoch: u64, update: &CursorUpdate) -> Document {
    doc! {
        "q": { "_id": keys::cursor(topic, group, update.partition), "epoch": keys::signed(epoch) },
        "u": { "$set": cursor_fields(&update.cursor) },
    }
}

/// The answer to a save without dead letters.
pub(super) const SAVED: Written = Written::CursorsSaved(Vec::<Appended>::new());
