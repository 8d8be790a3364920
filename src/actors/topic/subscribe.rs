//! Subscribing: to a group, which the topic starts where it does not run, or to the topic itself.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::prelude::*;

use super::feed::Feed;
use super::{RunningGroup, TopicActor};
use crate::actors::handle::{Admitted, Handle};
use crate::actors::messages::{FeedHandle, GrantCredit, Join, Leave, SetPaused, Subscribe};
use crate::actors::reply::Outcome;
use crate::actors::start::start_seq;
use crate::actors::subscription::SubscriptionActor;
use crate::domain::GroupName;
use crate::protocol::{ErrorCode, Failure};

impl Handler<Admitted<Subscribe>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Subscribe>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let subscribe = admitted.into_inner();
        if let Err(failure) = self.check_known() {
            return subscribe.reply.fail(failure);
        }
        if self.absent.is_some() && self.shared.topics.absent() > self.shared.config.gateway.max_topics {
            let msg = "as many topics that do not exist yet are subscribed to as may be (gateway.max_topics)";
            let failure = Failure::new(ErrorCode::Overloaded, msg).retry_after(1_000);
            subscribe.reply.fail(failure);
            return self.leave_when_idle(ctx);
        }
        match subscribe.group.clone() {
            Some(group) => self.join(&group, subscribe),
            None => self.follow(subscribe, ctx),
        }
    }
}

impl TopicActor {
    /// Passes a new member on to its group.
    fn join(&mut self, name: &GroupName, subscribe: Subscribe) {
        let Subscribe {
            member,
            opts,
            connection,
            reply,
            ..
        } = subscribe;
        let group = match self.running_group(name) {
            Ok(group) => group,
            Err(failure) => return reply.fail(failure),
        };
        let join = Join {
            member,
            connection,
            from: opts.from,
            group: opts.group,
            settings: opts.member,
            reply,
        };
        if let Err((_, join)) = group.offer(join, 0) {
            join.reply
                .fail(Failure::new(ErrorCode::Overloaded, "too much waits for this group").retry_after(100));
        }
    }

    /// A group's actor, started where it does not run.
    pub(super) fn running_group(&mut self, name: &GroupName) -> Result<Handle<SubscriptionActor>, Failure> {
        let none = || Failure::new(ErrorCode::Overloaded, "the topic is being started").retry_after(100);
        let topic = self.handle.clone().ok_or_else(none)?;
        if self.groups.get(name).is_some_and(|group| !group.handle.is_open()) {
            tracing::warn!(topic = %self.name, group = %name, "a group's actor had ended and is started again");
            self.groups.remove(name);
        }
        if let Some(group) = self.groups.get(name) {
            return Ok(group.handle.clone());
        }
        self.shared.supervision.may_start(&format!("{}::{name}", self.name))?;
        // A name alone starts an actor, before the store can refuse the group.
        let max = self.shared.config.gateway.max_groups_per_topic;
        if self.groups.len() > max {
            self.groups.retain(|_, group| group.handle.is_open());
        }
        if self.groups.len() > max {
            let msg = "as many groups of this topic are in use as may be (gateway.max_groups_per_topic)";
            return Err(Failure::new(ErrorCode::Overloaded, msg).retry_after(1_000));
        }
        let woken = Arc::new(AtomicBool::new(false));
        let handle = SubscriptionActor::launch(
            self.name.clone(),
            name.clone(),
            topic,
            self.tail.clone(),
            woken.clone(),
            self.shared.clone(),
        );
        let group = RunningGroup {
            handle: handle.clone(),
            woken,
        };
        self.groups.insert(name.clone(), group);
        Ok(handle)
    }

    /// An ephemeral subscription: from its start on, every event.
    fn follow(&mut self, subscribe: Subscribe, ctx: &mut Context<Self>) {
        let Subscribe {
            member,
            position,
            opts,
            connection,
            reply,
            ..
        } = subscribe;
        let begin = start_seq(self.shared.clone(), self.name.clone(), self.tail.clone(), opts.from);
        let start = async move {
            match position {
                Some(position) => Ok(position),
                None => begin.await,
            }
        };
        // The tail cannot move meanwhile: `latest` means latest at the time of the OK.
        ctx.wait(start.into_actor(self).map(move |start, actor, ctx| {
            let position = match start {
                Ok(position) => position,
                Err(failure) => return reply.fail(failure),
            };
            let Some(handle) = actor.handle.clone() else { return };
            actor
                .feeds
                .insert(member, Feed::new(member, connection, opts.group.filter, position));
            reply.send(Ok(Outcome::Subscribed(FeedHandle::Topic(handle))));
            actor.pump_feed(member, ctx);
        }));
    }
}

impl Handler<GrantCredit> for TopicActor {
    type Result = ();

    fn handle(&mut self, credit: GrantCredit, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        if let Some(feed) = self.feeds.get_mut(&credit.member) {
            feed.grant(credit.events);
        }
        self.pump_feed(credit.member, ctx);
    }
}

impl Handler<Leave> for TopicActor {
    type Result = ();

    fn handle(&mut self, leave: Leave, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        self.feeds.remove(&leave.member);
        if let Some(reply) = leave.reply {
            reply.ok();
        }
        if self.absent.is_some() {
            self.leave_when_idle(ctx);
        }
    }
}

impl Handler<Admitted<SetPaused>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<SetPaused>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let SetPaused { member, paused, reply } = admitted.into_inner();
        if let Some(feed) = self.feeds.get_mut(&member) {
            feed.paused = paused;
        }
        reply.ok();
        self.pump_feed(member, ctx);
    }
}
