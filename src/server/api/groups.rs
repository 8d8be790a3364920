//! Groups: how they are, and changes of them.

use actix_web::{HttpResponse, delete, get, post, web};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::super::caller::Caller;
use super::super::refusal::{Problem, Refusal};
use super::body::Body;
use super::params::Start;
use super::topics::Done;
use super::{FromParams, InPath, Params, Query};
use crate::actors::messages::GroupChange;
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::auth::Action;
use crate::domain::{GroupName, PartitionCursor, TopicName};
use crate::operations::{self, GroupReport};
use crate::protocol::{ErrorCode, Failure};

/// The groups that the caller may subscribe in.
#[derive(Serialize, ToSchema)]
struct Groups {
    groups: Vec<GroupSummary>,
}

/// A group.
#[derive(Serialize, ToSchema)]
struct GroupSummary {
    #[schema(example = "orders")]
    topic: String,
    #[schema(example = "billing")]
    group: String,
    /// How many events up to the topic's tail are not acked.
    lag: u64,
    /// The age of the oldest of them.
    #[serde(rename = "lagMs")]
    lag_ms: u64,
    /// How many events its members hold.
    inflight: u64,
    /// Whether the whole group is paused.
    paused: bool,
    /// How many members are connected.
    members: u64,
}

/// How far a group is.
#[derive(Serialize, ToSchema)]
struct Lag {
    #[serde(flatten)]
    group: GroupSummary,
    /// The highest seq up to which all is acked.
    floor: u64,
    /// The topic's highest seq.
    tail: u64,
}

impl From<&GroupReport> for GroupSummary {
    fn from(report: &GroupReport) -> Self {
        GroupSummary {
            topic: report.topic.to_string(),
            group: report.group.to_string(),
            lag: report.lag,
            lag_ms: report.lag_ms,
            inflight: report.inflight,
            paused: report.paused.is_some(),
            members: report.members,
        }
    }
}

/// Of which topic.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GroupsParams {
    /// One topic; without it, all that the caller may subscribe to.
    #[param(value_type = Option<String>, example = "orders", nullable = false)]
    topic: Option<TopicName>,
}

impl FromParams for GroupsParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        let topic = params.text("topic", 0..=usize::MAX)?;
        let topic = topic.map(|name| {
            name.parse()
                .map_err(|bad| Failure::new(ErrorCode::BadTopic, format!("topic: {bad}")))
        });
        Ok(GroupsParams {
            topic: topic.transpose()?,
        })
    }
}

/// The groups that the caller may subscribe in: also those nobody is connected to.
#[utoipa::path(
    tag = "operations",
    params(GroupsParams),
    security(("bearer" = ["subscribe"])),
    responses((status = 200, description = "the groups, by topic and name", body = Groups))
)]
#[get("/groups")]
pub(super) async fn groups(
    caller: Caller,
    Query(params): Query<GroupsParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.is_served()?;
    let topics = match params.topic {
        Some(topic) => vec![topic],
        None => all_topics(&shared).await.map_err(Refusal)?,
    };
    let mut groups = Vec::new();
    for topic in topics {
        groups.extend(visible(&caller, &shared, &topic).await?.iter().map(GroupSummary::from));
    }
    Ok(HttpResponse::Ok().json(Groups { groups }))
}

/// All topics that can have groups: those that exist, and those that are waited for.
async fn all_topics(shared: &Shared) -> Result<Vec<TopicName>, Failure> {
    let stored = within_deadline(shared.store.topics()).await?;
    let mut names: Vec<TopicName> = stored.into_iter().map(|(topic, _)| topic).collect();
    names.extend(shared.topics.names());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A topic's groups that the caller may subscribe in.
async fn visible(caller: &Caller, shared: &web::Data<Shared>, topic: &TopicName) -> Result<Vec<GroupReport>, Refusal> {
    let reports = operations::group_reports(shared, topic).await.map_err(Refusal)?;
    let may_see = |report: &GroupReport| {
        caller
            .identity
            .check(Action::Subscribe, topic, Some(&report.group))
            .is_ok()
    };
    Ok(reports.into_iter().filter(may_see).collect())
}

/// Where the groups of a topic are.
#[derive(Serialize, ToSchema)]
struct Cursors {
    topic: String,
    cursors: Vec<Cursor>,
}

/// Where a group is.
#[derive(Serialize, ToSchema)]
struct Cursor {
    group: String,
    /// The highest seq up to which all is acked.
    floor: u64,
    partitions: Vec<PartitionPlace>,
}

/// Where a group is in one partition.
#[derive(Serialize, ToSchema)]
struct PartitionPlace {
    partition: u32,
    /// All of the partition's events up to this seq are acked.
    floor: u64,
    /// Ranges of seqs above the floor in which all of the partition's events are acked, both ends included.
    acked_above: Vec<(u64, u64)>,
}

/// Which topic.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CursorsParams {
    /// The topic.
    #[param(value_type = String, example = "orders")]
    topic: TopicName,
}

impl FromParams for CursorsParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(CursorsParams {
            topic: params.topic("topic")?,
        })
    }
}

/// Where the groups of a topic are, partition by partition.
#[utoipa::path(
    tag = "operations",
    params(CursorsParams),
    security(("bearer" = ["subscribe"])),
    responses((status = 200, description = "the groups' places", body = Cursors))
)]
#[get("/cursors")]
pub(super) async fn cursors(
    caller: Caller,
    Query(params): Query<CursorsParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    caller.is_served()?;
    let topic = params.topic;
    let reports = visible(&caller, &shared, &topic).await?;
    let place = |(partition, cursor): (u32, PartitionCursor)| PartitionPlace {
        partition,
        floor: cursor.floor,
        acked_above: cursor.acked.iter().map(|range| (range.first, range.last)).collect(),
    };
    let cursor = |report: GroupReport| Cursor {
        group: report.group.to_string(),
        floor: report.floor,
        partitions: (0..).zip(report.cursors).map(place).collect(),
    };
    Ok(HttpResponse::Ok().json(Cursors {
        topic: topic.to_string(),
        cursors: reports.into_iter().map(cursor).collect(),
    }))
}

