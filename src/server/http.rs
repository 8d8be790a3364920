//! The HTTP side of the gateway's port: the way to the WebSocket, and how the gateway is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::UPGRADE;
use actix_web::{HttpRequest, HttpResponse, web};

use super::caller::Caller;
use super::client_address::client_address;
use super::refusal::Refusal;
use crate::actors::connection;
use crate::actors::shared::Shared;
use crate::actors::store::STORE;
use crate::telemetry::METRICS_CONTENT_TYPE;

/// How long the store may take to say that it is there.
const READY_DEADLINE: Duration = Duration::from_secs(2);

/// All paths.
pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/ws", web::get().to(websocket))
        .route("/", web::get().to(websocket))
        .route("/healthz", web::get().to(healthz))
        .route("/readyz", web::get().to(readyz))
        .route("/metrics", web::get().to(metrics))
        .default_service(web::to(not_found));
}

async fn websocket(request: HttpRequest, payload: web::Payload, shared: web::Data<Shared>) -> HttpResponse {
    if !request.headers().contains_key(UPGRADE) {
        return error(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade_required",
            "this path is a WebSocket: ask for an upgrade",
        );
    }
    let shared: Arc<Shared> = shared.into_inner();
    if shared.is_draining() {
        return error(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "the gateway is going down",
        );
    }
    let client = client_address(&request, &shared.config.gateway.trusted_proxies);
    connection::upgrade(&request, payload, shared, client).unwrap_or_else(|failed| failed.error_response())
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({"status": "ok"}))
}

async fn readyz(shared: web::Data<Shared>) -> HttpResponse {
    if shared.is_draining() {
        return error(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "the gateway is going down",
        );
    }
    let stalled = shared.store_stalled.load(Ordering::Relaxed);
    let ready = match tokio::time::timeout(READY_DEADLINE, shared.store.ready()).await {
        _ if shared.supervision.may_start(STORE).is_err() => Err("the store's actor failed too often".to_owned()),
        _ if stalled => Err("the store has not answered a commit in time".to_owned()),
        Ok(ready) => ready.map_err(|error| error.to_string()),
        Err(_) => Err("the store does not answer".to_owned()),
    };
    match ready {
        Ok(()) => match shared.supervision.barred() {
            none if none.is_empty() => HttpResponse::Ok().json(serde_json::json!({"status": "ready"})),
            // The others go on: a gateway with one bad topic is worth its traffic.
            barred => HttpResponse::Ok().json(serde_json::json!({"status": "ready", "unavailable": barred})),
        },
        Err(why) => error(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", &why),
    }
}

async fn metrics(caller: Caller, shared: web::Data<Shared>) -> Result<HttpResponse, Refusal> {
    caller.0.check_metrics().map_err(Refusal)?;
    Ok(HttpResponse::Ok()
        .content_type(METRICS_CONTENT_TYPE)
        .body(shared.metrics.encode()))
}

async fn not_found() -> HttpResponse {
    error(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
}

/// `{error, code}`, as every error over HTTP.
fn error(status: StatusCode, code: &str, text: &str) -> HttpResponse {
    HttpResponse::build(status).json(serde_json::json!({"error": text, "code": code}))
}
