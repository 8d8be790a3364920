//! Addresses with a bound that holds.
//!
//! An actix mailbox counts per clone of an address: a thousand clones put a thousand messages over its capacity. So the
//! bound is kept here, before the mailbox, by a [`Gate`] that all clones of a [`Handle`] share. It counts messages and
//! bytes from the moment they are accepted until the actor is done with them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};

/// Set in the gate's state once nothing may enter any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// How much may wait for an actor.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Messages that are accepted and not finished.
    pub messages: usize,
    /// The bytes that they carry; one message is always let in, however large.
    pub bytes: usize,
}

/// Counts what is on its way to one actor.
#[derive(Debug)]
pub struct Gate {
    /// Messages inside, and [`CLOSED`].
    state: AtomicUsize,
    bytes: AtomicUsize,
    bounds: Bounds,
}

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// As much waits as may.
    Full,
    /// The actor has left or died: ask the registry for its successor.
    Closed,
}

impl Gate {
    /// An open gate.
    pub fn new(bounds: Bounds) -> Arc<Gate> {
        Arc::new(Gate {
            state: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bounds,
        })
    }

    /// Lets a message in, or says why not.
    pub(super) fn enter(self: &Arc<Self>, bytes: usize) -> Result<Permit, Rejected> {
        let step = |state: usize| (state & CLOSED == 0 && state < self.bounds.messages).then_some(state + 1);
        if let Err(state) = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            return Err(if state & CLOSED == 0 {
                Rejected::Full
            } else {
                Rejected::Closed
            });
        }
        let permit = Permit {
            gate: self.clone(),
            bytes,
        };
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before > 0 && before + bytes > self.bounds.bytes {
            return Err(Rejected::Full);
        }
        Ok(permit)
    }

    /// Closes the gate if nothing is inside: from then on no message can die in a stopping mailbox.
    pub fn close_if_idle(&self) -> bool {
        self.state
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Closes the gate whatever is inside.
    pub fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// How many messages are inside.
    pub fn depth(&self) -> usize {
        self.state.load(Ordering::Relaxed) & !CLOSED
    }
}

/// A message's place behind the gate; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    gate: Arc<Gate>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.gate.state.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A message that was let in. Whoever keeps its content for longer keeps the permit with it.
#[derive(Debug)]
pub struct Admitted<M> {
    /// What was sent.
    pub message: M,
    /// Its place.
    pub permit: Permit,
}

impl<M: Message<Result = ()>> Message for Admitted<M> {
    type Result = ();
}

/// An actor's address behind its gate. Clones share the gate.
pub struct Handle<A: Actor> {
    addr: Addr<A>,
    gate: Arc<Gate>,
}

impl<A: Actor> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handle with {} messages inside", self.gate.depth())
    }
}

impl<A: Actor> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Handle {
            addr: self.addr.clone(),
            gate: self.gate.clone(),
        }
    }
}

impl<A: Actor> Handle<A> {
    /// Puts a gate before an address.
    pub fn new(addr: Addr<A>, gate: Arc<Gate>) -> Handle<A> {
        Handle { addr, gate }
    }

    /// Whether the actor still takes messages.
    pub fn is_open(&self) -> bool {
        self.addr.connected() && self.gate.state.load(Ordering::Acquire) & CLOSED == 0
    }

    /// Whether both lead to the same actor.
    pub fn is_same(&self, other: &Handle<A>) -> bool {
        self.addr == other.addr
    }

    /// The gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Sends what a client drives: accepted within the bounds, else handed back with the reason.
    pub fn offer<M>(&self, message: M, bytes: usize) -> Result<(), (Rejected, M)>
    where
        M: Message<Result = ()> + Send + 'static,
        A: Handler<Admitted<M>>,
        A::Context: ToEnvelope<A, Admitted<M>>,
    {
        if !self.addr.connected() {
            return Err((Rejected::Closed, message));
        }
        match self.gate.enter(bytes) {
            Ok(permit) => {
                post_to(&self.addr, Admitted { message, permit });
                Ok(())
            }
            Err(rejected) => Err((rejected, message)),
        }
    }

    /// Sends what has a place kept for it: answers to requests, and signals of which each sender has one at most on its
    /// way. Such messages are bounded by what they answer, so the gate does not count them.
    pub fn post<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        post_to(&self.addr, message);
    }
}

/// Sends past the mailbox's own capacity, which counts per clone of an address and so bounds nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may: the bound is the gate's, or the message answers a request that was counted"
)]
pub(super) fn post_to<A, M>(addr: &Addr<A>, message: M)
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    addr.do_send(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_for_messages_and_bytes() {
        let gate = Gate::new(Bounds { messages: 2, bytes: 10 });
        let first = gate.enter(100);
        assert!(first.is_ok(), "one is always let in");
        assert_eq!(gate.enter(1).unwrap_err(), Rejected::Full);
        drop(first);
        let _second = gate.enter(4).unwrap();
        let _third = gate.enter(4).unwrap();
        assert_eq!(gate.enter(0).unwrap_err(), Rejected::Full);
        assert_eq!(gate.depth(), 2);
    }

    #[test]
    fn a_gate_closes_only_when_it_is_idle() {
        let gate = Gate::new(Bounds { messages: 2, bytes: 10 });
        let permit = gate.enter(1).unwrap();
        assert!(!gate.close_if_idle());
        drop(permit);
        assert!(gate.close_if_idle());
        assert_eq!(gate.enter(1).unwrap_err(), Rejected::Closed);
        assert_eq!(gate.depth(), 0);
    }
}