/// Which group.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LagParams {
    /// The topic.
    #[param(value_type = String, example = "orders")]
    topic: TopicName,
    /// The group.
    #[param(value_type = String, example = "billing")]
    group: GroupName,
}

impl FromParams for LagParams {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(LagParams {
            topic: params.topic("topic")?,
            group: params.group("group")?,
        })
    }
}

/// How far a group is.
#[utoipa::path(
    tag = "operations",
    params(LagParams),
    security(("bearer" = ["subscribe"])),
    responses(
        (status = 200, description = "how far it is", body = Lag),
        (status = 404, description = "there is no such group", body = Problem),
    )
)]
#[get("/lag")]
pub(super) async fn lag(
    caller: Caller,
    Query(params): Query<LagParams>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    let LagParams { topic, group } = params;
    caller.may_in(Action::Subscribe, &topic, Some(&group))?;
    let report = operations::group_report(&shared, &topic, &group)
        .await
        .map_err(Refusal)?;
    Ok(HttpResponse::Ok().json(Lag {
        group: GroupSummary::from(&report),
        floor: report.floor,
        tail: report.tail,
    }))
}

/// Which group.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GroupPath {
    /// The topic.
    #[param(value_type = String, example = "orders")]
    pub(super) topic: TopicName,
    /// The group.
    #[param(value_type = String, example = "billing")]
    pub(super) group: GroupName,
}

impl FromParams for GroupPath {
    fn read(params: &mut Params) -> Result<Self, Failure> {
        Ok(GroupPath {
            topic: params.topic("topic")?,
            group: params.group("group")?,
        })
    }
}

async fn change(
    caller: &Caller,
    path: &GroupPath,
    shared: &web::Data<Shared>,
    change: GroupChange,
) -> Result<HttpResponse, Refusal> {
    let GroupPath { topic, group } = path;
    caller.may(Action::Admin, topic)?;
    operations::change_group(shared, topic, group, change)
        .await
        .map_err(Refusal)?;
    Ok(HttpResponse::Ok().json(Done {}))
}

/// Pauses the whole group, over restarts too: nothing is delivered; leases and acks go on.
#[utoipa::path(
    tag = "operations",
    params(GroupPath),
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "it is paused", body = Done),
        (status = 404, description = "there is no such group", body = Problem),
    )
)]
#[post("/groups/{topic}/{group}/pause")]
pub(super) async fn pause(
    caller: Caller,
    InPath(path): InPath<GroupPath>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    let by = caller.name();
    change(&caller, &path, &shared, GroupChange::Pause { by }).await
}

/// Lets a paused group go on.
#[utoipa::path(
    tag = "operations",
    params(GroupPath),
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "it goes on", body = Done),
        (status = 404, description = "there is no such group", body = Problem),
    )
)]
#[post("/groups/{topic}/{group}/resume")]
pub(super) async fn resume(
    caller: Caller,
    InPath(path): InPath<GroupPath>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    change(&caller, &path, &shared, GroupChange::Resume).await
}

/// Where a group is to go on.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "only described")]
pub(super) struct Seek {
    /// `earliest`, `latest`, `ts` or `afterId`.
    #[schema(example = "earliest")]
    from: String,
    /// With `from` = `ts`: epoch milliseconds.
    #[schema(nullable = false)]
    ts: Option<u64>,
    /// With `from` = `afterId`: an id that the topic has.
    #[schema(nullable = false)]
    after_id: Option<String>,
}

/// Ends all leases and goes on from another place, with the members that are connected.
#[utoipa::path(
    tag = "operations",
    params(GroupPath),
    request_body = Seek,
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "it goes on from there", body = Done),
        (status = 404, description = "there is no such group, or `afterId` is unknown", body = Problem),
    )
)]
#[post("/groups/{topic}/{group}/seek")]
pub(super) async fn seek(
    caller: Caller,
    InPath(path): InPath<GroupPath>,
    shared: web::Data<Shared>,
    Body(body): Body,
) -> Result<HttpResponse, Refusal> {
    caller.may(Action::Admin, &path.topic)?;
    let mut params = Params::of_json(body.as_bytes()).map_err(Refusal)?;
    let start = params
        .start(&["earliest", "latest", "ts", "afterId"])
        .map_err(Refusal)?;
    params.finish().map_err(Refusal)?;
    let Some(Start::From(from)) = start else {
        return Err(Refusal(Failure::new(ErrorCode::BadRequest, "from: missing")));
    };
    change(&caller, &path, &shared, GroupChange::Seek(from)).await
}

/// Deletes a group and all that is known of it.
#[utoipa::path(
    tag = "operations",
    params(GroupPath),
    security(("bearer" = ["admin"])),
    responses(
        (status = 200, description = "it is gone", body = Done),
        (status = 404, description = "there is no such group", body = Problem),
        (status = 409, description = "members are connected", body = Problem),
    )
)]
#[delete("/groups/{topic}/{group}")]
pub(super) async fn delete_group(
    caller: Caller,
    InPath(path): InPath<GroupPath>,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Refusal> {
    change(&caller, &path, &shared, GroupChange::Delete).await
}
