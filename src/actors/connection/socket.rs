//! ConnectionActor: one for each WebSocket. The only module that knows actix-web-actors.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use actix::prelude::*;
use actix_web::{HttpRequest, HttpResponse, web};
use actix_web_actors::ws::{self, WebsocketContext};
use bytestring::ByteString;

use super::backlog::{Backlog, Cut};
use super::frame_guard::{Ending, FrameGuard, Verdict};
use super::paced_body::PacedBody;
use super::peer::PeerSocket;
use super::rights::WaitingAuth;
use super::session::Session;
use super::watchdog::cut_off;
use super::{ConnectionHandle, Outlet};
use crate::actors::handle::post_to;
use crate::actors::limiter::retry_after_ms;
use crate::actors::messages::{Answers, CheckRights, Deliver, EndSubscription, FeedLost, GoAway, WantCredit};
use crate::actors::shared::Shared;
use crate::domain::group::MemberId;
use crate::protocol::CloseCode;

/// How long a subscription that was lost waits before it is tried again.
const REJOIN_AGAIN: Duration = Duration::from_millis(200);
/// How many pings a peer may leave unanswered.
const PINGS_MISSED_MAX: u32 = 2;
/// How often the end of a token is looked for at least: the machine's clock may be set meanwhile.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// A WebSocket, and what it sends and receives.
pub struct ConnectionActor {
    shared: Arc<Shared>,
    number: u64,
    backlog: Arc<Backlog>,
    /// Why no more frames come.
    verdict: Verdict,
    client: IpAddr,
    /// Set in `started`, before any frame.
    session: Option<Session>,
    /// Fragments of a message that is not complete.
    fragments: Vec<u8>,
    /// Whether the fragments are text.
    fragments_text: bool,
    pings_missed: u32,
    /// Whether publishes will be flushed at the end of this turn.
    flushing: bool,
    /// Whether a timer waits for a push token.
    pacing: bool,
    /// The timer that looks whether the token has expired.
    expiry: Option<SpawnHandle>,
}

/// Answers an upgrade with a WebSocket.
pub fn upgrade(
    request: &HttpRequest,
    payload: web::Payload,
    shared: Arc<Shared>,
    client: IpAddr,
) -> Result<HttpResponse, actix_web::Error> {
    let mut response = ws::handshake(request)?;
    let frame_bytes = shared.live.limits().frame_bytes;
    let socket = request.conn_data::<Arc<PeerSocket>>().and_then(|peer| peer.take());
    let backlog = Backlog::new(shared.config.gateway.write_buffer, socket);
    let (number, verdict) = (shared.next_number(), Verdict::default());
    let actor = ConnectionActor {
        number,
        shared: shared.clone(),
        client,
        backlog: backlog.clone(),
        verdict: verdict.clone(),
        session: None,
        fragments: Vec::new(),
        fragments_text: false,
        pings_missed: 0,
        flushing: false,
        pacing: false,
        expiry: None,
    };
    let guarded = FrameGuard::new(payload, frame_bytes, verdict);
    let codec = actix_http::ws::Codec::new().max_size(frame_bytes);
    let frames = WebsocketContext::with_codec(actor, guarded, codec);
    let body = PacedBody::new(frames, number, backlog, shared.clone(), shared.metrics.ws_connections());
    Ok(response.streaming(body))
}

/// The way to the actor, for the others.
struct Socket {
    actor: Addr<ConnectionActor>,
    number: u64,
    shared: Weak<Shared>,
}

impl Outlet for Socket {
    fn answers(&self, answers: Answers) {
        post_to(&self.actor, answers);
    }

    fn deliver(&self, events: Deliver) {
        post_to(&self.actor, events);
    }

    fn want(&self, want: WantCredit) {
        post_to(&self.actor, want);
    }

    fn end(&self, end: EndSubscription) {
        post_to(&self.actor, end);
    }

    fn go_away(&self, away: GoAway) {
        post_to(&self.actor, away);
    }

    fn check_rights(&self) {
        post_to(&self.actor, CheckRights);
    }

    fn feed_lost(&self, lost: FeedLost) {
        post_to(&self.actor, lost);
    }

    fn over_buffer(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        if let Some(connection) = shared.connections.get(self.number) {
            cut_off(&shared, &connection, Cut::WriteBuffer);
        }
    }

    fn is_open(&self) -> bool {
        self.actor.connected()
    }
}

type Ctx = WebsocketContext<ConnectionActor>;

/// Grants credit again when the socket took events. An actor's futures are all polled whenever it is.
struct GrantWhenWritten(Arc<Backlog>);

impl ActorFuture<ConnectionActor> for GrantWhenWritten {
    type Output = ();

    fn poll(self: Pin<&mut Self>, actor: &mut ConnectionActor, ctx: &mut Ctx, _: &mut Context<'_>) -> Poll<()> {
        if self.0.take_freed() {
            actor.grant_credit(ctx);
        }
        Poll::Pending
    }
}

