//! `GET /groups/{topic}/{group}/explain`: why a group moves or does not.

use actix_web::{HttpResponse, get, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::InPath;
use super::groups::GroupPath;
use crate::actors::shared::Shared;
use crate::auth::Action;
use crate::domain::group::{Unacked, UnackedState};
use crate::operations::explain::{Explanation, MemberFacts};
use crate::operations::explain_group;

/// Why a group moves or does not. Times that end in `AtMs`, `SinceMs` and `UntilMs` are epoch milliseconds.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    #[schema(example = "orders")]
    topic: String,
    #[schema(example = "billing")]
    group: String,
    /// `moving`, `caught_up`, `paused`, `no_members`, `members_paused`, `max_in_flight`, `window_full`,
    /// `waiting_for_token`, `not_reading`, `key_blocked`, `back_off`, `in_flight`, `delivering` or `store_unavailable`.
    #[schema(example = "paused")]
    state: &'static str,
    /// Whether events are being settled.
    moving: bool,
    /// For people.
    sentence: String,
    /// How many events wait for what the state names.
    events: u64,
    /// How many events up to the tail are not acked.
    lag: u64,
    /// The age of the oldest of them.
    lag_ms: u64,
    next: Next,
    /// How many events are settled in a second, over the last 10 s.
    settled_per_second: f64,
    /// How many events are published in a second, over the last 10 s.
    published_per_second: f64,
    /// When the lag is zero at these rates, from now; null where it does not get there.
    zero_lag_in_ms: Option<u64>,
    in_flight: usize,
    /// Failed, and waiting for their next delivery.
    waiting: usize,
    /// Ready to be delivered.
    ready: usize,
    /// Waiting for an earlier event of their key.
    held: usize,
    /// Null while it is not paused.
    paused: Option<PausedBy>,
    /// Null while the store does what it is asked to.
    store: Option<StoreTrouble>,
    /// Which bucket pushes take their tokens from.
    bucket: &'static str,
    /// The oldest event that is not acked.
    oldest: Option<Event>,
    /// With `ordered`: the key for whose oldest event the most others wait.
    blocked_key: Option<Key>,
    members: Vec<Member>,
}

/// What happens next.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Next {
    /// `zero_lag`, `lease_ends`, `redelivery`, `token`, `cut_off`, `store_retry`, `expiry`, `delivery`; and where nothing
    /// happens by itself, what has to be done: `resume`, `join`, `member_resume`, `publish`.
    what: &'static str,
    at_ms: Option<u64>,
    in_ms: Option<u64>,
}

/// Who paused it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PausedBy {
    by: String,
    since_ms: u64,
}

/// What is wrong with the store.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StoreTrouble {
    why: String,
    since_ms: u64,
}

/// A key whose events wait.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Key {
    key: String,
    /// How many events wait.
    waiting: usize,
    /// For this one.
    behind: Event,
}

/// An event that is not acked.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Event {
    seq: u64,
    id: String,
    key: Option<String>,
    /// How many deliveries of it failed.
    attempts: u32,
    /// When it came.
    at_ms: u64,
    /// `ready`, `held`, `leased`, `waiting` or `dying`.
    state: &'static str,
    /// With whom it is.
    member: Option<u64>,
    /// Since when.
    since_ms: Option<u64>,
    /// Until when.
    until_ms: Option<u64>,
}

/// A member.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Member {
    member: u64,
    connection: u64,
    client: String,
    paused: bool,
    max_in_flight: u32,
    in_flight: usize,
    /// The first five events that it holds.
    holds: Vec<Event>,
    /// How many bytes wait to be written to it.
    waiting_bytes: usize,
    /// Set while it takes nothing.
    blocked_since_ms: Option<u64>,
    /// Set while its pushes wait for a token.
    token_at_ms: Option<u64>,
}

impl From<&Unacked> for Event {
    fn from(event: &Unacked) -> Self {
        let (state, member, since_ms, until_ms) = match event.state {
            UnackedState::Ready => ("ready", None, None, None),
            UnackedState::Held => ("held", None, None, None),
            UnackedState::Leased {
                member,
                since_ms,
                until_ms,
            } => ("leased", Some(member), Some(since_ms), Some(until_ms)),
            UnackedState::Waiting { until_ms } => ("waiting", None, None, Some(until_ms)),
            UnackedState::Dying => ("dying", None, None, None),
        };
        Event {
            seq: event.seq,
            id: event.id.to_string(),
            key: event.key.as_deref().map(str::to_owned),
            attempts: event.attempts,
            at_ms: event.at,
            state,
            member,
            since_ms,
            until_ms,
        }
    }
}

impl From<&MemberFacts> for Member {
    fn from(facts: &MemberFacts) -> Self {
        Member {
            member: facts.rules.id,
            connection: facts.connection,
            client: facts.client.clone(),
            paused: facts.rules.paused,
            max_in_flight: facts.rules.max_in_flight,
            in_flight: facts.rules.held,
            holds: facts.rules.leases.iter().map(Event::from).collect(),
            waiting_bytes: facts.waiting_bytes,
            blocked_since_ms: facts.blocked_since_ms,
            token_at_ms: facts.token_at_ms,
        }
    }
}

impl From<Explanation> for Verdict {
    fn from(explanation: Explanation) -> Self {
        let Explanation {
            state,
            sentence,
            events,
            next,
            zero_lag_in_ms,
            facts,
        } = explanation;
        let tenths = |rate: f64| (rate * 10.0).round() / 10.0;
        let now_ms = facts.now_ms;
        Verdict {
            topic: facts.topic.to_string(),
            group: facts.group.to_string(),
            state: state.as_str(),
            moving: matches!(state, crate::operations::explain::State::Moving),
            sentence,
            events,
            lag: facts.lag,
            lag_ms: facts.oldest.as_ref().map_or(0, |event| now_ms.saturating_sub(event.at)),
            next: Next {
                what: next.what.as_str(),
                at_ms: next.at_ms,
                in_ms: next.at_ms.map(|at| at.saturating_sub(now_ms)),
            },
            settled_per_second: tenths(facts.settled_per_second),
            published_per_second: tenths(facts.published_per_second),
            zero_lag_in_ms,
            in_flight: facts.stats.inflight,
            waiting: facts.stats.waiting,
            ready: facts.stats.ready,
            held: facts.stats.held,
            paused: facts.paused.map(|pause| PausedBy {
                by: pause.by.into(),
                since_ms: pause.since_ms,
            }),
            store: facts.store.map(|trouble| StoreTrouble {
                why: trouble.why,
                since_ms: trouble.since_ms,
            }),
            bucket: facts.bucket,
            oldest: facts.oldest.as_ref().map(Event::from),
            blocked_key: facts.blocked_key.as_ref().map(|key| Key {
                key: key.key.to_string(),
                waiting: key.waiting,
                behind: Event::from(&key.behind),
            }),
            members: facts.members.iter().map(Member::from).collect(),
        }
    }
}

/// Why a group moves or does not: one sentence for a person, and fields for a program.
#[utoipa::path(
    tag = "operations",
    params(GroupPath),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "why", body = Verdict),
        (status = 404, description = "there is no such group", body = Problem),
    )
)]
#[get("/groups/{topic}/{group}/explain")]
pub(super) async fn explain(
    caller: Caller,
    InPath(path): InPath<GroupPath>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    let GroupPath { topic, group } = path;
    caller.may_in(Action::Subscribe, &topic, Some(&group))?;
    let explanation = explain_group(&shared, &topic, &group).await.map_err(Refusal)?;
    Ok(HttpResponse::Ok().json(Verdict::from(explanation)))
}
