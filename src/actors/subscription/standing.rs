//! Owning a group and standing by for it, where other gateways use the same store.
//!
//! Only the owner delivers. A group that another gateway owns stands by here: its members are in it, with their credit,
//! and nothing is given to them. It is taken over when the other lets it go or is silent for too long. Who loses a group
//! forgets all that it knew of it but its members: what counts is what the store has.

use actix::prelude::*;

use super::save::answer_all;
use super::{Claim, SubscriptionActor, load};
use crate::actors::messages::{Join, LookAtClaim};
use crate::actors::start::within_deadline;
use crate::domain::GroupSettings;
use crate::domain::group::Group;
use crate::protocol::{ErrorCode, Failure};
use crate::store::{Refused, Write};

/// What a client is told whose request needs the group's owner. The event it is about comes again.
pub(super) fn not_owned() -> Failure {
    let msg = "another gateway owns the group now, and delivers again what was not acked in time";
    Failure::new(ErrorCode::AckFailed, msg).retry_after(1_000)
}

impl SubscriptionActor {
    /// Whether other gateways may claim the group.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.node_of(&self.topic).is_some()
    }

    /// The rules, whether the group is owned or stands by.
    pub(super) fn rules(&mut self) -> Option<&mut Group> {
        match &mut self.state {
            Some((group, _)) => Some(group),
            None => self.dormant.as_mut(),
        }
    }

    /// A claim lasts no longer than its lease.
    pub(super) fn check_claim(&mut self, now_ms: u64) {
        let over = |(_, claim): &(Group, Claim)| claim.lease.as_ref().is_some_and(|lease| !lease.lasts_at(now_ms));
        if self.state.as_ref().is_some_and(over) {
            self.stand_by("this gateway's lease is over");
        }
    }

    /// The group is another's from now on: nothing more is delivered, and what was not saved never will be.
    pub(super) fn stand_by(&mut self, why: &'static str) {
        let Some((mut group, claim)) = self.state.take() else {
            return;
        };
        tracing::warn!(topic = %self.topic, group = %self.name, epoch = claim.epoch, members = self.members.len(), why, "a group stands by");
        self.shared.metrics.group_lost();
        self.rest_as(&mut group);
    }

    /// The group was found to be another's.
    pub(super) fn wait_for(&mut self, settings: GroupSettings, by: &str) {
        if self.dormant.is_none() {
            tracing::info!(topic = %self.topic, group = %self.name, %by, "a group stands by: another gateway owns it");
            self.dormant = Some(Group::new(settings, Vec::new(), Vec::new(), false));
        }
        self.note_standing();
    }

    fn rest_as(&mut self, group: &mut Group) {
        let mut dormant = Group::new(group.settings().clone(), Vec::new(), Vec::new(), false);
        dormant.take_members(group);
        self.dormant = Some(dormant);
        self.life += 1;
        (self.reading, self.loading, self.looking_up) = (false, false, false);
        let mut unanswered = std::mem::take(&mut self.waiting);
        unanswered.extend(self.unresolved.drain(..).map(|ack| ack.reply));
        unanswered.extend(self.deferred.drain(..).map(|ack| ack.reply));
        answer_all(unanswered, Some(&not_owned()));
        self.save_after = None;
        self.trouble = None;
        self.awaited.clear();
        self.handing_over.clear();
        self.metrics.inflight.set(0);
        self.metrics.lag_events.set(0);
        self.metrics.lag_seconds.set(0.0);
        self.note_standing();
    }

    /// What is left to do for a group that is not owned.
    pub(super) fn rest(&mut self, ctx: &mut Context<Self>) {
        if let Some((timer, _)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        if self.saving.is_none() {
            for drained in self.drains.drain(..) {
                let _ = drained.send(());
            }
        }
    }

    /// Lets the node know what to wake the group for.
    pub(super) fn note_standing(&self) {
        if let (Some(node), Some(handle)) = (self.shared.node_of(&self.topic), &self.handle) {
            let waits = self.state.is_none() && !self.members.is_empty();
            node.note_group((self.topic.clone(), self.name.clone()), handle.clone(), waits);
            self.shared.metrics.groups_standing_by(node.standing_by());
        }
    }

    pub(super) fn forget_standing(&self) {
        if let (Some(node), Some(handle)) = (self.shared.node_of(&self.topic), &self.handle) {
            node.forget_group(&(self.topic.clone(), self.name.clone()), handle);
            self.shared.metrics.groups_standing_by(node.standing_by());
        }
    }

    /// A member of a group that is another's: it is told `OK`, for the group's start is durable, and waits.
    pub(super) fn join_standing_by(&mut self, join: Join, ctx: &mut Context<Self>) {
        let Some(group) = &self.dormant else { return };
        if join.group.over(group.settings()) == *group.settings() {
            return self.admit_standing_by(join, ctx);
        }
        // The owner may have changed the settings since they were read here.
        let read = self.shared.store.group(&self.topic, &self.name);
        let read = async move { within_deadline(read).await };
        ctx.wait(read.into_actor(self).map(move |state, actor, ctx| {
            let current = match state {
                Ok(Some(state)) => state.settings,
                Ok(None) => GroupSettings::default(),
                Err(failure) => return join.reply.fail(failure),
            };
            let wanted = join.group.over(&current);
            let differs = [
                ("ordered", current.ordered != wanted.ordered),
                ("filter", current.filter != wanted.filter),
            ];
            if let Some((field, _)) = differs.iter().find(|(_, differs)| *differs) {
                let msg = format!("opts.{field}: the group has another one, and another gateway owns it");
                return join.reply.fail(Failure::new(ErrorCode::Conflict, msg));
            }
            actor.admit_standing_by(join, ctx);
        }));
    }

    fn admit_standing_by(&mut self, join: Join, ctx: &mut Context<Self>) {
        let first = self.members.is_empty();
        self.admit(join, ctx);
        self.note_standing();
        if first {
            // It may be free: whoever had it may have let it go for want of members.
            self.claim(ctx);
        }
    }

    /// Tries to get the group, where somebody waits for its events.
    pub(super) fn claim(&mut self, ctx: &mut Context<Self>) {
        // A save under the old claim has to be over first: it may still come about, and its answer is awaited.
        let held_up = self.claiming || self.saving.is_some() || self.members.is_empty();
        let draining = self.shared.is_draining();
        if self.dormant.is_none() || held_up || draining {
            return;
        }
        self.claiming = true;
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_unstable_by_key(|(id, _)| **id);
        let patches = members.into_iter().map(|(_, member)| member.patch.clone()).collect();
        let take_over = load::take_over(self.shared.clone(), self.topic.clone(), self.name.clone(), patches);
        ctx.spawn(take_over.into_actor(self).map(|found, actor, ctx| {
            actor.claiming = false;
            match found {
                Ok(load::Found::Nothing) => {
                    let failure = Failure::new(ErrorCode::Conflict, "the group was deleted");
                    return actor.give_up(&failure, ctx);
                }
                Ok(found) => actor.found(found),
                Err(failure) => {
                    tracing::debug!(topic = %actor.topic, group = %actor.name, reason = %failure.msg, "no claim");
                }
            }
            actor.pump(ctx);
        }));
    }

    /// A group whose members all left is let go at once: they may have gone to another gateway.
    pub(super) fn release_when_left(&mut self, ctx: &mut Context<Self>) {
        if self.state.as_ref().is_some_and(|(_, claim)| claim.used) {
            self.release(ctx);
        }
    }

    /// Lets a group go that nobody needs here, where other gateways may.
    pub(super) fn release(&mut self, ctx: &mut Context<Self>) {
        let busy = |(group, claim): &(Group, Claim)| claim.lease.is_none() || group.stats().dying > 0;
        if self.state.as_ref().is_none_or(busy) || !self.members.is_empty() || !self.is_settled() {
            return;
        }
        let Some((mut group, claim)) = self.state.take() else {
            return;
        };
        self.rest_as(&mut group);
        let release = Write::ReleaseGroup {
            topic: self.topic.clone(),
            group: self.name.clone(),
            epoch: claim.epoch,
        };
        let shared = self.shared.clone();
        let release = async move { shared.perform(release).await };
        ctx.spawn(release.into_actor(self).map(|released, actor, _| {
            if !matches!(released, Ok(Ok(_) | Err(Refused::Fenced | Refused::NoSuchGroup(_)))) {
                tracing::warn!(topic = %actor.topic, group = %actor.name, ?released, "a group could not be let go");
            }
        }));
    }
}

impl Handler<LookAtClaim> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, _: LookAtClaim, ctx: &mut Context<Self>) {
        self.shared.faults.at("group.claim");
        self.pump(ctx);
        self.claim(ctx);
    }
}
