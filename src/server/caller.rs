//! Who calls a path of HTTP: an extractor that asks the same seam as the WebSocket. Cookies never say who somebody is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{FromRequest, HttpRequest, web};

use super::client_address::client_address;
use super::refusal::{Refusal, shutting_down};
use crate::actors::shared::Shared;
use crate::auth::{Action, Identity};
use crate::domain::{GroupName, TopicName};
use crate::protocol::{ErrorCode, Failure};

/// Somebody who was let in.
pub(super) struct Caller {
    pub(super) identity: Identity,
    /// Whether the gateway takes no new work.
    draining: bool,
}

impl Caller {
    /// Whether they may do this, and whether it is still done.
    pub(super) fn may(&self, action: Action, topic: &TopicName) -> Result<(), Refusal> {
        self.may_in(action, topic, None)
    }

    /// The same, in one group.
    pub(super) fn may_in(&self, action: Action, topic: &TopicName, group: Option<&GroupName>) -> Result<(), Refusal> {
        self.is_served()?;
        self.identity.check(action, topic, group).map_err(Refusal)
    }

    /// Whether anything is still done.
    pub(super) fn is_served(&self) -> Result<(), Refusal> {
        match self.draining {
            true => Err(Refusal(shutting_down())),
            false => Ok(()),
        }
    }

    /// Who they are, for logs and for those who ask later.
    pub(super) fn name(&self) -> Box<str> {
        self.identity.subject.as_deref().unwrap_or("an operator").into()
    }
}

impl FromRequest for Caller {
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Caller, Refusal>>>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { caller(&request).await.map_err(Refusal) })
    }
}

async fn caller(request: &HttpRequest) -> Result<Caller, Failure> {
    let shared: &Arc<Shared> = request
        .app_data::<web::Data<Shared>>()
        .ok_or_else(|| Failure::new(ErrorCode::StoreUnavailable, "the gateway is not set up"))?;
    let token = bearer(request)?;
    let identity = match (token, shared.auth.anonymous()) {
        (None, Some(anonymous)) => anonymous,
        (None, None) => {
            let msg = "this needs a token: Authorization: Bearer TOKEN";
            return Err(Failure::new(ErrorCode::Unauthorized, msg));
        }
        (Some(token), _) => {
            let client = client_address(request, &shared.config.gateway.trusted_proxies);
            shared.auth.authenticate(Some(token), client).await?
        }
    };
    let draining = shared.is_draining();
    Ok(Caller { identity, draining })
}

fn bearer(request: &HttpRequest) -> Result<Option<&str>, Failure> {
    let mut lines = request.headers().get_all(AUTHORIZATION);
    let Some(line) = lines.next() else { return Ok(None) };
    let token = line.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match (token, lines.next()) {
        (Some(token), None) => Ok(Some(token)),
        _ => {
            let msg = "Authorization: expected it once, as Bearer TOKEN";
            Err(Failure::new(ErrorCode::Unauthorized, msg))
        }
    }
}
