//! `GET /topics`, `DELETE /topics/{topic}`.

use actix_web::{HttpResponse, delete, get, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::InPath;
use super::publish::TopicInPath;
use crate::actors::shared::Shared;
use crate::auth::Action;
use crate::config::Limit;
use crate::domain::TopicName;
use crate::operations::{self, TopicReport};

/// Nothing more to say.
#[derive(Serialize, ToSchema)]
pub(super) struct Done {}

/// All topics that the caller may subscribe to.
#[derive(Serialize, ToSchema)]
struct Topics {
    /// By name.
    topics: Vec<Topic>,
}

/// A topic.
#[derive(Serialize, ToSchema)]
struct Topic {
    #[schema(example = "orders")]
    topic: String,
    /// The lowest seq that is kept; `tail` + 1 where none is.
    first: u64,
    /// The highest seq.
    tail: u64,
    /// How many events are kept.
    events: u64,
    /// The bytes of their JSON.
    bytes: u64,
    /// How many events are published to it in a second, over the last 10 s.
    rate: f64,
    /// How fast it may be published to: a bucket, or `off`.
    limit: RateLimit,
    retention: Kept,
    partitions: u32,
}

/// A token bucket, or `off`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum RateLimit {
    Off(&'static str),
    Bucket { capacity: u32, refill_per_sec: f64 },
}

/// What a topic keeps: what is not named is not bounded.
#[derive(Serialize, ToSchema)]
struct Kept {
    /// For how long, in milliseconds from its arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    age_ms: Option<u64>,
    /// How many events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    count: Option<u64>,
    /// How many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bytes: Option<u64>,
}

impl From<TopicReport> for Topic {
    fn from(report: TopicReport) -> Self {
        let TopicReport {
            topic,
            state,
            rate,
            limit,
            retention,
        } = report;
        Topic {
            topic: topic.to_string(),
            first: state.first,
            tail: state.tail,
            events: state.events,
            bytes: state.bytes,
            rate: (rate * 10.0).round() / 10.0,
            limit: match limit {
                Limit::Off => RateLimit::Off("off"),
                Limit::Bucket(bucket) => RateLimit::Bucket {
                    capacity: bucket.capacity,
                    refill_per_sec: bucket.refill_per_sec,
                },
            },
            retention: Kept {
                age_ms: retention.age_ms,
                count: retention.count,
                bytes: retention.bytes,
            },
            partitions: state.partitions,
        }
    }
}

/// The topics that the caller may subscribe to.
#[utoipa::path(
    tag = "operations",
    security(("bearer" = ["subscribe"])),
    responses((status = 200, description = "the topics, by name", body = Topics))
)]
#[get("/topics")]
pub(super) async fn topics(caller: Caller, shared: web::Data<Shared>) -> Result<HttpResponse, Refusal> {
    caller.is_served()?;
    let may_see = |topic: &TopicName| caller.identity.check(Action::Subscribe, topic, None).is_ok();
    let reports = operations::topic_reports(&shared, may_see).await.map_err(Refusal)?;
    let topics = reports.into_iter().map(Topic::from).collect();
    Ok(HttpResponse::Ok().json(Topics { topics }))
}

/// Deletes a topic with its events and groups. Its dead letters are a topic of their own.
#[utoipa::path(
    tag = "operations",
    params(TopicInPath),
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "it is gone", body = Done),
        (status = 404, description = "there is no such topic", body = Problem),
        (status = 409, description = "somebody is subscribed", body = Problem),
    )
)]
#[delete("/topics/{topic}")]
pub(super) async fn delete_topic(
    caller: Caller,
    InPath(TopicInPath { topic }): InPath<TopicInPath>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Admin, &topic)?;
    operations::delete_topic(&shared, &topic).await.map_err(Refusal)?;
    tracing::info!(%topic, by = %caller.name(), "a topic was deleted over HTTP");
    Ok(HttpResponse::Ok().json(Done {}))
}
