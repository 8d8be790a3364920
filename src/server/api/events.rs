//! `GET /events/{topic}`: a topic's events as they come, as server-sent events.

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, get, web};
use utoipa::{IntoParams, ToSchema};

use super::super::caller::Caller;
use super::super::client_address::client_address;
use super::super::refusal::{Problem, Refusal};
use super::params::Start;
use super::publish::TopicInPath;
use super::{FromParams, InPath, Params, Query};
use crate::actors::connection::{EventStream, Follow, Streaming};
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::auth::Action;
use crate::domain::StartFrom;
use crate::protocol::{ErrorCode, Failure};

/// With which a browser says where it was when it lost the connection.
const LAST_EVENT_ID: &str = "last-event-id";

/// Where to begin.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsParams {
    /// Where to begin: after the newest event (`latest`, which is the default), with the oldest one that is kept
    /// (`earliest`), with the first one whose `ts` is at least `ts`, after the event with the id `afterId`, or after the
    /// seq `afterSeq`. A `Last-Event-ID` goes before all of them.
    #[param(value_type = Option<EventsFrom>, inline)]
    from: Option<Start>,
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
}

/// See `from`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "only described")]
enum EventsFrom {
    Latest,
    Earliest,
    Ts,
    AfterId,
    AfterSeq,
}

impl FromParams for EventsParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(EventsParams {
            from: params.start(&["latest", "earliest", "ts", "afterId", "afterSeq"])?,
            ts: (),
            after_id: (),
            after_seq: (),
        })
    }
}

/// A topic's events as they come: server-sent events, whose `data` is the event and whose `id` is its seq. It goes on until
/// the client leaves, the token ends or the gateway goes down; a browser comes back by itself, with `Last-Event-ID`.
#[utoipa::path(
    tag = "events",
    params(
        TopicInPath,
        EventsParams,
        ("Last-Event-ID" = Option<u64>, Header, nullable = false, maximum = 9223372036854775807u64,
            description = "the seq of the last event that the client has"),
    ),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "events, for as long as the client reads", body = String,
            content_type = "text/event-stream"),
        (status = 404, description = "`afterId` is unknown, or its event is no longer kept", body = Problem),
    )
)]
#[get("/events/{topic}")]
pub(super) async fn events(
    caller: Caller,
    InPath(TopicInPath { topic }): InPath<TopicInPath>,
    Query(params): Query<EventsParams>,
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Subscribe, &topic)?;
    let shared = shared.into_inner();
    let (from, mut position) = match params.from {
        Some(Start::From(from)) => (from, None),
        Some(Start::AfterSeq(seq)) => (StartFrom::Latest, Some(seq)),
        None => (StartFrom::Latest, None),
    };
    if let Some(seq) = last_event_id(&request).map_err(Refusal)? {
        let state = within_deadline(shared.store.topic(&topic)).await.map_err(Refusal)?;
        // A topic that has not come so far was made anew: all of it is new to the client.
        let is_known = state.is_some_and(|state| state.tail >= seq);
        position = Some(if is_known { seq } else { 0 });
    }
    let follow = Follow {
        topic,
        from,
        position,
        identity: caller.identity,
    };
    let inbox = EventStream::inbox();
    let client = client_address(&request, &shared.config.gateway.trusted_proxies);
    let streaming = Streaming::new(&request, client, shared.clone(), inbox.outlet());
    let (handle, backlog) = (streaming.handle().clone(), streaming.backlog().clone());
    let stream = EventStream::begin(shared.clone(), follow, handle, backlog, inbox).await;
    let stream = stream.map_err(Refusal)?;
    let body = streaming
        .body(stream, shared.metrics.event_streams())
        .map_err(Refusal)?;
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((CACHE_CONTROL, "no-store"))
        // Proxies that gather a response before they pass it on would hold events back.
        .insert_header(("x-accel-buffering", "no"))
        .force_close()
        .streaming(body))
}

fn last_event_id(request: &HttpRequest) -> Result<Option<u64>, Failure> {
    let Some(value) = request.headers().get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    let wrong = || Failure::new(ErrorCode::BadRequest, "Last-Event-ID: expected the seq of an event");
    seq.map(Some).ok_or_else(wrong)
}
