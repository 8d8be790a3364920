//! What operators ask of a topic: its groups' state and changes of them, and its end.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::tail::Tail;
use super::{RunningGroup, TopicActor};
use crate::actors::handle::Admitted;
use crate::actors::messages::{Change, ChangeGroup, DeleteTopic, Flush, Inspect, InspectGroups, Publish, Stop};
use crate::actors::reply::Reply;
use crate::actors::store::store_unavailable;
use crate::actors::subscription::GroupView;
use crate::protocol::{ErrorCode, Failure};
use crate::store::Write;

/// Where a topic stands on its way to its end.
#[derive(Default)]
pub(super) enum Deletion {
    /// Nobody asked for it.
    #[default]
    None,
    /// It waits for the appends before it.
    Waiting {
        reply: Reply,
        /// What is to be published after it; each keeps its place at the gate.
        publishes: Vec<Admitted<Publish>>,
    },
    /// The store did not say whether it happened: until it does, nothing is known of the topic.
    Doubtful,
}

impl Handler<Admitted<ChangeGroup>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<ChangeGroup>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let ChangeGroup { group, change, reply } = admitted.into_inner();
        let handle = match self.check_known().and_then(|()| self.running_group(&group)) {
            Ok(handle) => handle,
            Err(failure) => return reply.fail(failure),
        };
        if let Err((_, change)) = handle.offer(Change { change, reply }, 0) {
            let failure = Failure::new(ErrorCode::Overloaded, "too much waits for this group").retry_after(100);
            change.reply.fail(failure);
        }
    }
}

impl Handler<Admitted<InspectGroups>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<InspectGroups>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let InspectGroups { group, views } = admitted.into_inner();
        let wanted = self
            .groups
            .iter()
            .filter(|(name, running)| running.handle.is_open() && group.as_ref().is_none_or(|group| group == *name));
        let _ = views.send(wanted.map(|(_, running)| inspect(running)).collect());
    }
}

impl Handler<Admitted<DeleteTopic>> for TopicActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<DeleteTopic>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let DeleteTopic { reply } = admitted.into_inner();
        if !matches!(self.deletion, Deletion::None) {
            return reply.fail(Failure::new(ErrorCode::Conflict, "topic: it is being deleted"));
        }
        self.deletion = Deletion::Waiting {
            reply,
            publishes: Vec::new(),
        };
        self.delete_when_alone(ctx);
    }
}

impl TopicActor {
    /// Puts a publish aside while the topic is being deleted: it is among the first of the new topic.
    pub(super) fn unless_deleting(&mut self, publish: Admitted<Publish>) -> Option<Admitted<Publish>> {
        match &mut self.deletion {
            Deletion::None => Some(publish),
            Deletion::Waiting { publishes, .. } => {
                publishes.push(publish);
                None
            }
            Deletion::Doubtful => {
                let requests = publish.into_inner().0.into_iter();
                requests.for_each(|request| request.reply.fail(doubtful()));
                None
            }
        }
    }

    /// Why nobody can subscribe now, where that is so.
    pub(super) fn check_known(&self) -> Result<(), Failure> {
        match self.deletion {
            Deletion::Doubtful => Err(doubtful()),
            _ => Ok(()),
        }
    }

    /// Deletes the topic once its appends are done: their answers must not come after its end. Until it is over, no
    /// message is handled.
    pub(super) fn delete_when_alone(&mut self, ctx: &mut Context<Self>) {
        if self.appends > 0 || !matches!(self.deletion, Deletion::Waiting { .. }) {
            return;
        }
        let Deletion::Waiting { reply, publishes } = std::mem::take(&mut self.deletion) else {
            return;
        };
        self.feeds.retain(|_, feed| feed.connection.is_open());
        let subscribed = self.feeds.len();
        let views: Vec<_> = self.groups.values().map(inspect).collect();
        let members = async move {
            let mut members = subscribed;
            for view in views {
                // A group that does not exist, or died, answers nothing and has nobody.
                members += view.await.map_or(0, |view| view.members.len());
            }
            members
        };
        ctx.wait(members.into_actor(self).map(move |members, actor, ctx| {
            if members > 0 {
                let msg = format!("topic: {members} subscriptions to {} are connected", actor.name);
                reply.fail(Failure::new(ErrorCode::Conflict, msg));
                publishes.into_iter().for_each(|publish| actor.publish(publish));
            } else {
                actor.delete(reply, publishes, ctx);
            }
        }));
    }

    /// Nobody is subscribed, and nobody can be while this waits.
    fn delete(&mut self, reply: Reply, publishes: Vec<Admitted<Publish>>, ctx: &mut Context<Self>) {
        for (_, group) in self.groups.drain() {
            group.handle.gate().close();
            group.handle.post(Stop);
        }
        let (shared, topic) = (self.shared.clone(), self.name.clone());
        let deleted = async move { shared.perform(Write::DeleteTopic { topic }).await };
        ctx.wait(deleted.into_actor(self).map(move |deleted, actor, ctx| {
            match deleted {
                Ok(Ok(_)) => {
                    actor.begin_anew();
                    reply.ok();
                }
                Ok(Err(refused)) => reply.fail(Failure::new(ErrorCode::Conflict, refused.to_string())),
                Err(error) => {
                    reply.fail(store_unavailable(&error));
                    actor.wait_for_certainty(ctx);
                }
            }
            publishes.into_iter().for_each(|publish| actor.publish(publish));
        }));
    }

    /// The topic as if it had never been.
    fn begin_anew(&mut self) {
        tracing::info!(topic = %self.name, "a topic was deleted");
        self.shared.topics.note_deletion();
        self.shared.metrics.forget_topic(&self.name);
        self.metrics = None;
        self.was_deleted = true;
        self.tail = Arc::new(Tail::new(0));
        self.note_published();
        self.absent = Some(self.shared.topics.note_absent());
    }

    /// A deletion that failed may still happen, but not after the store has done all that it was given. Then the topic
    /// is started anew from the store by the next who asks for it.
    fn wait_for_certainty(&mut self, ctx: &mut Context<Self>) {
        self.deletion = Deletion::Doubtful;
        self.shared.topics.note_deletion();
        let (sender, receiver) = oneshot::channel();
        self.shared.writer.post(Flush(sender));
        ctx.spawn(receiver.into_actor(self).map(|_, actor, ctx| {
            actor.gate.close();
            ctx.stop();
        }));
    }
}

/// Asks a group how it stands. One for each request that was let in at the topic's gate.
fn inspect(group: &RunningGroup) -> oneshot::Receiver<GroupView> {
    let (sender, receiver) = oneshot::channel();
    group.handle.post(Inspect(sender));
    receiver
}

fn doubtful() -> Failure {
    let msg = "the store has not said whether the topic was deleted: come back in a moment";
    Failure::new(ErrorCode::StoreUnavailable, msg).retry_after(1_000)
}
