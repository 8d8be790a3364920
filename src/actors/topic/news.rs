//! What other gateways on the same store do to a topic: they add to it, and now and then it is not what it was.

use actix::prelude::*;

use super::{TopicActor, feed};
use crate::actors::messages::{TailSeen, TopicHinted, TopicLost};
use crate::actors::start::read_log;

/// So many looks in a row have to find less than was seen here before it is believed: one may be older than it seems.
const LOOKS: u32 = 3;

/// What is known of the others' doing.
#[derive(Debug, Default)]
pub(super) struct News {
    /// A read of what they added is under way.
    reading: bool,
    /// How far they are said to be.
    heard: u64,
    /// How many looks in a row found less than was seen here.
    doubts: u32,
    /// The topic is about to begin anew.
    ending: bool,
}

impl TopicActor {
    /// Brings what others added into the tail: read once here, and not by each group for itself.
    fn catch_up(&mut self, ctx: &mut Context<Self>) {
        let tail = self.tail.seq();
        if self.news.heard <= tail || self.news.reading {
            return;
        }
        self.absent = None;
        if self.groups.is_empty() && self.feeds.is_empty() {
            return self.tail.jump_to(self.news.heard);
        }
        self.news.reading = true;
        let store = self.shared.store.clone();
        // The newest that is known is read again: if it is another by now, so may be what came before it.
        let from = self.tail.newest().map_or(tail + 1, |newest| newest.seq);
        let read = read_log(store, self.name.clone(), from, feed::READ_EVENTS, feed::READ_BYTES);
        ctx.spawn(read.into_actor(self).map(move |read, actor, ctx| {
            actor.news.reading = false;
            match read {
                Ok((events, _)) if actor.tail.contradicts(&events) => actor.start_over(ctx),
                Ok((events, upto)) if upto > tail => {
                    actor.tail_moved(events, ctx);
                    if upto > actor.tail.seq() {
                        // What was between is gone already.
                        actor.tail.jump_to(upto);
                        actor.wake_all(ctx);
                    }
                    actor.catch_up(ctx);
                }
                // A hint that came too early, or a store that does not answer: the next look tells.
                Ok(_) => actor.news.heard = 0,
                Err(error) => {
                    actor.news.heard = 0;
                    tracing::debug!(topic = %actor.name, %error, "what others published could not be read yet");
                }
            }
        }));
    }

    /// The store does not have what was seen here: the topic was deleted elsewhere, or a fail-over took back what was not
    /// safe. All that is in memory may be wrong: topic and groups begin anew from the store.
    pub(super) fn start_over(&mut self, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.news.ending, true) {
            return;
        }
        tracing::error!(topic = %self.name, seen = self.tail.seq(), "the store took back what it had of a topic: it begins anew");
        self.shared.metrics.topic_rolled_back();
        self.gate.close();
        let store = self.shared.store.clone();
        let read = read_log(
            store,
            self.name.clone(),
            self.tail.first(),
            usize::MAX,
            feed::READ_BYTES,
        );
        ctx.wait(read.into_actor(self).map(|read, actor, ctx| {
            // Where an ephemeral subscription goes on: after the last event that is what it was.
            let common = read.map_or(0, |(events, _)| actor.tail.in_common(&events));
            for group in actor.groups.values() {
                group.handle.post(TopicLost { rolled_back: true });
            }
            for feed in actor.feeds.values_mut() {
                feed.cut_at(common);
                feed.lose();
            }
            ctx.stop();
        }));
    }
}

impl Handler<TopicHinted> for TopicActor {
    type Result = ();

    fn handle(&mut self, _: TopicHinted, ctx: &mut Context<Self>) {
        let hint = self.shared.node.as_ref().and_then(|node| node.take_hint(&self.name));
        self.news.heard = self.news.heard.max(hint.unwrap_or(0));
        self.catch_up(ctx);
    }
}

impl Handler<TailSeen> for TopicActor {
    type Result = ();

    fn handle(&mut self, message: TailSeen, ctx: &mut Context<Self>) {
        let (found, seen) = (message.0.unwrap_or(0), self.tail.seq());
        // What was deleted here begins at 1 again, and a look may be older than that.
        if found < seen && self.appends == 0 {
            self.news.doubts += 1;
            if self.news.doubts >= LOOKS {
                self.start_over(ctx);
            }
            return;
        }
        self.news.doubts = 0;
        self.news.heard = self.news.heard.max(found);
        self.catch_up(ctx);
    }
}