/// Publishes are flushed: at the end of a turn, after all frames that came in together.
#[derive(Message)]
#[rtype(result = "()")]
struct FlushPublishes;

/// A lost subscription is tried again.
#[derive(Message)]
#[rtype(result = "()")]
struct Rejoin(MemberId);

impl ConnectionActor {
    /// Does something with the session, then writes what came of it and grants credit.
    fn turn(&mut self, ctx: &mut Ctx, act: impl FnOnce(&mut Session)) {
        let Some(session) = &mut self.session else { return };
        act(session);
        let mut bytes = 0;
        for frame in session.out.drain(..) {
            bytes += frame.len();
            ctx.text(ByteString::from(frame));
        }
        let counted = std::mem::take(&mut session.counted);
        let answers = bytes - counted.event_frames;
        self.backlog.encoded(counted.answers_sent, answers, counted.events);
        for member in session.rejoin_later.drain(..) {
            ctx.notify_later(Rejoin(member), REJOIN_AGAIN);
        }
        if session.has_publishes() && !self.flushing {
            self.flushing = true;
            ctx.notify(FlushPublishes);
        }
        let (waiting, renewed) = (session.waiting_auth.take(), session.take_renewed());
        if let Some(auth) = waiting {
            Self::wait_for_auth(auth, ctx);
        }
        if renewed {
            self.watch_expiry(ctx);
        }
        self.grant_credit(ctx);
    }

    /// What comes after an AUTH waits for its rights.
    fn wait_for_auth(auth: WaitingAuth, ctx: &mut Ctx) {
        ctx.wait(
            actix::fut::wrap_future(auth).map(|(result, corr), actor: &mut Self, ctx| {
                actor.turn(ctx, |session| session.authenticated(result, corr.as_ref()));
            }),
        );
    }

    /// Ends the connection when its token expires; looks again where the token was renewed or the clock was set.
    fn watch_expiry(&mut self, ctx: &mut Ctx) {
        if let Some(timer) = self.expiry.take() {
            ctx.cancel_future(timer);
        }
        let Some(left) = self.session.as_ref().and_then(Session::time_left) else {
            return;
        };
        if left.is_zero() {
            return self.end_rights("expired", "the token has expired", ctx);
        }
        self.expiry = Some(ctx.run_later(left.min(EXPIRY_LOOK), |actor, ctx| actor.watch_expiry(ctx)));
    }

    /// Ends the connection where what let its client in is no longer in force.
    fn check_rights(&mut self, ctx: &mut Ctx) {
        if self.session.as_ref().is_some_and(Session::is_taken_back) {
            self.end_rights("revoked", "the token was taken back", ctx);
        }
    }

    /// The end of a client's rights; its leases do not count.
    fn end_rights(&mut self, reason: &'static str, why: &str, ctx: &mut Ctx) {
        if let Some(session) = &mut self.session {
            session.end_uncounted();
        }
        self.shared.metrics.connection_cut(reason);
        self.close(CloseCode::Unauthorized, why, ctx);
    }

    fn grant_credit(&mut self, ctx: &mut Ctx) {
        if self.pacing {
            return;
        }
        let wait = self.session.as_mut().and_then(Session::grant_credit);
        let at_ms = |wait| self.shared.clock.now_ms().saturating_add(retry_after_ms(wait));
        self.backlog.set_token_at(wait.map(at_ms));
        let Some(wait) = wait else { return };
        self.pacing = true;
        ctx.run_later(wait, |actor, ctx| {
            actor.pacing = false;
            actor.grant_credit(ctx);
        });
    }

    fn close(&mut self, code: CloseCode, why: &str, ctx: &mut Ctx) {
        ctx.close(Some(ws::CloseReason {
            code: ws::CloseCode::Other(code.as_u16()),
            description: Some(why.to_owned()),
        }));
        self.session = None;
        ctx.stop();
    }

    fn ping(&mut self, ctx: &mut Ctx) {
        if self.pings_missed >= PINGS_MISSED_MAX {
            tracing::info!(connection = self.number, "a peer did not answer pings");
            self.shared.metrics.connection_cut("silent");
            ctx.terminate();
            return;
        }
        self.pings_missed += 1;
        ctx.ping(b"");
        // An issuer that takes a key back tells nobody.
        self.check_rights(ctx);
    }

