//! What each listener serves: all paths on the gateway's port, history alone on the replay port.

use std::net::SocketAddr;
use std::sync::OnceLock;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{AppConfig, ResourceDef, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, ContentType};
use actix_web::middleware::Next;
use actix_web::{Error, HttpRequest, HttpResponse, get, web};
use bytes::Bytes;
use utoipa_actix_web::service_config::ServiceConfig;

use super::super::refusal::error;
use super::describe::{describe, methods};

/// What one listener serves.
struct Surface {
    /// Its description, as JSON.
    description: Bytes,
    /// Each path with its methods.
    paths: Vec<(ResourceDef, Vec<&'static str>)>,
}

impl Surface {
    fn new(routes: fn(&mut ServiceConfig<'_>)) -> Surface {
        let described = describe(routes);
        let paths = &described.paths.paths;
        Surface {
            paths: paths
                .iter()
                .map(|(path, item)| (ResourceDef::new(path.as_str()), methods(item)))
                .collect(),
            // Plain data: making JSON of it cannot fail.
            description: serde_json::to_vec(&described).unwrap_or_default().into(),
        }
    }

    /// The methods of the path that a request names, where there is one.
    fn methods(&self, path: &str) -> Option<&[&'static str]> {
        let found = self.paths.iter().find(|(resource, _)| resource.is_match(path));
        found.map(|(_, methods)| methods.as_slice())
    }
}

/// The surfaces of a gateway's listeners.
pub(in crate::server) struct Surfaces {
    gateway: Surface,
    history: Surface,
    /// Where the replay port listens, once it does.
    replay_address: OnceLock<SocketAddr>,
}

impl Surfaces {
    pub(in crate::server) fn new() -> Surfaces {
        Surfaces {
            gateway: Surface::new(super::gateway),
            history: Surface::new(super::history),
            replay_address: OnceLock::new(),
        }
    }

    /// History is served here; to be said before the listener runs.
    pub(in crate::server) fn set_replay_address(&self, address: SocketAddr) {
        let _ = self.replay_address.set(address);
    }

    fn of(&self, listener: &AppConfig) -> &Surface {
        if self.replay_address.get() == Some(&listener.local_addr()) {
            &self.history
        } else {
            &self.gateway
        }
    }
}

/// Hides the paths that a listener does not serve.
pub(in crate::server) async fn only_what_is_served_here(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let served = request
        .app_data::<web::Data<Surfaces>>()
        .is_none_or(|surfaces| surfaces.of(request.app_config()).methods(request.path()).is_some());
    if served {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    }
    Ok(request.into_response(not_found()))
}

/// The answer where no path, or no method of one, takes a request.
pub(in crate::server) async fn nothing_here(request: HttpRequest, surfaces: web::Data<Surfaces>) -> HttpResponse {
    match surfaces.of(request.app_config()).methods(request.path()) {
        Some(methods) => {
            let methods = methods.join(", ");
            let text = format!("this path takes {methods}");
            let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &text);
            if let Ok(allow) = methods.parse() {
                answer.headers_mut().insert(ALLOW, allow);
            }
            answer
        }
        None => not_found(),
    }
}

fn not_found() -> HttpResponse {
    error(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
}

/// The description of all paths of this port.
#[utoipa::path(tag = "gateway", security(()), responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
#[get("/openapi.json")]
pub(super) async fn openapi(request: HttpRequest, surfaces: web::Data<Surfaces>) -> HttpResponse {
    let description = surfaces.of(request.app_config()).description.clone();
    HttpResponse::Ok().content_type(ContentType::json()).body(description)
}
