//! LocalActor: a subscription of something in this process, in the place of a socket. The group or topic that feeds it
//! sees no difference: the same messages, the same leases, the same room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};

use super::backlog::Backlog;
use super::subscriptions::{Key, Operation, Subscriptions};
use super::{ConnectionHandle, Outlet};
use crate::actors::handle::{Admitted, Bounds, Gate, Handle, Rejected, post_to};
use crate::actors::messages::{
    Answers, Deliver, EndSubscription, FeedLost, GoAway, GrantCredit, Operate, Push, RoomFreed, Subscribe, WantCredit,
};
use crate::actors::reply::{Outcome, Replied, Reply};
use crate::actors::shared::Shared;
use crate::domain::group::{Departure, MemberId};
use crate::protocol::{ErrorCode, Failure, SubscribeOpts};

/// What may wait for it. Operations are small.
const BOUNDS: Bounds = Bounds {
    messages: 16_384,
    bytes: 4 << 20,
};
/// Credit, granted once: what bounds a subscription in this process is how much it may hold, in events and in bytes.
const CREDIT: u32 = u32::MAX / 2;
/// How long a subscription that was lost waits before it is tried again.
const REJOIN_AGAIN: Duration = Duration::from_millis(200);

/// What comes to whoever holds the subscription.
#[derive(Debug)]
pub enum News {
    /// An event. Its bytes are to be given back with [`LocalHandle::taken`].
    Event(Push),
    /// The subscription is over.
    Ended(Failure),
}

/// One subscription of something in this process.
pub struct LocalActor {
    shared: Arc<Shared>,
    number: u64,
    member: MemberId,
    backlog: Arc<Backlog>,
    wanting: Arc<AtomicBool>,
    /// Set in `started`.
    connection: Option<ConnectionHandle>,
    key: Key,
    opts: SubscribeOpts,
    subscriptions: Subscriptions,
    news: mpsc::UnboundedSender<News>,
    /// Who waits for the first join.
    joined: Option<oneshot::Sender<Result<(), Failure>>>,
    /// How many bytes the next event takes, where there was no room for it.
    wish: Option<usize>,
}

/// The way to a subscription, for whoever holds it. Cloning it is cheap.
#[derive(Clone)]
pub struct LocalHandle {
    actor: Handle<LocalActor>,
    backlog: Arc<Backlog>,
    wanting: Arc<AtomicBool>,
}

/// A subscription that is on its way: its news, and whether it was joined.
pub struct Local {
    /// The way to it.
    pub handle: LocalHandle,
    /// Events, in their order. Bounded by what the member may hold.
    pub news: mpsc::UnboundedReceiver<News>,
    /// Ready when the first join was answered.
    pub joined: oneshot::Receiver<Result<(), Failure>>,
}

impl LocalActor {
    /// Starts a subscription.
    pub fn start_on(arbiter: &ArbiterHandle, shared: Arc<Shared>, key: Key, opts: SubscribeOpts) -> Local {
        let gate = Gate::new(BOUNDS);
        let backlog = Backlog::new(shared.config.gateway.write_buffer / 2, None);
        let wanting = Arc::new(AtomicBool::new(false));
        let (news, receiver) = mpsc::unbounded_channel();
        let (joined, is_joined) = oneshot::channel();
        let (for_actor, wants) = (backlog.clone(), wanting.clone());
        let addr = LocalActor::start_in_arbiter(arbiter, move |_| LocalActor {
            number: shared.next_number(),
            member: shared.next_number(),
            shared,
            backlog: for_actor,
            wanting: wants,
            connection: None,
            key,
            opts,
            subscriptions: Subscriptions::new(),
            news,
            joined: Some(joined),
            wish: None,
        });
        let handle = LocalHandle {
            actor: Handle::new(addr, gate),
            backlog,
            wanting,
        };
        Local {
            handle,
            news: receiver,
            joined: is_joined,
        }
    }

