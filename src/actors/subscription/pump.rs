//! The group's heartbeat: after every message, whatever can move is moved.

use std::collections::HashMap;
use std::time::Duration;

use actix::prelude::*;

use super::{Claim, SubscriptionActor};
use crate::actors::messages::{Deliver, Push, TailMoved, WantCredit};
use crate::actors::topic::TailRead;
use crate::domain::group::{Delivery, Departure, Group, MemberId, ReadPlan};
use crate::protocol::Lease;

/// The most deliveries in one go; then others on the arbiter have their turn.
const DELIVERIES_MAX: usize = 512;
/// After a read that failed.
const READ_AGAIN: Duration = Duration::from_secs(1);

impl SubscriptionActor {
    /// Moves whatever can move: leases that are over, events to read, deliveries, saves, the next timer.
    pub(super) fn pump(&mut self, ctx: &mut Context<Self>) {
        let now_ms = self.now_ms();
        let Some((group, _)) = &mut self.state else {
            for drained in self.drains.drain(..) {
                let _ = drained.send(());
            }
            return;
        };
        group.tick(now_ms);
        self.fill(ctx);
        self.settle_deferred();
        self.deliver(now_ms, ctx);
        self.load_bodies(now_ms, ctx);
        self.save();
        self.arm_timer(now_ms, ctx);
    }

    /// Reads new events: from the tail in memory, or from the store where the group is behind it.
    fn fill(&mut self, ctx: &mut Context<Self>) {
        while !self.reading
            && let Some((group, _)) = &mut self.state
            && let Some(plan) = group.next_read(self.tail.seq())
        {
            match self.tail.read(plan.from, plan.max_events, plan.max_bytes) {
                TailRead::Nothing => return,
                TailRead::Events { events, upto } => group.offer(events, upto),
                TailRead::Behind => self.fill_from_store(plan, ctx),
            }
        }
    }

    fn fill_from_store(&mut self, plan: ReadPlan, ctx: &mut Context<Self>) {
        self.reading = true;
        let ReadPlan {
            from,
            max_events,
            max_bytes,
        } = plan;
        // Where the store has nothing from here on, all up to the tail as it is now is gone.
        let tail = self.tail.seq();
        let read = self.shared.store.read(&self.topic, from, max_events, max_bytes);
        ctx.spawn(read.into_actor(self).map(move |result, actor, ctx| {
            actor.reading = false;
            match &result {
                Ok(_) => actor.trouble = None,
                Err(error) => actor.note_trouble(error),
            }
            let Some((group, _)) = &mut actor.state else { return };
            match result {
                // A seek came in between: what was read is of no use.
                Ok(_) if group.read_position() + 1 != from => {}
                Ok(events) => {
                    let upto = events.last().map_or(tail, |event| event.seq);
                    group.offer(events, upto);
                }
                Err(error) => {
                    tracing::warn!(topic = %actor.topic, group = %actor.name, %error, "reading failed, trying again");
                    ctx.run_later(READ_AGAIN, |actor, ctx| actor.pump(ctx));
                    return;
                }
            }
            actor.pump(ctx);
        }));
    }

    /// Hands out what is ready, against the members' credit and the room of their connections.
    fn deliver(&mut self, now_ms: u64, ctx: &mut Context<Self>) {
        let mut left = DELIVERIES_MAX;
        while left > 0 && self.take_room() {
            let Some((group, _)) = &mut self.state else { return };
            let deliveries = group.deliver(now_ms, left);
            if deliveries.is_empty() {
                break;
            }
            left -= deliveries.len();
            self.hand_over(deliveries);
        }
        self.give_room_back();
        self.report(now_ms);
        // What was handed out made room for more; others on the arbiter have their turn first.
        let more = |(group, _): &(Group, Claim)| group.next_read(self.tail.seq()).is_some();
        if left == 0 || (!self.reading && self.state.as_ref().is_some_and(more)) {
            ctx.notify(TailMoved);
        }
    }

    /// Sets the group's figures.
    fn report(&self, now_ms: u64) {
        let Some((group, _)) = &self.state else { return };
        let stats = group.stats();
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let age_ms = stats.oldest_unacked_at.map_or(0, |at| now_ms.saturating_sub(at));
        self.metrics.inflight.set(count(stats.inflight as u64));
        self.metrics.lag_events.set(count(group.lag(self.tail.seq())));
        self.settled.note(group.settled(), now_ms);
        self.metrics.lag_seconds.set(age_ms as f64 / 1_000.0);
    }

