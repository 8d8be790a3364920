//! Marks of what consumers have handled (`dedupe`), and claims on what they are handling (`leases`).
//!
//! Both bear their group's number: those of a group that was removed are not taken for those of one that was made anew
//! under its name. They end by themselves.

use std::future::IntoFuture as _;

use mongodb::bson::{DateTime, doc};
use mongodb::options::ReturnDocument;
use tokio::time::Instant;

use super::database::{COMMAND_TIME_MAX, Database, insist, majority, unavailable};
use super::event_row::number;
use super::group_writes::Place;
use super::keys;
use crate::domain::{GroupName, TopicName};
use crate::store::{EventClaim, Refused, StoreError, Written};

type Answer = Result<Result<Written, Refused>, StoreError>;

impl Place<'_> {
    /// The group's number, where there is such a group.
    async fn number(&self) -> Result<Result<u64, Refused>, StoreError> {
        let row = self.database.group_row(self.topic, self.group).await?;
        Ok(row
            .map(|row| row.number)
            .ok_or_else(|| Refused::NoSuchGroup(self.group.clone())))
    }

    pub async fn mark(&self, id: &str, until_ms: u64, until: Instant) -> Answer {
        let number = match self.number().await? {
            Ok(number) => keys::signed(number),
            Err(refused) => return Ok(Err(refused)),
        };
        let mark = doc! { "_id": keys::mark(self.topic, self.group, id) };
        let end = DateTime::from_millis(keys::clamped(until_ms));
        let update = doc! { "$set": { "number": number, "expireAt": end } };
        let Database { dedupe, leases, .. } = self.database;
        insist(until, || {
            let update = dedupe.update_one(mark.clone(), update.clone());
            Box::pin(update.upsert(true).write_concern(majority()).into_future())
        })
        .await?;
        // After the mark: who is granted a claim now finds it.
        insist(until, || Box::pin(leases.delete_one(mark.clone()).into_future())).await?;
        Ok(Ok(Written::Done))
    }

    /// Takes the claim if it is free, in one step and by the database's clock; then looks for a mark, which whoever had the
    /// claim before has left before it let go.
    pub async fn claim(&self, id: &str, owner: &str, ttl_ms: u64, now_ms: u64, until: Instant) -> Answer {
        let number = match self.number().await? {
            Ok(number) => keys::signed(number),
            Err(refused) => return Ok(Err(refused)),
        };
        let claim = doc! { "_id": keys::mark(self.topic, self.group, id) };
        let name = doc! { "$literal": owner };
        let end = doc! { "$add": ["$$NOW", keys::clamped(ttl_ms.min(1 << 50))] };
        let free = doc! { "$or": [
            { "$ne": ["$number", number] },
            { "$eq": ["$owner", name.clone()] },
            { "$lte": ["$expireAt", "$$NOW"] },
        ] };
        let update = vec![doc! { "$set": {
            "owner": { "$cond": [free.clone(), name, "$owner"] },
            "expireAt": { "$cond": [free, end, "$expireAt"] },
            "number": number,
            "asked": "$$NOW",
        } }];
        let leases = &self.database.leases;
        let row = insist(until, || {
            let row = leases.find_one_and_update(claim.clone(), update.clone());
            let row = row.upsert(true).return_document(ReturnDocument::After);
            Box::pin(row.write_concern(majority()).into_future())
        });
        let Some(row) = row.await? else {
            return Err(StoreError::Unavailable("a claim left no trace".into()));
        };
        if row.get_str("owner").is_ok_and(|holder| holder != owner) {
            let time = |name| row.get_datetime(name).map_or(0, |time| time.timestamp_millis());
            let left_ms = u64::try_from(time("expireAt") - time("asked")).unwrap_or(0);
            return Ok(Ok(Written::Claim(EventClaim::Held { left_ms })));
        }
        if self.database.seen(self.topic, self.group, id, now_ms).await? {
            self.release(id, owner, until).await?.ok();
            return Ok(Ok(Written::Claim(EventClaim::Seen)));
        }
        Ok(Ok(Written::Claim(EventClaim::Granted)))
    }

    pub async fn release(&self, id: &str, owner: &str, until: Instant) -> Answer {
        if let Err(refused) = self.number().await? {
            return Ok(Err(refused));
        }
        let claim = doc! { "_id": keys::mark(self.topic, self.group, id), "owner": owner };
        let leases = &self.database.leases;
        insist(until, || Box::pin(leases.delete_one(claim.clone()).into_future())).await?;
        Ok(Ok(Written::Done))
    }
}

impl Database {
    pub async fn seen(&self, topic: &TopicName, group: &GroupName, id: &str, now_ms: u64) -> Result<bool, StoreError> {
        let mark = doc! { "_id": keys::mark(topic, group, id) };
        let find = self.dedupe.find_one(mark).max_time(COMMAND_TIME_MAX);
        let Some(mark) = find.await.map_err(|error| unavailable(&error))? else {
            return Ok(false);
        };
        let now = DateTime::from_millis(keys::clamped(now_ms));
        let lasts = mark.get_datetime("expireAt").is_ok_and(|end| end > now);
        let of = mark.get("number").ok().flatten().and_then(number);
        Ok(lasts
            && self
                .group_row(topic, group)
                .await?
                .is_some_and(|row| Some(row.number) == of))
    }
}