    fn join(&mut self, key: Key, opts: SubscribeOpts, position: Option<u64>, ctx: &mut Context<Self>) {
        let Some(connection) = self.connection.clone() else {
            return;
        };
        let (reply, answer) = Reply::to_caller(ErrorCode::StoreUnavailable);
        let (topic, group) = key;
        let subscribe = Subscribe {
            member: self.member,
            group,
            position,
            opts,
            connection,
            reply,
        };
        if let Err((failure, subscribe)) = self.shared.topics.offer(&topic, &self.shared, subscribe, 0) {
            subscribe.reply.fail(failure);
        }
        ctx.spawn(answer.into_actor(self).map(|answer, actor, ctx| {
            let lost = |_| Err(Failure::new(ErrorCode::ShuttingDown, "the gateway is going down"));
            actor.on_joined(answer.unwrap_or_else(lost), ctx);
        }));
    }

    fn on_joined(&mut self, answer: Replied, ctx: &mut Context<Self>) {
        match answer {
            Ok(Outcome::Subscribed(feed)) => {
                if self.subscriptions.joined(self.member, feed.clone()) {
                    let events = CREDIT;
                    let member = self.member;
                    feed.grant(GrantCredit { member, events });
                }
                if let Some(joined) = self.joined.take() {
                    let _ = joined.send(Ok(()));
                }
            }
            Ok(_) => {}
            Err(failure) if self.subscriptions.may_rejoin(self.member, failure.code) => {
                ctx.run_later(REJOIN_AGAIN, |actor, ctx| actor.rejoin(ctx));
            }
            Err(failure) => self.end(failure, ctx),
        }
    }

    fn rejoin(&mut self, ctx: &mut Context<Self>) {
        if let Some((key, opts, position)) = self.subscriptions.next_rejoin(self.member) {
            self.join(key, opts, position, ctx);
        }
    }

    /// The subscription is over: its holder is told.
    fn end(&mut self, failure: Failure, ctx: &mut Context<Self>) {
        match self.joined.take() {
            Some(joined) => drop(joined.send(Err(failure))),
            None => drop(self.news.send(News::Ended(failure))),
        }
        ctx.stop();
    }

    /// Tells the feed that there is room again.
    fn serve_wish(&mut self) {
        let Some(bytes) = self.wish.filter(|bytes| self.backlog.room().has(*bytes)) else {
            return;
        };
        self.wish = None;
        self.wanting.store(false, Ordering::Release);
        let feed = self
            .subscriptions
            .get(self.member)
            .and_then(|subscription| subscription.feed());
        if let (Some(feed), true) = (feed, bytes > 0) {
            let (member, events) = (self.member, CREDIT);
            feed.grant(GrantCredit { member, events });
        }
    }
}

impl Actor for LocalActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let outlet = Arc::new(Inside(ctx.address()));
        let connection = ConnectionHandle::with_backlog(self.number, None, outlet, self.backlog.clone());
        self.shared.locals.add(&connection, usize::MAX);
        self.connection = Some(connection);
        // However it ends, it is this process's own doing.
        self.subscriptions.departure = Departure::Uncounted;
        self.subscriptions.add(self.key.clone(), self.member, self.opts.clone());
        self.join(self.key.clone(), self.opts.clone(), None, ctx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.shared.locals.remove(self.number);
    }
}

/// The outlet of a subscription in this process.
struct Inside(Addr<LocalActor>);

impl Outlet for Inside {
    fn answers(&self, answers: Answers) {
        post_to(&self.0, answers);
    }

    fn deliver(&self, events: Deliver) {
        post_to(&self.0, events);
    }

    fn want(&self, want: WantCredit) {
        post_to(&self.0, want);
    }

    fn end(&self, end: EndSubscription) {
        post_to(&self.0, end);
    }

    fn go_away(&self, away: GoAway) {
        post_to(&self.0, away);
    }

    /// Who is inside has every right.
    fn check_rights(&self) {}

