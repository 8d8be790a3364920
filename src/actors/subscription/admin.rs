//! What operators do to a whole group: pause, resume, seek, delete. Each is durable before it is answered; where the store
//! does not say whether it happened, the group is started anew from it.

use actix::prelude::*;

use super::SubscriptionActor;
use crate::actors::handle::Admitted;
use crate::actors::messages::{Change, GroupChange, GroupIdle};
use crate::actors::reply::{Outcome, Reply, ReplyBatch};
use crate::actors::start::{cursors_at, start_seq};
use crate::actors::store::store_unavailable;
use crate::domain::{PartitionCursor, StartFrom};
use crate::protocol::{Answer, ErrorCode, Failure};
use crate::store::{Pause, Write};

impl Handler<Admitted<Change>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Change>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let Change { change, reply } = admitted.into_inner();
        if self.state.is_none() {
            let msg = format!("group: {} has no group {}", self.topic, self.name);
            reply.fail(Failure::new(ErrorCode::NotFound, msg));
            // It was started for this alone.
            return self.owner.post(GroupIdle(self.name.clone()));
        }
        match change {
            GroupChange::Pause { .. } if self.paused.is_some() => reply.ok(),
            GroupChange::Pause { by } => {
                let since_ms = self.now_ms();
                self.set_group_paused(Some(Pause { by, since_ms }), reply, ctx);
            }
            GroupChange::Resume if self.paused.is_none() => reply.ok(),
            GroupChange::Resume => self.set_group_paused(None, reply, ctx),
            GroupChange::Seek(from) => self.seek(from, reply, ctx),
            GroupChange::Delete => self.delete(reply, ctx),
        }
    }
}

impl SubscriptionActor {
    fn set_group_paused(&mut self, paused: Option<Pause>, reply: Reply, ctx: &mut Context<Self>) {
        let Some((group, claim)) = &self.state else { return };
        let save = Write::SaveGroup {
            topic: self.topic.clone(),
            group: self.name.clone(),
            epoch: claim.epoch,
            settings: group.settings().clone(),
            paused: paused.clone(),
        };
        self.write(save, reply, ctx, move |actor| {
            match &paused {
                Some(pause) => tracing::info!(topic = %actor.topic, group = %actor.name, by = %pause.by, "paused"),
                None => tracing::info!(topic = %actor.topic, group = %actor.name, "resumed"),
            }
            if let Some((group, _)) = &mut actor.state {
                group.set_group_paused(paused.is_some());
            }
            actor.paused = paused;
        });
    }

    fn seek(&mut self, from: StartFrom, reply: Reply, ctx: &mut Context<Self>) {
        let (shared, topic, tail) = (self.shared.clone(), self.topic.clone(), self.tail.clone());
        let place = async move {
            let seq = start_seq(shared.clone(), topic.clone(), tail, from).await?;
            let cursors = cursors_at(&shared, &topic, seq).await?;
            Ok((seq, cursors))
        };
        // Nothing is acked or delivered meanwhile: what comes waits.
        ctx.wait(
            place
                .into_actor(self)
                .map(move |place: Result<_, Failure>, actor, ctx| match place {
                    Ok((seq, cursors)) => actor.seek_to(seq, cursors, reply, ctx),
                    Err(failure) => reply.fail(failure),
                }),
        );
    }

    fn seek_to(&mut self, seq: u64, cursors: Vec<PartitionCursor>, reply: Reply, ctx: &mut Context<Self>) {
        let Some((_, claim)) = &self.state else { return };
        let seek = Write::SeekGroup {
            topic: self.topic.clone(),
            group: self.name.clone(),
            epoch: claim.epoch,
            cursors: cursors.clone(),
        };
        self.write(seek, reply, ctx, move |actor| {
            tracing::info!(topic = %actor.topic, group = %actor.name, after = seq, "the group goes on from elsewhere");
            if let Some((group, claim)) = &mut actor.state {
                group.seek(cursors);
                claim.seeks += 1;
            }
            // Acks of what the group had not looked at are acks of before.
            let mut answers = ReplyBatch::default();
            for ack in actor.deferred.drain(..) {
                answers.push(ack.into_reply(), Ok(Outcome::Answer(Answer::Ok)));
            }
            answers.flush();
        });
    }

    fn delete(&mut self, reply: Reply, ctx: &mut Context<Self>) {
        let members = self.members.values().filter(|member| member.connection.is_open());
        let members = members.count();
        if members > 0 {
            let msg = format!("group: {} has {members} members connected", self.name);
            return reply.fail(Failure::new(ErrorCode::Conflict, msg));
        }
        let delete = Write::DeleteGroup {
            topic: self.topic.clone(),
            group: self.name.clone(),
        };
        self.write(delete, reply, ctx, |actor| {
            tracing::info!(topic = %actor.topic, group = %actor.name, "deleted");
            actor.state = None;
            actor.paused = None;
            actor.members.clear();
            let mut answers = ReplyBatch::default();
            let deferred = actor.deferred.drain(..).map(super::acks::DeferredAck::into_reply);
            for reply in actor.waiting.drain(..).chain(deferred) {
                answers.push(reply, Ok(Outcome::Answer(Answer::Ok)));
            }
            answers.flush();
            actor.shared.metrics.forget_group(&actor.topic, &actor.name);
            actor.owner.post(GroupIdle(actor.name.clone()));
        });
    }

    /// Writes, then does what follows in memory, then answers. No message is handled meanwhile.
    fn write(&mut self, write: Write, reply: Reply, ctx: &mut Context<Self>, then: impl FnOnce(&mut Self) + 'static) {
        let shared = self.shared.clone();
        let written = async move { shared.perform(write).await };
        ctx.wait(written.into_actor(self).map(move |written, actor, ctx| match written {
            Ok(Ok(_)) => {
                then(actor);
                reply.ok();
                actor.pump(ctx);
            }
            Ok(Err(refused)) => {
                let failure = Failure::new(ErrorCode::Conflict, refused.to_string());
                reply.fail(failure.clone());
                actor.give_up(&failure, ctx);
            }
            Err(error) => {
                reply.fail(store_unavailable(&error));
                // It may have happened. The next one claims the group, after which it cannot any more, and then reads.
                actor.lose_members();
                ctx.stop();
            }
        }));
    }
}
