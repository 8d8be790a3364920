//! The door of every path: no web page reaches a gateway that did not invite it, and no token travels in an address.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, ResponseError, web};

use super::origin::{Relation, host_allowed, relation};
use super::refusal::Refusal;
use crate::actors::shared::Shared;
use crate::config::Gateway;
use crate::protocol::{ErrorCode, Failure};

/// For probes, which know the gateway by any name and get nothing but how it is.
pub(super) const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// Names under which tokens are put into addresses, from where they get into logs and histories.
const TOKEN_NAMES: [&str; 2] = ["token", "access_token"];
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// How long a browser may keep what a preflight said, in seconds.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("600");
const EXPOSED: HeaderValue = HeaderValue::from_static("retry-after");

/// Refuses what must not come in; adds CORS headers for pages that were invited.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if OPEN_PATHS.contains(&request.path()) {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    }
    let invited = match request.app_data::<web::Data<Shared>>() {
        Some(shared) => admit(&request, &shared.config.gateway),
        None => Err(Failure::new(ErrorCode::StoreUnavailable, "the gateway is not set up")),
    };
    let invited = match invited {
        Ok(invited) => invited,
        Err(failure) => return Ok(request.into_response(Refusal(failure).error_response())),
    };
    let Some(origin) = invited else {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    };
    let preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight {
        let answer = preflight_answer(request.headers());
        request.into_response(answer)
    } else {
        next.call(request).await?.map_into_boxed_body()
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("origin"));
    Ok(response)
}

/// Whether a request comes in; if a page that was invited made it, that page's origin.
fn admit(request: &ServiceRequest, gateway: &Gateway) -> Result<Option<HeaderValue>, Failure> {
    if has_token(request.query_string()) {
        let text = "no token in an address: send Authorization: Bearer, or AUTH over the WebSocket";
        return Err(Failure::new(ErrorCode::BadRequest, text));
    }
    let headers = request.headers();
    // Without the header the address itself may name the host.
    let host = match single(headers, HOST) {
        Ok(Some(host)) => host.to_str().ok(),
        Ok(None) => request.uri().authority().map(|authority| authority.as_str()),
        Err(()) => None,
    };
    let host = host
        .filter(|host| host_allowed(host, &gateway.allowed_hosts))
        .ok_or_else(|| {
            let text = "this gateway is not served under that Host: see gateway.allowed_hosts";
            Failure::new(ErrorCode::Forbidden, text)
        })?;
    let foreign = || {
        let text = "pages of this Origin may not use the gateway: see gateway.allowed_origins";
        Failure::new(ErrorCode::Forbidden, text)
    };
    let Some(origin) = single(headers, ORIGIN).map_err(|()| foreign())? else {
        return Ok(None);
    };
    match relation(origin.to_str().unwrap_or_default(), host, &gateway.allowed_origins) {
        Relation::Same => Ok(None),
        Relation::Invited => Ok(Some(origin.clone())),
        Relation::Foreign => Err(foreign()),
    }
}

/// A header that may be there once.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, ()> {
    let mut all = headers.get_all(name);
    match (all.next(), all.next()) {
        (_, Some(_)) => Err(()),
        (value, None) => Ok(value),
    }
}

fn has_token(query: &str) -> bool {
    // Only the names are looked at; what cannot be read as pairs is its path's to refuse.
    let Ok(pairs) = web::Query::<Vec<(String, String)>>::from_query(query) else {
        return false;
    };
    pairs
        .iter()
        .any(|(name, _)| TOKEN_NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
}

fn preflight_answer(headers: &HeaderMap) -> HttpResponse {
    let mut answer = HttpResponse::NoContent();
    answer.insert_header((ACCESS_CONTROL_ALLOW_METHODS, METHODS));
    answer.insert_header((ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS));
    // Headers of events have names of the client's choice, so there is no list of them.
    if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, asked.clone()));
    }
    answer.finish()
}
