//! The way to the WebSocket.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::UPGRADE;
use actix_web::{HttpRequest, HttpResponse, get, web};

use super::super::client_address::client_address;
use super::super::refusal::{Problem, error, going_down};
use crate::actors::connection;
use crate::actors::shared::Shared;

/// Opens a WebSocket: frames of JSON, of which the first is AUTH where a token is needed.
#[utoipa::path(
    tag = "websocket",
    security(()),
    responses(
        (status = 101, description = "from here on it is a WebSocket"),
        (status = 426, description = "the request did not ask for an upgrade", body = Problem),
        (status = 503, description = "the gateway is going down", body = Problem),
    )
)]
#[get("/ws")]
pub(super) async fn ws(request: HttpRequest, payload: web::Payload, shared: web::Data<Shared>) -> HttpResponse {
    upgrade(&request, payload, shared.into_inner())
}

/// The same as /ws.
#[utoipa::path(
    tag = "websocket",
    security(()),
    responses(
        (status = 101, description = "from here on it is a WebSocket"),
        (status = 426, description = "the request did not ask for an upgrade", body = Problem),
        (status = 503, description = "the gateway is going down", body = Problem),
    )
)]
#[get("/")]
pub(super) async fn root(request: HttpRequest, payload: web::Payload, shared: web::Data<Shared>) -> HttpResponse {
    upgrade(&request, payload, shared.into_inner())
}

fn upgrade(request: &HttpRequest, payload: web::Payload, shared: Arc<Shared>) -> HttpResponse {
    if !request.headers().contains_key(UPGRADE) {
        let text = "this path is a WebSocket: ask for an upgrade";
        return error(StatusCode::UPGRADE_REQUIRED, "upgrade_required", text);
    }
    if shared.is_draining() {
        return going_down();
    }
    let client = client_address(request, &shared.config.gateway.trusted_proxies);
    connection::upgrade(request, payload, shared, client).unwrap_or_else(|failed| failed.error_response())
}
