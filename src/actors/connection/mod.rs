//! Connections: what the other actors know of one ([`ConnectionHandle`]), and the actor behind it.
//!
//! Only `socket` knows actix-web-actors. The others know an [`Outlet`], so that something in this process can stand in
//! the place of a socket.

mod backlog;
mod credit;
mod event_stream;
mod frame_guard;
mod lanes;
mod local;
mod paced_body;
mod peer;
mod publish;
mod rights;
mod room;
mod session;
mod socket;
mod streaming;
mod subscriptions;
mod watchdog;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::backlog::{Backlog, Cut};
pub use self::event_stream::{EventStream, Follow};
pub use self::local::{Local, LocalActor, LocalHandle, News};
pub use self::paced_body::PacedBody;
pub use self::peer::PeerSocket;
pub use self::room::Room;
pub use self::socket::{ConnectionActor, upgrade};
pub use self::streaming::Streaming;
pub use self::subscriptions::{Key, Operation};
pub use self::watchdog::watch;
use super::messages::{Answers, Deliver, EndSubscription, FeedLost, GoAway, WantCredit};
use super::reply::Answered;

/// Where answers and events go.
pub trait Outlet: Send + Sync {
    /// Takes answers to requests.
    fn answers(&self, answers: Answers);
    /// Takes events, against credit.
    fn deliver(&self, events: Deliver);
    /// Takes a wish for credit.
    fn want(&self, want: WantCredit);
    /// Ends a subscription.
    fn end(&self, end: EndSubscription);
    /// Ends the connection.
    fn go_away(&self, away: GoAway);
    /// Has it look whether its rights were taken back.
    fn check_rights(&self);
    /// Whoever fed a subscription died: it is to be joined anew.
    fn feed_lost(&self, lost: FeedLost);
    /// More answers wait than may.
    fn over_buffer(&self);
    /// Whether there is still somebody.
    fn is_open(&self) -> bool;
}

/// A connection, as the other actors know it. Cloning it is cheap.
#[derive(Clone)]
pub struct ConnectionHandle {
    number: u64,
    /// None for something in this process.
    client: Option<IpAddr>,
    outlet: Arc<dyn Outlet>,
    backlog: Arc<Backlog>,
}

/// How it stands with a connection. Times are epoch milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Unique in the process.
    pub number: u64,
    /// Where it comes from; None for something in this process.
    pub client: Option<IpAddr>,
    /// How many bytes wait to be written to it.
    pub waiting_bytes: usize,
    /// Set while its client takes nothing: since when.
    pub blocked_since_ms: Option<u64>,
    /// Set while its pushes wait for a token: when there is one.
    pub token_at_ms: Option<u64>,
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.number)
    }
}

impl ConnectionHandle {
    /// `number` is unique in the process; `backlog_bytes` is how much may be on its way to it, half of it events.
    pub fn new(number: u64, outlet: Arc<dyn Outlet>, backlog_bytes: usize) -> ConnectionHandle {
        ConnectionHandle::with_backlog(number, None, outlet, Backlog::new(backlog_bytes, None))
    }

    fn with_backlog(
        number: u64,
        client: Option<IpAddr>,
        outlet: Arc<dyn Outlet>,
        backlog: Arc<Backlog>,
    ) -> ConnectionHandle {
        ConnectionHandle {
            number,
            client,
            outlet,
            backlog,
        }
    }

    /// The bytes of events that are on their way to it. Whoever hands out an event takes room for it first; the
    /// connection gives it back when the event is written.
    pub fn room(&self) -> &Room {
        self.backlog.room()
    }

    /// How it stands with it now.
    pub fn condition(&self) -> Condition {
        Condition {
            number: self.number,
            client: self.client,
            waiting_bytes: self.backlog.bytes(),
            blocked_since_ms: self.backlog.blocked_since_ms(),
            token_at_ms: self.backlog.token_at_ms(),
        }
    }

    fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Whether both are the same connection.
    pub fn is_same(&self, other: &ConnectionHandle) -> bool {
        self.number == other.number
    }

    /// Sends answers. Bounded by the requests that the connection has open, and by its buffer: who does not read its
    /// answers is cut off.
    pub fn answer(&self, answers: Vec<Answered>) {
        if self.backlog.cut_off().is_some() {
            return;
        }
        let fits = self.backlog.add_answers(answers.iter().map(Answered::size).sum());
        self.outlet.answers(Answers(answers));
        if !fits {
            self.outlet.over_buffer();
        }
    }

    /// Sends events. Bounded by the credit that the connection granted and by its room.
    pub fn deliver(&self, events: Deliver) {
        self.outlet.deliver(events);
    }

    /// Asks for credit. Bounded: one wish for each subscription.
    pub fn want(&self, want: WantCredit) {
        self.outlet.want(want);
    }

    /// Ends a subscription.
    pub fn end(&self, end: EndSubscription) {
        self.outlet.end(end);
    }

    /// Says that whoever fed a subscription died.
    pub fn feed_lost(&self, lost: FeedLost) {
        self.outlet.feed_lost(lost);
    }

    /// Ends the connection.
    pub fn go_away(&self, away: GoAway) {
        self.outlet.go_away(away);
    }

    /// Has it look whether its rights were taken back.
    pub fn check_rights(&self) {
        self.outlet.check_rights();
    }

    /// Whether there is still somebody.
    pub fn is_open(&self) -> bool {
        self.outlet.is_open()
    }
}

/// The connections that are open.
#[derive(Default)]
pub struct Connections(Mutex<HashMap<u64, ConnectionHandle>>);

impl Connections {
    /// Adds one, unless there are `max` already.
    fn add(&self, connection: &ConnectionHandle, max: usize) -> bool {
        let mut open = self.lock();
        if open.len() >= max {
            return false;
        }
        open.insert(connection.number, connection.clone());
        true
    }

    fn get(&self, number: u64) -> Option<ConnectionHandle> {
        self.lock().get(&number).cloned()
    }

    /// Takes one off; false where it was not there.
    fn remove(&self, number: u64) -> bool {
        self.lock().remove(&number).is_some()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// All of them.
    pub fn all(&self) -> Vec<ConnectionHandle> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ConnectionHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
