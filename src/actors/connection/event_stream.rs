//! Server-sent events: an ephemeral subscription as the body of a response, for curl and for browsers without a library.
//!
//! It stands in the place of a socket: events come against credit and room, from the same feed as over WebSocket.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use super::credit::Credit;
use super::{Backlog, ConnectionHandle, Outlet};
use crate::actors::limiter::Limiter;
use crate::actors::messages::{
    Answers, Deliver, EndSubscription, FeedHandle, FeedLost, GoAway, Leave, Subscribe, WantCredit,
};
use crate::actors::reply::{Outcome, Reply};
use crate::actors::shared::Shared;
use crate::auth::Identity;
use crate::config::PushLimit;
use crate::domain::group::{Departure, MemberId};
use crate::domain::{StartFrom, TopicName, push_string};
use crate::protocol::{ErrorCode, Failure, SubscribeOpts};

/// How long a lost subscription waits before it is joined again.
const REJOIN_AGAIN: Duration = Duration::from_millis(200);
/// How often it is tried.
const REJOINS_MAX: u32 = 100;
/// How often the end of a token is looked for at least: the machine's clock may be set meanwhile.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);
/// Tells a browser how soon to come back, and whoever waits that the stream has begun.
const BEGINNING: &[u8] = b"retry: 1000\n\n";
/// Says that the gateway is there, and finds out whether the client is.
const HEARTBEAT: &[u8] = b":\n\n";

/// What to follow.
pub struct Follow {
    /// Whose events.
    pub topic: TopicName,
    /// From where on.
    pub from: StartFrom,
    /// Or after this seq.
    pub position: Option<u64>,
    /// Who follows.
    pub identity: Identity,
}

/// What comes from the other actors. Bounded by the credit and the room that were granted, or one of a kind.
enum Signal {
    Deliver(Deliver),
    Want(WantCredit),
    Lost(Option<u64>),
    End(Failure),
    CheckRights,
    GoAway,
}

/// The place of a socket.
struct Inlet(mpsc::UnboundedSender<Signal>);

impl Outlet for Inlet {
    // The stream asks nothing that would be answered here.
    fn answers(&self, _: Answers) {}

    fn deliver(&self, events: Deliver) {
        let _ = self.0.send(Signal::Deliver(events));
    }

    fn want(&self, want: WantCredit) {
        let _ = self.0.send(Signal::Want(want));
    }

    fn end(&self, end: EndSubscription) {
        let _ = self.0.send(Signal::End(end.failure));
    }

    fn go_away(&self, _: GoAway) {
        let _ = self.0.send(Signal::GoAway);
    }

    fn check_rights(&self) {
        let _ = self.0.send(Signal::CheckRights);
    }

    fn feed_lost(&self, lost: FeedLost) {
        let _ = self.0.send(Signal::Lost(lost.position));
    }

    fn over_buffer(&self) {}

    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}

/// A way in, and where it comes out.
pub struct Inbox {
    inlet: Arc<Inlet>,
    signals: mpsc::UnboundedReceiver<Signal>,
}

impl Inbox {
    /// What the other actors send to.
    pub fn outlet(&self) -> Arc<dyn Outlet> {
        self.inlet.clone()
    }
}

type Joining = Pin<Box<dyn Future<Output = Result<FeedHandle, Failure>>>>;

/// The events of a topic as text of the type `text/event-stream`.
pub struct EventStream {
    shared: Arc<Shared>,
    follow: Follow,
    handle: ConnectionHandle,
    backlog: Arc<Backlog>,
    member: MemberId,
    signals: mpsc::UnboundedReceiver<Signal>,
    /// None while it is lost.
    feed: Option<FeedHandle>,
    joining: Option<Joining>,
    rejoins: u32,
    credit: Credit,
    pushes: Limiter,
    /// Runs while a push waits for its token.
    pacing: Option<Pin<Box<Sleep>>>,
    heartbeat: Interval,
    /// Runs where the token ends.
    expiry: Option<Pin<Box<Sleep>>>,
    begun: bool,
    ended: bool,
}

