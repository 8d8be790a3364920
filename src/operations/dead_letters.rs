//! Dead letters, published again to the topic they come from: each once, however often it is asked for. A group of the dead
//! letters' topic remembers how far that is; and the new event's id follows from the dead letter's, so that a crash in
//! between doubles nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::changes::change_group;
use super::groups::group_report;
use crate::actors::messages::{GroupChange, Publish, PublishRequest};
use crate::actors::reply::{Outcome, Replied, Reply};
use crate::actors::shared::Shared;
use crate::actors::start::{cursors_at, within_deadline};
use crate::actors::store::store_unavailable;
use crate::domain::{Event, GroupName, GroupSettings, StartFrom, TopicName};
use crate::protocol::{Answer, Draft, ErrorCode, Failure};
use crate::store::{Refused, Write};

/// The group that remembers.
pub const REPLAY_GROUP: &str = "tidegate:dlq-replay";
/// How many dead letters are read and published together.
const PAGE: usize = 64;
const PAGE_BYTES: usize = 4 << 20;
/// How often a publish that was refused for a while is tried again.
const TRIES_MAX: u32 = 50;
/// The longest wait before that.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Ids of events that are published again are derived in this namespace.
const NAMESPACE: Uuid = Uuid::from_u128(0x2b64_9f0d_71c8_5a3b_8e27_c4d5_06f1_9a82);

/// What a replay did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many originals were published.
    pub replayed: u64,
    /// How many could not be: those whose payload was too large to be kept with the dead letter.
    pub skipped: u64,
    /// How many dead letters are left.
    pub left: u64,
}

/// A dead letter, as far as it is needed.
#[derive(Deserialize)]
struct Letter<'a> {
    #[serde(borrow)]
    original: Original<'a>,
}

#[derive(Deserialize)]
struct Original<'a> {
    ts: u64,
    key: Option<Box<str>>,
    #[serde(default)]
    headers: std::collections::BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    tags: Vec<Box<str>>,
    sid: Option<Box<str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// Publishes the originals of a topic's dead letters again, at most `limit` of them.
pub async fn replay_dead_letters(shared: &Arc<Shared>, topic: &TopicName, limit: u64) -> Result<Replayed, Failure> {
    if topic.is_derived() {
        let msg = format!("topic: name the topic whose dead letters are meant, {}", topic.origin());
        return Err(Failure::new(ErrorCode::BadTopic, msg));
    }
    let letters = topic.dead_letters();
    let group: GroupName = REPLAY_GROUP
        .parse()
        .map_err(|bad| Failure::new(ErrorCode::BadRequest, format!("group: {bad}")))?;
    // One at a time: two would publish nothing twice, but each would wait for the other's tokens.
    let _turn = shared.replays.lock().await;
    let mut done = Replayed::default();
    if within_deadline(shared.store.topic(&letters)).await?.is_none() {
        return Ok(done);
    }
    remember_from_the_first(shared, &letters, &group).await?;
    loop {
        let report = group_report(shared, &letters, &group).await?;
        done.left = report.lag;
        if report.members > 0 {
            let msg = format!("group: somebody is connected as a member of {group} in {letters}");
            return Err(Failure::new(ErrorCode::Conflict, msg));
        }
        let wanted = limit.saturating_sub(done.replayed + done.skipped).min(PAGE as u64);
        if report.lag == 0 || wanted == 0 {
            return Ok(done);
        }
        let count = usize::try_from(wanted).unwrap_or(PAGE);
        let events = within_deadline(shared.store.read(&letters, report.floor + 1, count, PAGE_BYTES)).await?;
        let Some(last) = events.last() else { return Ok(done) };
        for event in &events {
            match draft(event) {
                Some(draft) => {
                    publish(shared, topic, draft).await?;
                    done.replayed += 1;
                }
                None => {
                    tracing::warn!(topic = %letters, id = %event.id, "a dead letter without its payload cannot be replayed");
                    done.skipped += 1;
                }
            }
        }
        let behind = GroupChange::Seek(StartFrom::AfterId(last.id.clone()));
        match change_group(shared, &letters, &group, behind).await {
            // Retention took it meanwhile, and all before it.
            Err(failure) if failure.code == ErrorCode::UnknownId => {}
            moved => moved?,
        }
    }
}

/// Makes the group that remembers, where there is none, before the oldest dead letter.
async fn remember_from_the_first(shared: &Arc<Shared>, letters: &TopicName, group: &GroupName) -> Result<(), Failure> {
    if within_deadline(shared.store.group(letters, group)).await?.is_some() {
        return Ok(());
    }
    let create = Write::CreateGroup {
        topic: letters.clone(),
        group: group.clone(),
        settings: GroupSettings::default(),
        cursors: cursors_at(shared, letters, 0).await?,
    };
    match shared.perform(create).await {
        Ok(Ok(_) | Err(Refused::GroupExists(_))) => Ok(()),
        Ok(Err(refused)) => Err(Failure::new(ErrorCode::Conflict, format!("group: {refused}"))),
        Err(error) => Err(store_unavailable(&error)),
    }
}

fn draft(letter: &Event) -> Option<Draft> {
    let payload = letter.json.get(letter.payload.clone())?;
    let Letter { original } = serde_json::from_slice(payload).ok()?;
    Some(Draft {
        id: Some(Uuid::new_v5(&NAMESPACE, letter.id.as_bytes()).to_string().into()),
        ts: Some(original.ts),
        key: original.key,
        headers: original.headers.into_iter().collect(),
        tags: original.tags,
        caused_by: vec![letter.id.clone()],
        sid: original.sid,
        payload: original.payload?.get().into(),
    })
}

/// Publishes one event; where a limit or a full queue says "later", later.
async fn publish(shared: &Arc<Shared>, topic: &TopicName, draft: Draft) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        match publish_once(shared, topic, draft.clone()).await {
            Ok(Outcome::Answer(Answer::Published { .. })) => return Ok(()),
            Ok(_) => return Err(Failure::new(ErrorCode::PublishFailed, "an answer to something else")),
            Err(failure)
                if matches!(failure.code, ErrorCode::RateLimited | ErrorCode::Overloaded) && tries < TRIES_MAX =>
            {
                tries += 1;
                let wait = Duration::from_millis(failure.retry_after_ms.unwrap_or(100).max(1));
                tokio::time::sleep(wait.min(WAIT_MAX)).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn publish_once(shared: &Arc<Shared>, topic: &TopicName, draft: Draft) -> Replied {
    let (reply, replied) = Reply::to_caller(ErrorCode::PublishFailed);
    let bytes = draft.size();
    let request = PublishRequest {
        drafts: vec![draft],
        batch: false,
        reply,
    };
    if let Err((failure, Publish(requests))) = shared.topics.offer(topic, shared, Publish(vec![request]), bytes) {
        requests
            .into_iter()
            .for_each(|request| request.reply.fail(failure.clone()));
    }
    let lost = |_| Failure::new(ErrorCode::PublishFailed, "the gateway lost this publish: send it again");
    replied.await.map_err(lost)?
}