    fn on_continuation(&mut self, item: actix_http::ws::Item, ctx: &mut Ctx) {
        use actix_http::ws::Item;
        let (bytes, first, last) = match item {
            Item::FirstText(bytes) => {
                self.fragments_text = true;
                (bytes, true, false)
            }
            Item::FirstBinary(bytes) => {
                self.fragments_text = false;
                (bytes, true, false)
            }
            Item::Continue(bytes) => (bytes, false, false),
            Item::Last(bytes) => (bytes, false, true),
        };
        if first {
            self.fragments.clear();
        }
        self.fragments.extend_from_slice(&bytes);
        if !last {
            return;
        }
        let message = std::mem::take(&mut self.fragments);
        match (self.fragments_text, String::from_utf8(message)) {
            (true, Ok(text)) => self.turn(ctx, |session| session.on_text(&text)),
            (true, Err(_)) => self.close(CloseCode::InvalidData, "text is not UTF-8", ctx),
            (false, _) => self.turn(ctx, Session::on_binary),
        }
    }
}

impl Actor for ConnectionActor {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let socket = Socket {
            actor: ctx.address(),
            number: self.number,
            shared: Arc::downgrade(&self.shared),
        };
        let handle =
            ConnectionHandle::with_backlog(self.number, Some(self.client), Arc::new(socket), self.backlog.clone());
        if !self
            .shared
            .connections
            .add(&handle, self.shared.config.gateway.max_connections)
        {
            self.shared.metrics.connection_cut("too_many");
            return self.close(CloseCode::TryAgainLater, "too many connections", ctx);
        }
        self.shared.metrics.ws_connections().inc();
        let session = Session::new(self.shared.clone(), handle, self.client);
        if !session.is_authenticated() {
            ctx.run_later(self.shared.config.gateway.auth_timeout, |actor, ctx| {
                if actor
                    .session
                    .as_ref()
                    .is_some_and(|session| !session.is_authenticated())
                {
                    actor.close(CloseCode::Unauthorized, "no AUTH in time", ctx);
                }
            });
        }
        self.session = Some(session);
        ctx.spawn(GrantWhenWritten(self.backlog.clone()));
        ctx.run_interval(self.shared.timing.ping, Self::ping);
    }

    fn stopped(&mut self, _: &mut Ctx) {
        self.session = None;
        self.shared
            .supervision
            .ended("connection", &format!("connection {}", self.number));
    }
}

impl StreamHandler<Result<ws::Message, ws::ProtocolError>> for ConnectionActor {
    fn handle(&mut self, message: Result<ws::Message, ws::ProtocolError>, ctx: &mut Ctx) {
        match message {
            Ok(ws::Message::Text(text)) => self.turn(ctx, |session| session.on_text(&text)),
            Ok(ws::Message::Binary(_)) => self.turn(ctx, Session::on_binary),
            Ok(ws::Message::Continuation(item)) => self.on_continuation(item, ctx),
            Ok(ws::Message::Ping(data)) => ctx.pong(&data),
            Ok(ws::Message::Pong(_)) => self.pings_missed = 0,
            Ok(ws::Message::Close(reason)) => {
                ctx.close(reason);
                self.session = None;
                ctx.stop();
            }
            Ok(ws::Message::Nop) => {}
            // The guard lets nothing else through that the codec would refuse: what is left is text that is not UTF-8,
            // a close that is none, and a peer that is gone.
            Err(ws::ProtocolError::Io(_)) if self.verdict.get() == Some(&Ending::Lost) => ctx.terminate(),
            Err(ws::ProtocolError::Io(_)) => self.close(CloseCode::InvalidData, "text is not UTF-8", ctx),
            Err(error) => self.close(CloseCode::ProtocolError, &error.to_string(), ctx),
        }
    }

    fn finished(&mut self, ctx: &mut Ctx) {
        match self.verdict.get() {
            Some(Ending::Refused(code, why)) => self.close(*code, why, ctx),
            _ => ctx.stop(),
        }
    }
}

impl Handler<FlushPublishes> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, _: FlushPublishes, ctx: &mut Ctx) {
        self.flushing = false;
        self.turn(ctx, Session::flush);
    }
}

impl Handler<Answers> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, answers: Answers, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.on_answers(answers));
    }
}

impl Handler<Deliver> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, deliver: Deliver, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.on_deliver(deliver));
    }
}

impl Handler<WantCredit> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, want: WantCredit, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.on_want(want));
    }
}

impl Handler<EndSubscription> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, end: EndSubscription, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.on_end(&end));
    }
}

impl Handler<Rejoin> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, rejoin: Rejoin, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.rejoin(rejoin.0));
    }
}

impl Handler<FeedLost> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, lost: FeedLost, ctx: &mut Ctx) {
        self.turn(ctx, |session| session.on_feed_lost(lost));
    }
}

impl Handler<CheckRights> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, _: CheckRights, ctx: &mut Ctx) {
        self.check_rights(ctx);
    }
}

impl Handler<GoAway> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, away: GoAway, ctx: &mut Ctx) {
        if let (Some(session), CloseCode::GoingAway) = (&mut self.session, away.0) {
            session.end_uncounted();
        }
        self.close(away.0, "the gateway ends this connection", ctx);
    }
}