impl EventStream {
    /// The way in of a stream that is about to begin.
    pub fn inbox() -> Inbox {
        let (sender, signals) = mpsc::unbounded_channel();
        let inlet = Arc::new(Inlet(sender));
        Inbox { inlet, signals }
    }

    /// Subscribes; ready when the topic has taken it.
    pub async fn begin(
        shared: Arc<Shared>,
        follow: Follow,
        handle: ConnectionHandle,
        backlog: Arc<Backlog>,
        inbox: Inbox,
    ) -> Result<EventStream, Failure> {
        let limits = shared.live.limits();
        let push_limit = match &limits.push {
            PushLimit::Shared => &limits.connection,
            PushLimit::Own(limit) => limit,
        };
        let ping = shared.timing.ping;
        let mut heartbeat = interval_at(Instant::now() + ping, ping);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stream = EventStream {
            pushes: Limiter::new(push_limit, shared.clock.clone()),
            heartbeat,
            member: shared.next_number(),
            signals: inbox.signals,
            shared,
            follow,
            handle,
            backlog,
            feed: None,
            joining: None,
            rejoins: 0,
            credit: Credit::default(),
            pacing: None,
            expiry: None,
            begun: false,
            ended: false,
        };
        let feed = stream.join(Duration::ZERO).await?;
        stream.joined(feed);
        stream.watch_expiry();
        Ok(stream)
    }

