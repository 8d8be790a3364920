//! Making a group's progress durable: one save at a time, and what comes meanwhile is the next one.

use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::SubscriptionActor;
use super::dead_letter::dead_letter;
use crate::actors::messages::{CursorsSaved, EventsAppended, SaveCursors, SaveStalled};
use crate::actors::reply::{Outcome, ReplyBatch};
use crate::actors::store::{Completion, store_unavailable};
use crate::protocol::{Answer, ErrorCode, Failure};
use crate::store::{Appended, StoreError};

/// After a save that failed.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

impl SubscriptionActor {
    /// Sends what changed to the store, unless a save is under way.
    pub(super) fn save(&mut self) {
        if self.saving.is_some() {
            return;
        }
        let Some((group, claim)) = &mut self.state else { return };
        if let Some(after) = self.save_after {
            if Instant::now() < after {
                return;
            }
            self.save_after = None;
        }
        let Some(changes) = group.take_changes() else {
            // All that the requests ask for is durable.
            answer_all(std::mem::take(&mut self.waiting), None);
            for drained in self.drains.drain(..) {
                let _ = drained.send(());
            }
            return;
        };
        if changes.dropped_dead > 0 {
            tracing::warn!(topic = %self.topic, group = %self.name, events = changes.dropped_dead, "dead letters failed for good and are dropped");
        }
        self.metrics
            .dead_lettered
            .inc_by(changes.dead.len() as u64 + changes.dropped_dead);
        let now_ms = self.shared.clock.timestamp_ms();
        let letter = |dead| dead_letter(&self.topic, &self.name, claim.seeks, dead, now_ms);
        let Some(owner) = self.handle.clone() else { return };
        let save = SaveCursors {
            topic: self.topic.clone(),
            group: self.name.clone(),
            epoch: claim.epoch,
            updates: changes.updates,
            dead_letters: changes.dead.iter().map(letter).collect(),
            done: Completion::cursors(owner),
        };
        self.saving = Some(std::mem::take(&mut self.waiting));
        self.shared.writer.post(save);
    }

    fn save_failed(&mut self, error: &StoreError, ctx: &mut Context<Self>) {
        if let Some((group, _)) = &mut self.state {
            group.save_failed();
        }
        self.note_trouble(error);
        let failure = store_unavailable(error);
        answer_all(self.saving.take().unwrap_or_default(), Some(&failure));
        // Those that came meanwhile asked for what is not durable now either.
        answer_all(std::mem::take(&mut self.waiting), Some(&failure));
        self.save_after = Some(Instant::now() + SAVE_AGAIN);
        ctx.run_later(SAVE_AGAIN, |actor, ctx| actor.pump(ctx));
    }
}

impl Handler<CursorsSaved> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, message: CursorsSaved, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        match message.0 {
            Ok(Ok(appended)) => {
                self.trouble = None;
                if let Some((group, _)) = &mut self.state {
                    group.saved();
                }
                answer_all(self.saving.take().unwrap_or_default(), None);
                self.announce(appended);
            }
            Ok(Err(refused)) => {
                let failure = Failure::new(ErrorCode::AckFailed, refused.to_string());
                answer_all(self.saving.take().unwrap_or_default(), Some(&failure));
                answer_all(std::mem::take(&mut self.waiting), Some(&failure));
                return self.give_up(&failure, ctx);
            }
            Err(error) => self.save_failed(&error, ctx),
        }
        self.pump(ctx);
    }
}

impl SubscriptionActor {
    /// Tells the topic of dead letters what it has got, where it runs; where it does not, it will find them.
    fn announce(&self, appended: Vec<Appended>) {
        let events: Vec<_> = appended
            .into_iter()
            .filter_map(|appended| match appended {
                Appended::New(event) => Some(event),
                Appended::Known { .. } => None,
            })
            .collect();
        if !events.is_empty() {
            let letters = self.shared.metrics.topic(&self.topic.dead_letters());
            letters.published.inc_by(events.len() as u64);
        }
        if let Some(letters) = self
            .shared
            .topics
            .running(&self.topic.dead_letters())
            .filter(|_| !events.is_empty())
        {
            letters.post(EventsAppended(events));
        }
    }
}

impl Handler<SaveStalled> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, _: SaveStalled, _: &mut Context<Self>) {
        let error = StoreError::Unavailable("it has not answered in time".into());
        self.note_trouble(&error);
        let failure = store_unavailable(&error);
        answer_all(
            self.saving.as_mut().map(std::mem::take).unwrap_or_default(),
            Some(&failure),
        );
        answer_all(std::mem::take(&mut self.waiting), Some(&failure));
    }
}

fn answer_all(replies: Vec<crate::actors::reply::Reply>, failure: Option<&Failure>) {
    let mut answers = ReplyBatch::default();
    for reply in replies {
        let result = match failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(Outcome::Answer(Answer::Ok)),
        };
        answers.push(reply, result);
    }
    answers.flush();
}
