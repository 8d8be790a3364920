//! `GET /latest-by-key`: the newest event of a key.

use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, get, web};
use utoipa::IntoParams;

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::replay::EventObject;
use super::{FromParams, Params, Query};
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::auth::Action;
use crate::domain::TopicName;
use crate::protocol::{ErrorCode, Failure, limits};

/// Which key.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LatestParams {
    /// The topic.
    #[param(value_type = String, example = "orders")]
    topic: TopicName,
    /// The key.
    #[param(value_type = String, example = "customer-7", min_length = 1, max_length = 512)]
    key: Box<str>,
}

impl FromParams for LatestParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(LatestParams {
            topic: params.topic("topic")?,
            key: params
                .text("key", 1..=limits::KEY)?
                .ok_or_else(|| Failure::new(ErrorCode::BadRequest, "key: missing"))?,
        })
    }
}

/// The event with the highest `seq` of a key, tombstone or not.
#[utoipa::path(
    tag = "history",
    params(LatestParams),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "the event", body = EventObject),
        (status = 404, description = "the topic has no event of this key, or no longer", body = Problem),
    )
)]
#[get("/latest-by-key")]
pub(super) async fn latest_by_key(
    caller: Caller,
    Query(params): Query<LatestParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    let LatestParams { topic, key } = params;
    caller.may(Action::Subscribe, &topic)?;
    let found = within_deadline(shared.store.newest_by_key(&topic, &key))
        .await
        .map_err(Refusal)?;
    let event = found.ok_or_else(|| {
        let msg = format!("key: {topic} has no event of the key {key:?}, or no longer");
        Refusal(Failure::new(ErrorCode::NotFound, msg))
    })?;
    Ok(HttpResponse::Ok()
        .content_type(ContentType::json())
        .body(event.json.clone()))
}
