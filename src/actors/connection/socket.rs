//! ConnectionActor: one for each WebSocket. The only module that knows actix-web-actors.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_web::{HttpRequest, HttpResponse, web};
use actix_web_actors::ws::{self, WebsocketContext};
use bytestring::ByteString;

use super::rights::WaitingAuth;
use super::session::Session;
use super::{ConnectionHandle, Outlet};
use crate::actors::handle::post_to;
use crate::actors::messages::{Answers, Deliver, EndSubscription, GoAway, WantCredit};
use crate::actors::shared::Shared;
use crate::protocol::CloseCode;

/// How often the peer is pinged.
const PING: Duration = Duration::from_secs(15);
/// How many pings a peer may leave unanswered.
const PINGS_MISSED_MAX: u32 = 2;
/// How often the end of a token is looked for at least: the machine's clock may be set meanwhile.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// A WebSocket. See the [module](self).
pub struct ConnectionActor {
    shared: Arc<Shared>,
    number: u64,
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
    let frame_bytes = shared.config.limits.frame_bytes;
    let actor = ConnectionActor {
        number: shared.next_number(),
        shared,
        client,
        session: None,
        fragments: Vec::new(),
        fragments_text: false,
        pings_missed: 0,
        flushing: false,
        pacing: false,
        expiry: None,
    };
    ws::WsResponseBuilder::new(actor, request, payload)
        .frame_size(frame_bytes)
        .start()
}

/// The way to the actor, for the others.
struct Socket(Addr<ConnectionActor>);

impl Outlet for Socket {
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

    fn is_open(&self) -> bool {
        self.0.connected()
    }
}

type Ctx = WebsocketContext<ConnectionActor>;

/// Publishes are flushed: at the end of a turn, after all frames that came in together.
#[derive(Message)]
#[rtype(result = "()")]
struct FlushPublishes;

impl ConnectionActor {
    /// Does something with the session, then writes what came of it and grants credit.
    fn turn(&mut self, ctx: &mut Ctx, act: impl FnOnce(&mut Session)) {
        let Some(session) = &mut self.session else { return };
        act(session);
        for frame in session.out.drain(..) {
            ctx.text(ByteString::from(frame));
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
            if let Some(session) = &mut self.session {
                session.end_uncounted();
            }
            self.shared.metrics.connection_cut("expired");
            return self.close(CloseCode::Unauthorized, "the token has expired", ctx);
        }
        self.expiry = Some(ctx.run_later(left.min(EXPIRY_LOOK), |actor, ctx| actor.watch_expiry(ctx)));
    }

    fn grant_credit(&mut self, ctx: &mut Ctx) {
        if self.pacing {
            return;
        }
        let Some(wait) = self.session.as_mut().and_then(Session::grant_credit) else {
            return;
        };
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
        if self.fragments.len() + bytes.len() > self.shared.config.limits.frame_bytes {
            return self.close(CloseCode::TooBig, "frame over limits.frame_bytes", ctx);
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
        // A quarter may wait for the actor, and as much may have left it for the socket; the rest is for answers.
        let room = self.shared.config.gateway.write_buffer / 4;
        let handle = ConnectionHandle::new(self.number, Arc::new(Socket(ctx.address())), room);
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
        ctx.run_interval(PING, Self::ping);
    }

    fn stopped(&mut self, _: &mut Ctx) {
        self.session = None;
        if self.shared.connections.remove(self.number) {
            self.shared.metrics.ws_connections().dec();
        }
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
            Err(ws::ProtocolError::Overflow) => self.close(CloseCode::TooBig, "frame over limits.frame_bytes", ctx),
            Err(ws::ProtocolError::Io(error))
                if error.get_ref().is_some_and(|inner| inner.is::<std::str::Utf8Error>()) =>
            {
                self.close(CloseCode::InvalidData, "text is not UTF-8", ctx);
            }
            Err(ws::ProtocolError::Io(_)) => ctx.terminate(),
            Err(error) => self.close(CloseCode::ProtocolError, &error.to_string(), ctx),
        }
    }

    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
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

impl Handler<GoAway> for ConnectionActor {
    type Result = ();

    fn handle(&mut self, away: GoAway, ctx: &mut Ctx) {
        if let Some(session) = &mut self.session {
            session.end_uncounted();
        }
        self.close(away.0, "the gateway ends this connection", ctx);
    }
}
