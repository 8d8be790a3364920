//! ACK, NACK, MODACK. An ack is answered once it is durable; until then its event is out of the rules' hands already.

use actix::prelude::*;

use super::SubscriptionActor;
use crate::actors::handle::{Admitted, Permit};
use crate::actors::messages::{Ack, AutoAck, Modack, Nack};
use crate::actors::reply::{Outcome, Reply};
use crate::actors::start::within_deadline;
use crate::domain::group::AckOutcome;
use crate::protocol::{Answer, ErrorCode, Failure};

/// An ack of events in the window that the group has yet to look at.
pub(super) struct DeferredAck {
    /// Ascending.
    seqs: Vec<u64>,
    reply: Reply,
    /// Keeps its place at the gate: a client decides how many of these there are.
    _permit: Permit,
}

impl DeferredAck {
    /// Where its answer goes; its place at the gate is given back.
    pub(super) fn into_reply(self) -> Reply {
        self.reply
    }
}

/// An ack with ids that are not in the window.
pub(super) struct UnresolvedAck {
    ids: Vec<Box<str>>,
    reply: Reply,
    /// Until it is settled it counts as waiting.
    permit: Permit,
}

/// What the store knows of ids that are not in the window.
struct Lookup {
    ids: Vec<Box<str>>,
    seqs: Vec<Option<u64>>,
    /// Whether the topic still has every event that it ever had.
    complete: bool,
}

impl Handler<Admitted<Ack>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Ack>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        self.shared.faults.at("group.ack");
        let Admitted {
            message: Ack { ids, reply },
            permit,
        } = admitted;
        let now_ms = self.now_ms();
        let Some((group, _)) = &mut self.state else { return };
        let before = ids.len();
        let mut unknown: Vec<Box<str>> = Vec::new();
        for id in ids {
            let came_ms = group.came_ms(&id);
            match group.ack(&id) {
                AckOutcome::Lookup => unknown.push(id),
                AckOutcome::Done => self.shared.metrics.delivered_and_acked(came_ms, now_ms),
            }
        }
        self.metrics.acked.inc_by((before - unknown.len()) as u64);
        if unknown.is_empty() {
            self.waiting.push(reply);
        } else {
            self.unresolved.push(UnresolvedAck {
                ids: unknown,
                reply,
                permit,
            });
            self.look_up(ctx);
        }
        self.pump(ctx);
    }
}

impl SubscriptionActor {
    /// Ids that are not in the window: acked before, gone, or beyond it. Only the store can tell; it is asked for all that
    /// wait at once.
    fn look_up(&mut self, ctx: &mut Context<Self>) {
        if self.looking_up || self.unresolved.is_empty() {
            return;
        }
        self.looking_up = true;
        let acks = std::mem::take(&mut self.unresolved);
        let ids: Vec<Box<str>> = acks.iter().flat_map(|ack| ack.ids.iter().cloned()).collect();
        let (shared, topic) = (self.shared.clone(), self.topic.clone());
        let look_up = async move {
            let seqs = within_deadline(shared.store.seqs_of_ids(&topic, ids)).await?;
            let state = within_deadline(shared.store.topic(&topic)).await?;
            Ok((seqs, state.is_none_or(|state| state.first <= 1)))
        };
        ctx.spawn(
            look_up
                .into_actor(self)
                .map(move |found: Result<_, Failure>, actor, ctx| {
                    actor.looking_up = false;
                    match found {
                        Ok((seqs, complete)) => {
                            let mut seqs = seqs.into_iter();
                            for UnresolvedAck { ids, reply, permit } in acks {
                                let seqs = seqs.by_ref().take(ids.len()).collect();
                                actor.looked_up(Lookup { ids, seqs, complete }, reply, permit);
                            }
                        }
                        Err(failure) => acks.into_iter().for_each(|ack| ack.reply.fail(failure.clone())),
                    }
                    actor.look_up(ctx);
                    actor.pump(ctx);
                }),
        );
    }

    fn looked_up(&mut self, found: Lookup, reply: Reply, permit: Permit) {
        let Some((group, _)) = &mut self.state else { return };
        let mut later = Vec::new();
        for (id, seq) in found.ids.iter().zip(&found.seqs) {
            // By now it may have come into the window.
            if matches!(group.ack(id), AckOutcome::Done) {
                continue;
            }
            match *seq {
                Some(seq) if seq <= group.read_position() => {}
                Some(seq) if group.in_window(seq) => {
                    group.read_through(seq);
                    later.push(seq);
                }
                Some(_) => return reply.fail(unknown_id(id, "is beyond the group's window")),
                None if found.complete => return reply.fail(unknown_id(id, "is not in the topic")),
                None => {}
            }
        }
        later.sort_unstable();
        if later.is_empty() {
            self.waiting.push(reply);
        } else {
            self.deferred.push(DeferredAck {
                seqs: later,
                reply,
                _permit: permit,
            });
        }
    }

    /// Acks that waited for the group to look at their events.
    pub(super) fn settle_deferred(&mut self) {
        let now_ms = self.now_ms();
        let Some((group, _)) = &mut self.state else { return };
        let read = group.read_position();
        for ack in self
            .deferred
            .extract_if(.., |ack| ack.seqs.last().is_none_or(|last| *last <= read))
        {
            for seq in &ack.seqs {
                self.shared.metrics.delivered_and_acked(group.came_ms_of(*seq), now_ms);
                group.ack_seq(*seq);
            }
            self.metrics.acked.inc_by(ack.seqs.len() as u64);
            self.waiting.push(ack.reply);
        }
    }
}

fn unknown_id(id: &str, why: &str) -> Failure {
    Failure::new(ErrorCode::UnknownId, format!("id: {id:?} {why}"))
}

impl Handler<AutoAck> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, message: AutoAck, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let now_ms = self.now_ms();
        if let Some((group, claim)) = &mut self.state
            && claim.seeks == message.seeks
        {
            for seq in &message.seqs {
                self.shared.metrics.delivered_and_acked(group.came_ms_of(*seq), now_ms);
                group.ack_seq(*seq);
            }
            self.metrics.acked.inc_by(message.seqs.len() as u64);
        }
        self.pump(ctx);
    }
}

impl Handler<Admitted<Nack>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Nack>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let now_ms = self.now_ms();
        let Nack {
            member,
            ids,
            reason,
            delay_ms,
            reply,
        } = admitted.into_inner();
        if let Some((group, _)) = &mut self.state {
            let nacked = ids
                .iter()
                .filter(|id| group.nack(member, id, reason.as_deref(), delay_ms, now_ms))
                .count();
            self.metrics.nacked.inc_by(nacked as u64);
        }
        self.waiting.push(reply);
        self.pump(ctx);
    }
}

impl Handler<Admitted<Modack>> for SubscriptionActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Modack>, ctx: &mut Context<Self>) {
        self.breathe(ctx);
        let now_ms = self.now_ms();
        let Modack {
            member,
            id,
            extend_ms,
            reply,
        } = admitted.into_inner();
        let Some((group, _)) = &mut self.state else { return };
        match group.modack(member, &id, extend_ms, now_ms) {
            Some(ack_deadline_ms) => reply.send(Ok(Outcome::Answer(Answer::LeaseExtended { ack_deadline_ms }))),
            None => reply.fail(unknown_id(&id, "is not in flight with this member")),
        }
        self.pump(ctx);
    }
}
