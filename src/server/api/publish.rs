//! `POST /publish/{topic}`: one event, for those who have no WebSocket at hand.

mod buckets;

use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, post, web};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

pub(in crate::server) use self::buckets::CallerBuckets;
use super::super::caller::Caller;
use super::super::client_address::client_address;
use super::super::refusal::{Problem, Refusal};
use super::body::Body;
use super::{FromParams, InPath, Params, Query};
use crate::actors::limiter::{Denied, retry_after_ms};
use crate::actors::messages::{Publish, PublishRequest};
use crate::actors::reply::{Outcome, Reply};
use crate::actors::shared::Shared;
use crate::actors::store::COMMIT_DEADLINE;
use crate::auth::Action;
use crate::domain::{TS_MAX, TopicName};
use crate::protocol::{Answer, Draft, ErrorCode, Failure, expected_text, limits, parse_payload};

/// What a request header begins with that becomes a header of the event.
const EVENT_HEADER: &str = "x-event-";
/// The store's actor keeps its own deadline; this one is for what it cannot see.
const ANSWER_DEADLINE: Duration = COMMIT_DEADLINE.saturating_mul(2);

/// The topic in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct TopicInPath {
    /// The topic.
    #[param(value_type = String, example = "orders", pattern = r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$", max_length = 200)]
    pub(super) topic: TopicName,
}

impl FromParams for TopicInPath {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        let topic = params.topic("topic")?;
        Ok(TopicInPath { topic })
    }
}

/// What an event has besides its payload.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PublishParams {
    /// What the event is about; decides its partition.
    #[param(value_type = Option<String>, min_length = 1, max_length = 512, nullable = false)]
    key: Option<Box<str>>,
    /// The event's id. A publish with an id that the topic has already is answered like the first one.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128, nullable = false)]
    id: Option<Box<str>>,
    /// Epoch milliseconds; the gateway's time where it is not given.
    #[param(value_type = Option<u64>, maximum = 253402300799999u64, nullable = false)]
    ts: Option<u64>,
    /// A free label; may be given 16 times.
    #[param(value_type = Option<Vec<String>>, max_items = 16, max_length = 128, nullable = false)]
    tag: Vec<Box<str>>,
}

impl FromParams for PublishParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(PublishParams {
            key: params.text("key", 1..=limits::KEY)?,
            id: params.text("id", 1..=limits::LABEL)?,
            ts: params.integer("ts", 0..=TS_MAX)?,
            tag: params.texts("tag", limits::TAGS, 0..=limits::LABEL)?,
        })
    }
}

/// Where the event stands.
#[derive(Serialize, ToSchema)]
struct Published {
    /// The event's id, the publisher's own or the gateway's.
    id: Box<str>,
    /// Its place in the topic.
    seq: u64,
}

/// Publishes one event: the body is its payload, any JSON. Request headers `x-event-<name>` become headers `<name>` of
/// the event. Answered once it is durable; with an `id` it is safe to send again.
#[utoipa::path(
    tag = "events",
    params(TopicInPath, PublishParams),
    request_body(content = serde_json::Value, content_type = "application/json", description = "the payload: any JSON"),
    security(("bearer" = ["publish"])),
    responses(
        (status = 200, description = "it is durable", body = Published),
        (status = 409, description = "the topic has this id with another payload", body = Problem),
        (status = 413, description = "the event is larger than `limits.frame_bytes` or its store allows", body = Problem),
    )
)]
#[post("/publish/{topic}")]
pub(super) async fn publish(
    caller: Caller,
    InPath(TopicInPath { topic }): InPath<TopicInPath>,
    Query(params): Query<PublishParams>,
    request: HttpRequest,
    Body(body): Body,
    shared: web::Data<Shared>,
    buckets: web::Data<CallerBuckets>,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Publish, &topic)?;
    let draft = Draft {
        id: params.id,
        ts: params.ts,
        key: params.key,
        headers: event_headers(request.headers()).map_err(Refusal)?,
        tags: params.tag,
        payload: parse_payload(&body).map_err(Refusal)?,
        ..Draft::default()
    };
    let client = client_address(&request, &shared.config.gateway.trusted_proxies);
    let limit = shared.live.limits().connection;
    let taken = buckets.renew(limit).take(caller.identity.subject.as_ref(), client);
    taken.map_err(|denied| Refusal(rate_limited(&shared, denied)))?;
    let published = send(shared, &topic, draft).await.map_err(Refusal)?;
    Ok(HttpResponse::Ok().json(published))
}

fn rate_limited(shared: &Shared, denied: Denied) -> Failure {
    shared.metrics.rate_limited("connection").inc();
    let failure = Failure::new(ErrorCode::RateLimited, "conn publish rate exceeded");
    match denied {
        Denied::Wait(wait) => failure.retry_after(retry_after_ms(wait)),
        // A bucket holds at least one.
        Denied::OverCapacity(_) => failure,
    }
}

type Headers = Vec<(Box<str>, Box<str>)>;

/// The event's headers among the request's, by name.
fn event_headers(headers: &HeaderMap) -> Result<Headers, Failure> {
    let mut found = Headers::new();
    for (name, value) in headers {
        let Some(own) = name.as_str().strip_prefix(EVENT_HEADER) else {
            continue;
        };
        let wrong = |problem: &str| Failure::new(ErrorCode::BadRequest, format!("{name}: {problem}"));
        if !(1..=limits::HEADER_NAME).contains(&own.len()) {
            let problem = expected_text(1..=limits::HEADER_NAME);
            return Err(wrong(&format!("{problem} behind {EVENT_HEADER}")));
        }
        if found.iter().any(|(known, _)| **known == *own) {
            return Err(wrong("given twice"));
        }
        if found.len() >= limits::HEADERS {
            return Err(wrong(&format!("expected at most {} headers", limits::HEADERS)));
        }
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| wrong("expected UTF-8"))?;
        if value.len() > limits::HEADER_VALUE {
            return Err(wrong(&expected_text(0..=limits::HEADER_VALUE)));
        }
        found.push((own.into(), value.into()));
    }
    // The request's order is not kept on the way here: by name, it is at least always the same.
    found.sort_unstable();
    Ok(found)
}

/// The way of every publish: through the topic, which answers once it is durable.
async fn send(shared: web::Data<Shared>, topic: &TopicName, draft: Draft) -> Result<Published, Failure> {
    let shared = shared.into_inner();
    let (reply, replied) = Reply::to_caller(ErrorCode::PublishFailed);
    let bytes = draft.size();
    let request = PublishRequest {
        drafts: vec![draft],
        batch: false,
        reply,
    };
    if let Err((failure, Publish(requests))) = shared.topics.offer(topic, &shared, Publish(vec![request]), bytes) {
        requests
            .into_iter()
            .for_each(|request| request.reply.fail(failure.clone()));
    }
    let lost = || {
        let msg = "the store has not answered in time; the event may have been published";
        Failure::new(ErrorCode::StoreUnavailable, msg)
    };
    let replied = tokio::time::timeout(ANSWER_DEADLINE, replied).await;
    match replied.map_err(|_| lost())?.map_err(|_| lost())?? {
        Outcome::Answer(Answer::Published { id, seq }) => Ok(Published { id, seq }),
        _ => Err(Failure::new(ErrorCode::PublishFailed, "an answer to something else")),
    }
}
