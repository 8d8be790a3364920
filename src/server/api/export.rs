//! `GET /export`: a topic's history as one stream, in bounded memory whatever its size and however slow its reader.

mod body;
mod produce;

use std::sync::Arc;

use actix_web::http::header::{AcceptEncoding, CONTENT_ENCODING, Encoding, Header, VARY};
use actix_web::{HttpRequest, HttpResponse, get, web};
use futures_util::future::AbortHandle;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use self::body::{Door, ExportBody};
use self::produce::{Export, Piece, produce};
use super::super::caller::Caller;
use super::super::client_address::client_address;
use super::super::refusal::Refusal;
use super::replay::EventObject;
use super::{FromParams, Params, Query};
use crate::actors::connection::Streaming;
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::auth::Action;
use crate::domain::{TS_MAX, TopicName};
use crate::protocol::Failure;
use crate::store::Framing;

/// The lowest and the highest seq that an export can have, so that its reader can tell how far it is.
pub(crate) const EXPORT_FIRST_SEQ: &str = "x-tidegate-first-seq";
/// See [`EXPORT_FIRST_SEQ`].
pub(crate) const EXPORT_LAST_SEQ: &str = "x-tidegate-last-seq";

/// What to export.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParams {
    /// The topic; one that does not exist is empty.
    #[param(value_type = String, example = "orders", pattern = r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$", max_length = 200)]
    topic: TopicName,
    /// Only events whose `ts` is at least this, in epoch milliseconds.
    #[param(rename = "fromTs", value_type = Option<u64>, maximum = 253402300799999u64, nullable = false)]
    from_ts: u64,
    /// Only events whose `ts` is at most this, in epoch milliseconds.
    #[param(rename = "toTs", value_type = Option<u64>, maximum = 253402300799999u64, nullable = false)]
    to_ts: u64,
    /// Only events after this seq: to go on where another export broke off.
    #[param(rename = "afterSeq", value_type = Option<u64>, maximum = 9223372036854775807u64, nullable = false)]
    after_seq: u64,
    /// 1, the default: one event a line. 0: one JSON array.
    #[param(value_type = Option<u8>, minimum = 0, maximum = 1, nullable = false)]
    ndjson: bool,
}

impl FromParams for ExportParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(ExportParams {
            topic: params.topic("topic")?,
            from_ts: params.integer("fromTs", 0..=TS_MAX)?.unwrap_or(0),
            to_ts: params.integer("toTs", 0..=TS_MAX)?.unwrap_or(TS_MAX),
            after_seq: params.integer("afterSeq", 0..=i64::MAX as u64)?.unwrap_or(0),
            ndjson: params.switch("ndjson")?.unwrap_or(true),
        })
    }
}

/// All events of a topic up to its newest one now, in `seq` order, each once. The times are inclusive. Where something goes
/// wrong in the middle the connection breaks: what ends well is complete. `x-tidegate-last-seq` says how far it goes.
#[utoipa::path(
    tag = "history",
    params(ExportParams),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "the events, gzipped where the request accepts that",
            content((String = "application/x-ndjson"), (Vec<EventObject> = "application/json")),
            headers(
                ("x-tidegate-first-seq" = String, description = "no event of the export has a lower seq"),
                ("x-tidegate-last-seq" = String, description = "no event of the export has a higher seq"),
            )),
    )
)]
#[get("/export")]
pub(super) async fn export(
    caller: Caller,
    Query(params): Query<ExportParams>,
    request: HttpRequest,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Subscribe, &params.topic)?;
    let shared = shared.into_inner();
    let seqs = seqs(&shared, &params).await.map_err(Refusal)?;
    let gzip = accepts_gzip(&request);
    let (first, last) = (*seqs.start(), *seqs.end());
    // One piece waits while one is being written: what an export holds is two of them.
    let (pieces, waiting) = mpsc::channel::<Piece>(1);
    let (stop, stopped) = AbortHandle::new_pair();
    let door = Door::new(stop, shared.clone(), caller.identity);
    let client = client_address(&request, &shared.config.gateway.trusted_proxies);
    let streaming = Streaming::new(&request, client, shared.clone(), Arc::new(door));
    let export = Export {
        topic: params.topic,
        seqs,
        ts: params.from_ts..=params.to_ts,
        framing: if params.ndjson { Framing::Line } else { Framing::List },
        gzip,
    };
    let content = ExportBody::new(waiting, stopped, streaming.backlog().clone(), export.topic.clone());
    let body = streaming.body(content, shared.metrics.exports()).map_err(Refusal)?;
    actix_web::rt::spawn(produce(shared, export, pieces));
    let mut answer = HttpResponse::Ok();
    answer
        .content_type(if params.ndjson {
            "application/x-ndjson"
        } else {
            "application/json"
        })
        .insert_header((EXPORT_FIRST_SEQ, first.to_string()))
        .insert_header((EXPORT_LAST_SEQ, last.to_string()))
        .insert_header((VARY, "accept-encoding"))
        .force_close();
    if gzip {
        answer.insert_header((CONTENT_ENCODING, "gzip"));
    }
    Ok(answer.streaming(body))
}

/// The seqs that the export looks at. Their end is fixed here: what comes later is not part of it.
async fn seqs(shared: &Shared, params: &ExportParams) -> Result<std::ops::RangeInclusive<u64>, Failure> {
    let state = within_deadline(shared.store.topic(&params.topic)).await?;
    let (first, tail) = state.map_or((1, 0), |state| (state.first, state.tail));
    let by_time = match params.from_ts {
        0 => 1,
        ts => within_deadline(shared.store.seq_at_ts(&params.topic, ts)).await?,
    };
    let first = first.max(by_time).max(params.after_seq.saturating_add(1));
    Ok(first..=tail)
}

fn accepts_gzip(request: &HttpRequest) -> bool {
    let accepted = AcceptEncoding::parse(request).ok();
    let offered = [Encoding::identity(), Encoding::gzip()];
    accepted.and_then(|accepted| accepted.negotiate(offered.iter())) == Some(Encoding::gzip())
}
