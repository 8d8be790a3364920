//! How the gateway is: for probes, and in figures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::ACCEPT;
use actix_web::{HttpRequest, HttpResponse, get, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal, error, going_down};
use crate::actors::shared::Shared;
use crate::actors::store::STORE;
use crate::operations::refresh_gauges;
use crate::telemetry::{METRICS_CONTENT_TYPE, PLAIN_METRICS_CONTENT_TYPE};

/// How long the store may take to say that it is there.
const READY_DEADLINE: Duration = Duration::from_secs(2);

/// How a gateway is.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `ok`, or `ready`.
    status: &'static str,
    /// Topics and groups whose actors failed too often and rest for a while.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    unavailable: Vec<String>,
}

fn healthy(status: &'static str, unavailable: Vec<String>) -> HttpResponse {
    HttpResponse::Ok().json(Health { status, unavailable })
}

/// Whether the process is alive.
#[utoipa::path(tag = "gateway", security(()), responses((status = 200, description = "it is", body = Health)))]
#[get("/healthz")]
pub(super) async fn healthz() -> HttpResponse {
    healthy("ok", Vec::new())
}

/// Whether the gateway can work: its store answers.
#[utoipa::path(
    tag = "gateway",
    security(()),
    responses(
        (status = 200, description = "it can", body = Health),
        (status = 503, description = "the store does not answer, or the gateway is going down", body = Problem),
    )
)]
#[get("/readyz")]
pub(super) async fn readyz(shared: web::Data<Shared>) -> HttpResponse {
    if shared.is_draining() {
        return going_down();
    }
    let stalled = shared.store_stalled.load(Ordering::Relaxed);
    let ready = match tokio::time::timeout(READY_DEADLINE, shared.store.ready()).await {
        _ if shared.supervision.may_start(STORE).is_err() => Err("the store's actor failed too often".to_owned()),
        _ if stalled => Err("the store has not answered a commit in time".to_owned()),
        Ok(ready) => ready.map_err(|error| error.to_string()),
        Err(_) => Err("the store does not answer".to_owned()),
    };
    match ready {
        // The others go on: a gateway with one bad topic is worth its traffic.
        Ok(()) => healthy("ready", shared.supervision.barred()),
        Err(why) => error(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", &why),
    }
}

/// The gateway's figures, for Prometheus; as OpenMetrics where `Accept` names it.
#[utoipa::path(
    tag = "gateway",
    security(("bearer" = ["metrics"])),
    responses((status = 200, description = "the figures", body = String, content_type = "text/plain"))
)]
#[get("/metrics")]
pub(super) async fn metrics(
    caller: Caller,
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.identity.check_metrics().map_err(Refusal)?;
    refresh_gauges(&shared).await;
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let (kind, figures) = match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
        true => (METRICS_CONTENT_TYPE, shared.metrics.encode()),
        false => (PLAIN_METRICS_CONTENT_TYPE, shared.metrics.encode_plain()),
    };
    Ok(HttpResponse::Ok().content_type(kind).body(figures))
}
