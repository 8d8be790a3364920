//! Publishing: the topic's limit, ids and times, the way to the store and the answers on the way back.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::prelude::*;
use tokio::time::Instant;

use super::TopicActor;
use crate::actors::handle::Admitted;
use crate::actors::limiter::{Denied, Limiter, retry_after_ms};
use crate::actors::messages::{AppendEvents, AppendPart, AppendResult, AppendsDone, Publish, PublishRequest};
use crate::actors::reply::{Outcome, ReplyBatch};
use crate::actors::store::{Completion, store_unavailable};
use crate::domain::NewEvent;
use crate::protocol::{Answer, Draft, ErrorCode, Failure};
use crate::store::{Appended, Refused};

/// Publishes that can only succeed or fail together with their topic share an append up to this size.
const SHARED_APPEND_BYTES: usize = 64 << 10;
/// After so many answers others on the arbiter have their turn.
const ANSWERS_SLICE: usize = 256;

/// So many publishes in one message take about as long as a message on its own.
const PUBLISHES_LIKE_A_MESSAGE: u32 = 8;

impl Handler<Admitted<Publish>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Publish>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        self.shared.faults.at("topic.publish");
        if let Some(admitted) = self.unless_deleting(admitted) {
            self.publish(admitted);
        }
    }
}

impl TopicActor {
    pub(super) fn publish(&mut self, admitted: Admitted<Publish>) {
        self.renew_limit();
        let now = Instant::now();
        let mut refused = ReplyBatch::default();
        let mut appends: Vec<(Vec<NewEvent>, Vec<AppendPart>)> = Vec::new();
        let (mut bytes, mut open_bytes) = (0, usize::MAX);
        let requests = admitted.into_inner().0;
        self.handled += u32::try_from(requests.len()).unwrap_or(u32::MAX) / PUBLISHES_LIKE_A_MESSAGE;
        for request in requests {
            let PublishRequest { drafts, batch, reply } = request;
            if let Err(failure) = self.take_tokens(drafts.len()) {
                refused.push(reply, Err(failure));
                continue;
            }
            let alone = drafts.iter().any(|draft| draft.id.is_some());
            let ts = self.shared.clock.timestamp_ms();
            let events: Vec<NewEvent> = drafts.into_iter().map(|draft| new_event(draft, ts)).collect();
            let ids = if alone {
                events.iter().map(|event| event.id.clone()).collect()
            } else {
                Vec::new()
            };
            let part = AppendPart {
                events: events.len(),
                batch,
                ids,
                since: now,
                reply: Some(reply),
            };
            let size: usize = events.iter().map(NewEvent::size).sum();
            bytes += size;
            match appends
                .last_mut()
                .filter(|_| !alone && open_bytes.saturating_add(size) <= SHARED_APPEND_BYTES)
            {
                Some((open, parts)) => {
                    open.extend(events);
                    parts.push(part);
                    open_bytes += size;
                }
                None => {
                    appends.push((events, vec![part]));
                    // An id that its publisher chose may be refused: such an append is not shared.
                    open_bytes = if alone { usize::MAX } else { size };
                }
            }
        }
        refused.flush();
        self.append(appends, bytes);
    }

    /// Takes a limit over that was changed; one that was not keeps its tokens.
    fn renew_limit(&mut self) {
        let version = self.shared.live.version();
        if version == self.limit.0 {
            return;
        }
        let limit = self.shared.live.topic_limit(&self.name);
        if limit != self.limit.1 {
            self.limiter = Limiter::new(&limit, self.shared.clock.clone());
        }
        self.limit = (version, limit);
    }

    fn take_tokens(&self, events: usize) -> Result<(), Failure> {
        let count = u32::try_from(events).unwrap_or(u32::MAX);
        self.limiter.take(count).map_err(|denied| match denied {
            Denied::Wait(wait) => {
                self.shared.metrics.rate_limited("topic").inc();
                Failure::new(ErrorCode::RateLimited, "topic publish rate exceeded").retry_after(retry_after_ms(wait))
            }
            Denied::OverCapacity(capacity) => over_capacity("the topic's", capacity),
        })
    }

    fn append(&mut self, appends: Vec<(Vec<NewEvent>, Vec<AppendPart>)>, bytes: usize) {
        let Some(owner) = self.handle.clone().filter(|_| !appends.is_empty()) else {
            return;
        };
        let Ok(share) = self.store_share.enter(bytes) else {
            let parts = appends.into_iter().flat_map(|(_, parts)| parts);
            return overloaded(parts, "too much waits to be written to this topic");
        };
        let count = appends.len();
        let with_owner = |(events, parts)| (events, Completion::append(owner.clone(), parts));
        let message = AppendEvents {
            topic: self.name.clone(),
            appends: appends.into_iter().map(with_owner).collect(),
            share,
        };
        match self.shared.writer.offer(message, bytes) {
            Ok(()) => self.appends += count,
            Err((_, message)) => {
                let appends = message.appends.into_iter();
                let parts = appends.flat_map(|(_, completion)| completion.take_back());
                overloaded(parts, "too much waits to be written to the store");
            }
        }
    }

