//! `GET /replay`: a topic's history, page by page.

use std::sync::Arc;

use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, get, web};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::params::Start;
use super::{FromParams, Params, Query};
use crate::actors::shared::Shared;
use crate::actors::start::{seq_after_id, within_deadline};
use crate::auth::Action;
use crate::domain::{Event, StartFrom, TopicName, push_number, push_string};
use crate::protocol::Failure;

/// A page without `limit`.
const LIMIT_DEFAULT: u64 = 1_000;
const LIMIT_MAX: u64 = 10_000;
/// A page ends earlier when its events have so many bytes: what is held for one request is bounded.
const PAGE_BYTES: usize = 4 << 20;

/// An event of a topic.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "described here; its JSON is made where the event is")]
pub(super) struct EventObject {
    /// Unique in its topic.
    id: String,
    /// The topic's own counter, from 1.
    seq: u64,
    /// Epoch milliseconds.
    ts: u64,
    topic: String,
    /// What the event is about.
    #[schema(nullable = false)]
    key: Option<String>,
    partition: u32,
    /// String to string.
    #[schema(nullable = false)]
    headers: Option<std::collections::BTreeMap<String, String>>,
    /// Any JSON value, as it was published.
    payload: serde_json::Value,
    /// Free labels.
    #[schema(nullable = false)]
    tags: Option<Vec<String>>,
    /// The ids of the events that led to this one.
    #[schema(nullable = false)]
    caused_by: Option<Vec<String>>,
    /// The publisher's session.
    #[schema(nullable = false)]
    sid: Option<String>,
}

/// A page of a topic's history.
#[derive(Serialize, ToSchema)]
#[allow(
    dead_code,
    reason = "described here; its JSON is put together from that of the events"
)]
pub(super) struct Page {
    topic: String,
    /// How many events the page has.
    count: u64,
    /// In `seq` order.
    events: Vec<EventObject>,
    /// The path and query of the page after this; absent at the end.
    #[schema(nullable = false)]
    next: Option<String>,
}

/// What to read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReplayParams {
    /// The topic; one that does not exist is empty.
    #[param(value_type = String, example = "orders", pattern = r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$", max_length = 200)]
    topic: TopicName,
    /// Where to begin: with the oldest event that is kept (`earliest`, which is the default), with the first one whose
    /// `ts` is at least `ts`, after the event with the id `afterId`, or after the seq `afterSeq`.
    #[param(value_type = Option<ReplayFrom>, inline)]
    from: Start,
    /// With `from=ts`: epoch milliseconds.
    #[param(value_type = Option<u64>, maximum = 253402300799999u64, nullable = false)]
    #[allow(dead_code, reason = "described here, read with `from`")]
    ts: (),
    /// With `from=afterId`: an id that the topic has; else the answer is 404.
    #[param(rename = "afterId", value_type = Option<String>, min_length = 1, max_length = 128, nullable = false)]
    #[allow(dead_code, reason = "described here, read with `from`")]
    after_id: (),
    /// With `from=afterSeq`: a seq, whether its event is kept or not.
    #[param(rename = "afterSeq", value_type = Option<u64>, maximum = 9223372036854775807u64, nullable = false)]
    #[allow(dead_code, reason = "described here, read with `from`")]
    after_seq: (),
    /// The most events of the page: 1,000 where it is not given. A page ends earlier when it has 4 MiB.
    #[param(value_type = Option<u64>, minimum = 1, maximum = 10000, nullable = false)]
    limit: u64,
}

/// See `from`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "only described")]
enum ReplayFrom {
    Earliest,
    Ts,
    AfterId,
    AfterSeq,
}

impl FromParams for ReplayParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(ReplayParams {
            topic: params.topic("topic")?,
            from: params
                .start(&["earliest", "ts", "afterId", "afterSeq"])?
                .unwrap_or(Start::From(StartFrom::Earliest)),
            limit: params.integer("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT),
            ts: (),
            after_id: (),
            after_seq: (),
        })
    }
}

/// A page of a topic's events, in `seq` order.
#[utoipa::path(
    tag = "history",
    params(ReplayParams),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "the page", body = Page),
        (status = 404, description = "`afterId` is unknown, or its event is no longer kept", body = Problem),
    )
)]
#[get("/replay")]
pub(super) async fn replay(
    caller: Caller,
    Query(params): Query<ReplayParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    let ReplayParams { topic, from, limit, .. } = params;
    caller.may(Action::Subscribe, &topic)?;
    let store = &shared.store;
    // How far the topic is before the page is read: what comes meanwhile makes no page that would be empty.
    let state = within_deadline(store.topic(&topic)).await.map_err(Refusal)?;
    let tail = state.map_or(0, |state| state.tail);
    let after = seq_before(&shared, &topic, from).await.map_err(Refusal)?;
    let limit_events = usize::try_from(limit).unwrap_or(usize::MAX);
    let events = store.read(&topic, after.saturating_add(1), limit_events, PAGE_BYTES);
    let events = within_deadline(events).await.map_err(Refusal)?;
    let next = events.last().map(|last| last.seq).filter(|last| *last < tail);
    let body = page(&topic, &events, next.map(|after| (after, limit)));
    Ok(HttpResponse::Ok().content_type(ContentType::json()).body(body))
}

/// The last seq that is not read.
pub(super) async fn seq_before(shared: &Shared, topic: &TopicName, start: Start) -> Result<u64, Failure> {
    match start {
        Start::AfterSeq(seq) => Ok(seq),
        Start::From(StartFrom::Ts(ts)) => {
            let first = within_deadline(shared.store.seq_at_ts(topic, ts)).await?;
            Ok(first.saturating_sub(1))
        }
        Start::From(StartFrom::AfterId(id)) => seq_after_id(shared.store.as_ref(), topic, id).await,
        Start::From(StartFrom::Earliest | StartFrom::Latest) => Ok(0),
    }
}

/// The page's JSON, put together from that of its events.
fn page(topic: &TopicName, events: &[Arc<Event>], next: Option<(u64, u64)>) -> Vec<u8> {
    let size: usize = events.iter().map(|event| event.json.len() + 1).sum();
    let mut json = Vec::with_capacity(size + 600);
    json.extend_from_slice(b"{\"topic\":");
    push_string(&mut json, topic.as_str());
    push_number(&mut json, b",\"count\":", events.len() as u64);
    json.extend_from_slice(b",\"events\":[");
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(&event.json);
    }
    json.push(b']');
    if let Some((after, limit)) = next {
        // A topic's name has nothing that an address escapes.
        let path = format!("/replay?topic={topic}&from=afterSeq&afterSeq={after}&limit={limit}");
        json.extend_from_slice(b",\"next\":");
        push_string(&mut json, &path);
    }
    json.push(b'}');
    json
}