    /// Asks the topic for its events, after a while.
    fn join(&self, wait: Duration) -> Joining {
        let (reply, replied) = Reply::to_caller(ErrorCode::StoreUnavailable);
        let message = Subscribe {
            member: self.member,
            group: None,
            position: self.follow.position,
            opts: SubscribeOpts {
                from: self.follow.from.clone(),
                ..SubscribeOpts::default()
            },
            connection: self.handle.clone(),
            reply,
        };
        let (shared, topic) = (self.shared.clone(), self.follow.topic.clone());
        Box::pin(async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
            if let Err((failure, message)) = shared.topics.offer(&topic, &shared, message, 0) {
                message.reply.fail(failure);
            }
            match replied.await {
                Ok(Ok(Outcome::Subscribed(feed))) => Ok(feed),
                Ok(Err(failure)) => Err(failure),
                _ => Err(Failure::new(ErrorCode::StoreUnavailable, "the topic did not answer")),
            }
        })
    }

    fn joined(&mut self, feed: FeedHandle) {
        self.feed = Some(feed);
        self.rejoins = 0;
        self.credit.open(self.member);
        self.grant();
    }

    /// Grants what credit there is; where a token is missing, again when it has come.
    fn grant(&mut self) {
        if self.pacing.is_some() {
            return;
        }
        let (grants, wait) = self.credit.grant(&self.pushes, self.handle.room());
        if let Some(feed) = &self.feed {
            grants.into_iter().for_each(|grant| feed.grant(grant));
        }
        self.pacing = wait.map(|wait| Box::pin(sleep(wait)));
    }

    fn watch_expiry(&mut self) {
        let now_ms = self.shared.clock.timestamp_ms();
        let left = self
            .follow
            .identity
            .ends_ms()
            .map(|ends_ms| ends_ms.saturating_sub(now_ms));
        self.expiry = left.map(|ms| Box::pin(sleep(Duration::from_millis(ms).min(EXPIRY_LOOK))));
        if left == Some(0) {
            self.shared.metrics.connection_cut("expired");
            self.ended = true;
        }
    }

    /// Whoever fed it died: it is joined again, and its client does not notice.
    fn lost(&mut self, position: Option<u64>) {
        self.feed = None;
        self.credit.close(self.member);
        self.follow.position = position.or(self.follow.position);
        self.joining = Some(self.join(Duration::ZERO));
    }

    fn rejoined(&mut self, result: Result<FeedHandle, Failure>) -> Option<Bytes> {
        match result {
            Ok(feed) => self.joined(feed),
            Err(failure) => {
                let passing = matches!(failure.code, ErrorCode::Overloaded | ErrorCode::StoreUnavailable);
                self.rejoins += 1;
                if !passing || self.rejoins > REJOINS_MAX {
                    return Some(self.end(&failure));
                }
                self.joining = Some(self.join(REJOIN_AGAIN));
            }
        }
        None
    }

    /// The last words: why it ended.
    fn end(&mut self, failure: &Failure) -> Bytes {
        self.ended = true;
        let mut text = b"event: error\ndata: {\"error\":".to_vec();
        push_string(&mut text, &failure.msg);
        text.extend_from_slice(b",\"code\":");
        push_string(&mut text, failure.code.as_str());
        text.extend_from_slice(b"}\n\n");
        text.into()
    }

    /// Events as they are sent. Their id is their seq: it has no line break, and means something for longer than the
    /// event is kept.
    fn encode(&mut self, deliver: &Deliver) -> Bytes {
        use std::io::Write;
        let bytes: usize = deliver.pushes.iter().map(|push| push.event.json.len()).sum();
        let mut text = Vec::with_capacity(bytes + 40 * deliver.pushes.len());
        for push in &deliver.pushes {
            // Writing into memory cannot fail.
            let _ = write!(text, "id: {}\ndata: ", push.event.seq);
            text.extend_from_slice(&push.event.json);
            text.extend_from_slice(b"\n\n");
            self.follow.position = Some(push.event.seq);
        }
        self.backlog.encoded(0, 0, bytes);
        self.credit.used(self.member, deliver.pushes.len());
        text.into()
    }

    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self.signals.poll_recv(cx) {
                Poll::Ready(Some(Signal::Deliver(deliver))) => return Poll::Ready(Some(self.encode(&deliver))),
                Poll::Ready(Some(Signal::Want(want))) => {
                    self.credit.wish(want.member, want.events, want.bytes);
                    self.grant();
                }
                Poll::Ready(Some(Signal::Lost(position))) => self.lost(position),
                Poll::Ready(Some(Signal::End(failure))) => return Poll::Ready(Some(self.end(&failure))),
                Poll::Ready(Some(Signal::CheckRights)) if !self.shared.auth.vouches_for(&self.follow.identity) => {
                    self.shared.metrics.connection_cut("revoked");
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Signal::CheckRights)) => {}
                Poll::Ready(Some(Signal::GoAway) | None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// What time brings: tokens, the end of the token, a new place at the topic, heartbeats.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        let ready = |timer: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>| {
            timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
        };
        // Each one may start the next: whatever runs when this is left was polled, and wakes the stream.
        while let Some(joining) = &mut self.joining {
            let Poll::Ready(result) = joining.as_mut().poll(cx) else {
                break;
            };
            self.joining = None;
            if let Some(last) = self.rejoined(result) {
                return Some(last);
            }
        }
        while ready(&mut self.pacing, cx) {
            self.pacing = None;
            self.grant();
        }
        while !self.ended && ready(&mut self.expiry, cx) {
            self.watch_expiry();
        }
        self.heartbeat
            .poll_tick(cx)
            .is_ready()
            .then(|| Bytes::from_static(HEARTBEAT))
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if !stream.begun {
            stream.begun = true;
            return Poll::Ready(Some(Ok(Bytes::from_static(BEGINNING))));
        }
        if stream.backlog.take_freed() {
            stream.grant();
        }
        if stream.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(text) = stream.poll_signal(cx) {
            return Poll::Ready(text.map(Ok));
        }
        match stream.poll_timers(cx) {
            Some(text) => Poll::Ready(Some(Ok(text))),
            None if stream.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(feed) = self.feed.take() {
            feed.leave(Leave {
                member: self.member,
                departure: Departure::Uncounted,
                reply: None,
            });
        }
    }
}