    /// Asks the store how far the topic is: a write that failed may have happened.
    pub(super) fn resync(&mut self, ctx: &mut Context<Self>) {
        let (state, tail) = (self.shared.store.topic(&self.name), self.tail.clone());
        ctx.spawn(state.into_actor(self).map(move |state, actor, ctx| {
            // Another tail: the topic was deleted meanwhile.
            if let Ok(Some(state)) = state
                && Arc::ptr_eq(&tail, &actor.tail)
            {
                actor.absent = None;
                actor.tail.jump_to(state.tail);
                actor.note_published();
                actor.wake_all(ctx);
            }
        }));
    }
}

impl Handler<AppendsDone> for TopicActor {
    type Result = ();

    fn handle(&mut self, done: AppendsDone, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        self.shared.faults.at("topic.appended");
        self.appended(done.results.into(), ctx);
    }
}

impl TopicActor {
    /// Answers publishers and tells of new events, in slices. What is left waits for its turn, and all other messages for it:
    /// the order stays.
    fn appended(&mut self, mut results: VecDeque<(AppendResult, Vec<AppendPart>)>, ctx: &mut Context<Self>) {
        let mut answers = ReplyBatch::default();
        let mut events = Vec::new();
        let mut unknown = false;
        let mut answered = 0;
        while answered < ANSWERS_SLICE
            && let Some((result, parts)) = results.pop_front()
        {
            self.appends = self.appends.saturating_sub(1);
            answered += parts.len();
            let failure = match result {
                Ok(Ok(appended)) => {
                    let mut rest = appended.as_slice();
                    for part in parts {
                        let (own, after) = rest.split_at_checked(part.events).unwrap_or((rest, &[]));
                        rest = after;
                        self.shared.metrics.publish_took(part.since.elapsed());
                        if let Some(reply) = part.reply {
                            answers.push(reply, Ok(Outcome::Answer(published(own, part.ids, part.batch))));
                        }
                    }
                    events.extend(appended.into_iter().filter_map(|appended| match appended {
                        Appended::New(event) => Some(event),
                        Appended::Known { .. } => None,
                    }));
                    continue;
                }
                Ok(Err(refused)) => refusal(&refused),
                Err(error) => {
                    unknown = true;
                    store_unavailable(&error)
                }
            };
            for reply in parts.into_iter().filter_map(|part| part.reply) {
                answers.push(reply, Err(failure.clone()));
            }
        }
        answers.flush();
        if !events.is_empty() {
            let metrics = self
                .metrics
                .get_or_insert_with(|| self.shared.metrics.topic(&self.name));
            metrics.published.inc_by(events.len() as u64);
        }
        self.tail_moved(events, ctx);
        if self.absent.is_some() {
            self.leave_when_idle(ctx);
        }
        if unknown {
            self.resync(ctx);
        }
        if results.is_empty() {
            return self.delete_when_alone(ctx);
        }
        let others = tokio::task::yield_now().into_actor(self);
        ctx.wait(others.map(move |(), actor, ctx| actor.appended(results, ctx)));
    }
}

/// What a client is told of a batch that a bucket can never hold.
pub(crate) fn over_capacity(whose: &str, capacity: u32) -> Failure {
    let msg = format!("events: {whose} rate limit takes at most {capacity} at once (the bucket's capacity)");
    Failure::new(ErrorCode::BadRequest, msg)
}

fn overloaded(parts: impl Iterator<Item = AppendPart>, msg: &'static str) {
    let mut answers = ReplyBatch::default();
    for reply in parts.filter_map(|part| part.reply) {
        answers.push(reply, Err(Failure::new(ErrorCode::Overloaded, msg).retry_after(100)));
    }
    answers.flush();
}

fn published(appended: &[Appended], given: Vec<Box<str>>, batch: bool) -> Answer {
    let id = |appended: &Appended| match appended {
        Appended::New(event) => event.id.clone(),
        // Only an id that was given can be known.
        Appended::Known { .. } => Box::default(),
    };
    let ids: Vec<Box<str>> = if given.is_empty() {
        appended.iter().map(id).collect()
    } else {
        given
    };
    match (appended, batch) {
        ([one], false) => Answer::Published {
            id: ids.into_iter().next().unwrap_or_default(),
            seq: one.seq(),
        },
        (all, _) => Answer::PublishedBatch {
            ids,
            seqs: all.iter().map(Appended::seq).collect(),
        },
    }
}

fn refusal(refused: &Refused) -> Failure {
    let code = match refused {
        Refused::Conflict { .. } => ErrorCode::Conflict,
        Refused::TooLarge { .. } => ErrorCode::TooLarge,
        Refused::TooManyTopics { .. } => ErrorCode::BadRequest,
        _ => ErrorCode::PublishFailed,
    };
    let msg = match code {
        ErrorCode::BadRequest => format!("topic: {refused}"),
        _ => refused.to_string(),
    };
    Failure::new(code, msg)
}

fn new_event(draft: Draft, ts: u64) -> NewEvent {
    let Draft {
        id,
        ts: given,
        key,
        headers,
        tags,
        caused_by,
        sid,
        payload,
    } = draft;
    NewEvent {
        id_given: id.is_some(),
        id: id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string().into()),
        ts: given.unwrap_or(ts),
        key,
        headers,
        payload,
        tags,
        caused_by,
        sid,
    }
}
