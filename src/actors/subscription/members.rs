//! Members: joining, leaving, pausing, credit.

use actix::prelude::*;

use super::{Member, SubscriptionActor, load};
use crate::actors::handle::Admitted;
use crate::actors::messages::{FeedHandle, GrantCredit, GroupIdle, Join, Leave, SetPaused};
use crate::actors::reply::Outcome;
use crate::actors::store::store_unavailable;
use crate::domain::GroupSettings;
use crate::domain::group::{Departure, MemberId};
use crate::protocol::{ErrorCode, Failure};
use crate::store::Write;

impl Handler<Admitted<Join>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Join>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let join = admitted.into_inner();
        match &self.state {
            Some(_) => self.join_existing(join, ctx),
            None => self.create_and_join(join, ctx),
        }
    }
}

impl SubscriptionActor {
    fn create_and_join(&mut self, join: Join, ctx: &mut Context<Self>) {
        let create = load::create_group(
            self.shared.clone(),
            self.topic.clone(),
            self.name.clone(),
            self.tail.clone(),
            join.from.clone(),
            join.group.over(&GroupSettings::default()),
        );
        ctx.wait(create.into_actor(self).map(move |created, actor, ctx| match created {
            Ok(created) => {
                actor.adopt(created);
                actor.admit(join, ctx);
            }
            Err(failure) => {
                join.reply.fail(failure);
                // A group that could not be made does not stay for its idle time.
                actor.owner.post(GroupIdle(actor.name.clone()));
            }
        }));
    }

    fn join_existing(&mut self, join: Join, ctx: &mut Context<Self>) {
        let Some((group, claim)) = &self.state else { return };
        let (current, mut wanted) = (group.settings(), join.group.over(group.settings()));
        if wanted.filter != current.filter {
            wanted.filter_since = group.read_position();
        }
        if *current == wanted {
            return self.admit(join, ctx);
        }
        let differs = [
            ("ordered", current.ordered != wanted.ordered),
            ("filter", current.filter != wanted.filter),
        ];
        if let Some((field, _)) = differs.iter().find(|(_, differs)| *differs && !self.members.is_empty()) {
            let msg = format!("opts.{field}: the group has another one, and other members are connected");
            return join.reply.fail(Failure::new(ErrorCode::Conflict, msg));
        }
        let save = Write::SaveGroup {
            topic: self.topic.clone(),
            group: self.name.clone(),
            epoch: claim.epoch,
            settings: wanted.clone(),
            paused: self.paused.clone(),
        };
        let shared = self.shared.clone();
        let save = async move { shared.perform(save).await };
        ctx.wait(save.into_actor(self).map(move |saved, actor, ctx| match saved {
            Ok(Ok(_)) => {
                if let Some((group, _)) = &mut actor.state {
                    group.apply_settings(wanted);
                }
                actor.admit(join, ctx);
            }
            Ok(Err(refused)) => join.reply.fail(Failure::new(ErrorCode::Conflict, refused.to_string())),
            Err(error) => join.reply.fail(store_unavailable(&error)),
        }));
    }

    fn admit(&mut self, join: Join, ctx: &mut Context<Self>) {
        let (Some((group, _)), Some(handle)) = (&mut self.state, self.handle.clone()) else {
            return;
        };
        group.join(join.member, join.settings);
        if self.awaited.remove(&join.member).is_some() {
            group.set_paused(join.member, false);
        }
        let member = Member {
            connection: join.connection,
            auto_ack: join.settings.auto_ack,
        };
        self.members.insert(join.member, member);
        join.reply.send(Ok(Outcome::Subscribed(FeedHandle::Group(handle))));
        self.pump(ctx);
    }

    pub(super) fn remove_member(&mut self, member: MemberId, departure: Departure) {
        let now_ms = self.now_ms();
        self.awaited.remove(&member);
        if self.members.remove(&member).is_some()
            && let Some((group, _)) = &mut self.state
        {
            group.leave(member, departure, now_ms);
        }
    }
}

impl Handler<Leave> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, leave: Leave, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        self.remove_member(leave.member, leave.departure);
        if let Some(reply) = leave.reply {
            reply.ok();
        }
        self.pump(ctx);
    }
}

impl Handler<GrantCredit> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, credit: GrantCredit, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        if let Some((group, _)) = &mut self.state {
            group.credit(credit.member, credit.events, 0);
        }
        self.pump(ctx);
    }
}

impl Handler<Admitted<SetPaused>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<SetPaused>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let SetPaused { member, paused, reply } = admitted.into_inner();
        if let Some((group, _)) = &mut self.state {
            group.set_paused(member, paused);
        }
        reply.ok();
        self.pump(ctx);
    }
}