    /// Takes room at the connections of members for which something is ready. False: there is nobody to give it to.
    fn take_room(&mut self) -> bool {
        let Some((group, _)) = &mut self.state else {
            return false;
        };
        let mut taken = false;
        for want in group.wants() {
            let Some(member) = self.members.get(&want.member) else {
                continue;
            };
            let room = member.connection.room();
            let sizes = [want.bytes, want.next_bytes];
            let bytes = sizes
                .into_iter()
                .find(|bytes| want.lacks_bytes_only && room.take(*bytes));
            match bytes {
                Some(bytes) => {
                    group.credit(want.member, 0, bytes);
                    self.roomy.push(want.member);
                    taken = true;
                }
                None => {
                    let (events, bytes) = (want.events, want.next_bytes);
                    member.connection.want(WantCredit {
                        member: want.member,
                        events,
                        bytes,
                    });
                }
            }
        }
        taken
    }

    /// What was taken and not used is for others.
    pub(super) fn give_room_back(&mut self) {
        let Some((group, _)) = &mut self.state else { return };
        for id in self.roomy.drain(..) {
            let bytes = group.take_back_bytes(id);
            if let Some(member) = self.members.get(&id) {
                member.connection.room().give_back(bytes);
            }
        }
    }

    fn hand_over(&mut self, deliveries: Vec<Delivery>) {
        let Some((group, claim)) = &mut self.state else { return };
        let (max_attempts, seeks) = (group.settings().max_attempts, claim.seeks);
        let mut by_member: HashMap<MemberId, Vec<Delivery>> = HashMap::new();
        for delivery in deliveries {
            by_member.entry(delivery.member).or_default().push(delivery);
        }
        self.handing_over.extend(by_member);
        while let Some((id, deliveries)) = self.handing_over.pop() {
            let Some(member) = self.members.get(&id).filter(|member| member.connection.is_open()) else {
                // What was to be handed to a closed connection never reached a socket.
                self.remove_member(id, Departure::Uncounted);
                continue;
            };
            self.metrics.delivered.inc_by(deliveries.len() as u64);
            self.metrics
                .redelivered
                .inc_by(deliveries.iter().filter(|one| one.attempt > 1).count() as u64);
            let lease = |delivery: &Delivery| Lease {
                max_attempts,
                ack_deadline_ms: delivery.ack_timeout_ms,
            };
            let push = |delivery: Delivery| Push {
                lease: (!member.auto_ack).then(|| lease(&delivery)),
                event: delivery.event,
                attempt: delivery.attempt,
            };
            member.connection.deliver(Deliver {
                member: id,
                pushes: deliveries.into_iter().map(push).collect(),
                seeks,
            });
        }
    }

    /// Reads events again that are to be delivered again, or become dead letters.
    fn load_bodies(&mut self, now_ms: u64, ctx: &mut Context<Self>) {
        let Some((group, _)) = self.state.as_mut().filter(|_| !self.loading) else {
            return;
        };
        let seqs = group.take_loads(now_ms);
        if seqs.is_empty() {
            return;
        }
        self.loading = true;
        let read = self.shared.store.read_seqs(&self.topic, seqs.clone());
        ctx.spawn(read.into_actor(self).map(move |result, actor, ctx| {
            actor.loading = false;
            match &result {
                Ok(_) => actor.trouble = None,
                Err(error) => actor.note_trouble(error),
            }
            let Some((group, _)) = &mut actor.state else { return };
            match result {
                Ok(events) => {
                    let expired = group.loaded(&seqs, events);
                    actor.metrics.expired_unacked.inc_by(expired);
                    actor.pump(ctx);
                }
                Err(error) => {
                    tracing::warn!(topic = %actor.topic, group = %actor.name, %error, "reading again failed, trying again");
                    group.load_failed(&seqs);
                    ctx.run_later(READ_AGAIN, |actor, ctx| actor.pump(ctx));
                }
            }
        }));
    }

    /// One timer: for the earliest moment at which something will happen by itself.
    fn arm_timer(&mut self, now_ms: u64, ctx: &mut Context<Self>) {
        let Some((group, _)) = &self.state else { return };
        let Some(due) = group.next_deadline() else { return };
        match self.timer {
            // An earlier one will look again.
            Some((_, armed)) if armed <= due => return,
            Some((handle, _)) => drop(ctx.cancel_future(handle)),
            None => {}
        }
        let wait = Duration::from_millis(due.saturating_sub(now_ms).max(1));
        let handle = ctx.run_later(wait, |actor, ctx| {
            actor.timer = None;
            actor.pump(ctx);
        });
        self.timer = Some((handle, due));
    }
}