    fn feed_lost(&self, lost: FeedLost) {
        post_to(&self.0, lost);
    }

    fn over_buffer(&self) {}

    fn is_open(&self) -> bool {
        self.0.connected()
    }
}

impl Handler<Answers> for LocalActor {
    type Result = ();

    /// Its requests are answered to their callers, so there are none.
    fn handle(&mut self, _: Answers, _: &mut Context<Self>) {}
}

impl Handler<Deliver> for LocalActor {
    type Result = ();

    fn handle(&mut self, deliver: Deliver, ctx: &mut Context<Self>) {
        for push in deliver.pushes {
            if let Err(mpsc::error::SendError(News::Event(push))) = self.news.send(News::Event(push)) {
                // Nobody is there any more: with the end of this all leases go back.
                self.backlog.room().give_back(push.event.json.len());
                ctx.stop();
            }
        }
    }
}

impl Handler<WantCredit> for LocalActor {
    type Result = ();

    fn handle(&mut self, want: WantCredit, _: &mut Context<Self>) {
        self.wish = Some(want.bytes.max(1));
        self.wanting.store(true, Ordering::Release);
        // Room may have come back before the wish was known.
        self.serve_wish();
    }
}

impl Handler<RoomFreed> for LocalActor {
    type Result = ();

    fn handle(&mut self, _: RoomFreed, _: &mut Context<Self>) {
        self.serve_wish();
    }
}

impl Handler<EndSubscription> for LocalActor {
    type Result = ();

    fn handle(&mut self, end: EndSubscription, ctx: &mut Context<Self>) {
        self.subscriptions.remove(end.member);
        self.end(end.failure, ctx);
    }
}

impl Handler<GoAway> for LocalActor {
    type Result = ();

    fn handle(&mut self, _: GoAway, ctx: &mut Context<Self>) {
        self.end(Failure::new(ErrorCode::ShuttingDown, "the gateway is going down"), ctx);
    }
}

impl Handler<FeedLost> for LocalActor {
    type Result = ();

    fn handle(&mut self, lost: FeedLost, ctx: &mut Context<Self>) {
        if self.subscriptions.lost(lost) {
            self.wish = None;
            self.wanting.store(false, Ordering::Release);
            self.rejoin(ctx);
        }
    }
}

impl Handler<Admitted<Operate>> for LocalActor {
    type Result = ();

    fn handle(&mut self, admitted: Admitted<Operate>, ctx: &mut Context<Self>) {
        let Operate { operation, reply } = admitted.into_inner();
        let leaves = matches!(operation, Operation::Leave);
        self.subscriptions.operate(self.member, operation, reply);
        if leaves {
            ctx.stop();
        }
    }
}

fn ended() -> Failure {
    Failure::new(ErrorCode::NotSubscribed, "the subscription has ended")
}

impl LocalHandle {
    /// Asks something of the subscription and waits for the answer.
    pub async fn operate(&self, operation: Operation) -> Replied {
        let (reply, answer) = Reply::to_caller(ErrorCode::AckFailed);
        let bytes = operation.size();
        self.actor
            .offer(Operate { operation, reply }, bytes)
            .map_err(|(rejected, _)| match rejected {
                Rejected::Full => {
                    Failure::new(ErrorCode::Overloaded, "too much waits for this subscription").retry_after(100)
                }
                Rejected::Closed => ended(),
            })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// The same without the answer, for where nobody can wait.
    pub fn tell(&self, operation: Operation) {
        let (reply, _) = Reply::to_caller(ErrorCode::AckFailed);
        let bytes = operation.size();
        let _ = self.actor.offer(Operate { operation, reply }, bytes);
    }

    /// An event was taken out of the news: its room is free.
    pub fn taken(&self, bytes: usize) {
        self.backlog.room().give_back(bytes);
        if self.wanting.load(Ordering::Acquire) && self.wanting.swap(false, Ordering::AcqRel) {
            self.actor.post(RoomFreed);
        }
    }
}
