//! `POST /dlq/{topic}/replay`: dead letters, published again.

use actix_web::{HttpResponse, post, web};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::publish::TopicInPath;
use super::{FromParams, InPath, Params, Query};
use crate::actors::shared::Shared;
use crate::auth::Action;
use crate::operations::{self, Replayed};
use crate::protocol::Failure;

/// The most dead letters of one request: it is answered when they are done.
const LIMIT_MAX: u64 = 1_000;

/// How many.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReplayLettersParams {
    /// The most dead letters to publish again: 1,000 where it is not given.
    #[param(value_type = Option<u64>, minimum = 1, maximum = 1000, nullable = false)]
    limit: u64,
}

impl FromParams for ReplayLettersParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(ReplayLettersParams {
            limit: params.integer("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_MAX),
        })
    }
}

/// What was done.
#[derive(Serialize, ToSchema)]
struct ReplayedLetters {
    /// How many originals were published again.
    replayed: u64,
    /// How many could not be, because the dead letter has not the payload.
    skipped: u64,
    /// How many dead letters are left.
    left: u64,
}

/// Publishes the originals of a topic's dead letters again to the topic, each once however often it is called: a group of the
/// dead letters' topic remembers. The new event's `caused_by` names the dead letter.
#[utoipa::path(
    tag = "operations",
    params(TopicInPath, ReplayLettersParams),
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "how many were published", body = ReplayedLetters),
        (status = 409, description = "somebody is connected as a member of the group that remembers", body = Problem),
    )
)]
#[post("/dlq/{topic}/replay")]
pub(super) async fn replay_dead_letters(
    caller: Caller,
    InPath(TopicInPath { topic }): InPath<TopicInPath>,
    Query(params): Query<ReplayLettersParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Admin, &topic)?;
    let done = operations::replay_dead_letters(&shared, &topic, params.limit).await;
    let Replayed {
        replayed,
        skipped,
        left,
    } = done.map_err(Refusal)?;
    tracing::info!(%topic, replayed, skipped, left, by = %caller.name(), "dead letters were published again");
    Ok(HttpResponse::Ok().json(ReplayedLetters {
        replayed,
        skipped,
        left,
    }))
}
