//! The paths of HTTP. One file for each area; a path is made like this:
//!
//! - a handler with `#[utoipa::path(...)]` over `#[get("/...")]`: the first describes it, the second serves it. Only what
//!   is described can be registered in [`gateway`] or [`history`], so `/openapi.json` has every path;
//! - its `security` names the right that it needs: `(("bearer" = ["subscribe"]))`, or `(())` for everybody. The handler
//!   takes a [`Caller`](super::caller::Caller) and asks it ([`may`](super::caller::Caller::may)); a test knocks at all
//!   doors that the description names;
//! - its parameters are a struct with `IntoParams` (what is described) and [`FromParams`] (what is read), taken by [`Query`]
//!   or [`InPath`]: every error names the parameter and what was expected; one that is unknown or given twice is refused;
//! - its errors are [`Refusal`](super::refusal::Refusal)s. Those that every path can give are described in one place
//!   ([`describe`]).

mod body;
mod dead_letters;
mod describe;
mod events;
mod explain;
mod export;
mod groups;
mod health;
mod latest;
mod params;
mod publish;
mod replay;
mod surface;
mod topics;
mod websocket;

use utoipa_actix_web::service_config::ServiceConfig;

pub(crate) use self::export::{EXPORT_FIRST_SEQ, EXPORT_LAST_SEQ};
pub(super) use self::params::{FromParams, InPath, Params, Query};
pub(super) use self::publish::CallerBuckets;
pub(super) use self::surface::{Surfaces, nothing_here, only_what_is_served_here};

/// All paths of the gateway's port.
pub(super) fn gateway(paths: &mut ServiceConfig<'_>) {
    history(paths);
    paths
        .service(publish::publish)
        .service(events::events)
        .service(websocket::ws)
        .service(websocket::root)
        .service(topics::topics)
        .service(topics::delete_topic)
        .service(groups::groups)
        .service(groups::cursors)
        .service(groups::lag)
        .service(groups::pause)
        .service(groups::resume)
        .service(groups::seek)
        .service(groups::delete_group)
        .service(explain::explain)
        .service(dead_letters::replay_dead_letters)
        .service(latest::latest_by_key)
        .service(health::readyz)
        .service(health::metrics);
}

/// The paths of the replay port, which the gateway's port has too.
pub(super) fn history(paths: &mut ServiceConfig<'_>) {
    paths
        .service(replay::replay)
        .service(export::export)
        .service(health::healthz)
        .service(surface::openapi);
}
