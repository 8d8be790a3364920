//! The way to the store's actor, which is started anew where it died.

use std::sync::{Arc, Mutex, PoisonError};

use actix::dev::ToEnvelope;
use actix::{Context, Handler, Message};

use super::handle::{Admitted, Handle, Rejected};
use super::store::{STORE, StoreActor};
use super::supervision::Supervision;

/// The way to the only writer.
pub struct Writer {
    current: Mutex<Handle<StoreActor>>,
    start: Box<dyn Fn() -> Handle<StoreActor> + Send + Sync>,
    supervision: Arc<Supervision>,
}

impl Writer {
    /// `start` starts the actor: now, and whenever it died.
    pub fn new(
        start: impl Fn() -> Handle<StoreActor> + Send + Sync + 'static,
        supervision: Arc<Supervision>,
    ) -> Writer {
        Writer {
            current: Mutex::new(start()),
            start: Box::new(start),
            supervision,
        }
    }

    /// Sends what a client drives; see [`Handle::offer`].
    pub fn offer<M>(&self, message: M, bytes: usize) -> Result<(), (Rejected, M)>
    where
        M: Message<Result = ()> + Send + 'static,
        StoreActor: Handler<Admitted<M>>,
        Context<StoreActor>: ToEnvelope<StoreActor, Admitted<M>>,
    {
        self.handle().offer(message, bytes)
    }

    /// Sends what has a place kept for it; see [`Handle::post`].
    pub fn post<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        StoreActor: Handler<M>,
        Context<StoreActor>: ToEnvelope<StoreActor, M>,
    {
        self.handle().post(message);
    }

    /// How many messages wait for it.
    pub fn depth(&self) -> usize {
        self.handle().gate().depth()
    }

    fn handle(&self) -> Handle<StoreActor> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.is_open() && self.supervision.may_start(STORE).is_ok() {
            *current = (self.start)();
        }
        current.clone()
    }
}
