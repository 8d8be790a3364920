//! How a group is: asked where it runs, read from the store where it does not.

use std::collections::HashMap;
use std::sync::Arc;

use super::changes::{no_such_group, views};
use super::lag::{Place, place_of};
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::actors::subscription::GroupView;
use crate::domain::{GroupName, PartitionCursor, TopicName};
use crate::protocol::Failure;
use crate::store::{GroupState, Pause, TopicState};

/// How a group is at a moment.
#[derive(Debug, Clone)]
pub struct GroupReport {
    /// Of which topic.
    pub topic: TopicName,
    /// Which.
    pub group: GroupName,
    /// How many events up to the tail are not acked.
    pub lag: u64,
    /// The age of the oldest of them.
    pub lag_ms: u64,
    /// How many events its members hold.
    pub inflight: u64,
    /// Set while the whole group is paused.
    pub paused: Option<Pause>,
    /// How many members it has.
    pub members: u64,
    /// The highest seq up to which all is acked.
    pub floor: u64,
    /// The topic's highest seq.
    pub tail: u64,
    /// Where it is, partition by partition.
    pub cursors: Vec<PartitionCursor>,
    /// How many messages wait for its actor, where it runs.
    pub waiting: usize,
}

/// What is known of a group: from the store, and where it runs from itself.
#[derive(Debug)]
pub struct FoundGroup {
    /// What the store has.
    pub stored: GroupState,
    /// What it says itself, where it runs.
    pub running: Option<GroupView>,
}

/// Looks for a group. Starts nothing.
pub async fn find_group(shared: &Arc<Shared>, topic: &TopicName, group: &GroupName) -> Result<FoundGroup, Failure> {
    let stored = within_deadline(shared.store.group(topic, group)).await?;
    let stored = stored.ok_or_else(|| no_such_group(topic, group))?;
    let running = views(shared, topic, Some(group)).await?.pop();
    Ok(FoundGroup { stored, running })
}

/// How one group is.
pub async fn group_report(shared: &Arc<Shared>, topic: &TopicName, group: &GroupName) -> Result<GroupReport, Failure> {
    let found = find_group(shared, topic, group).await?;
    let state = topic_state(shared, topic).await?;
    report(shared, topic, group, &state, found).await
}

/// How all groups of a topic are.
pub async fn group_reports(shared: &Arc<Shared>, topic: &TopicName) -> Result<Vec<GroupReport>, Failure> {
    let names = within_deadline(shared.store.groups(topic)).await?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let views = views(shared, topic, None).await?;
    let mut running: HashMap<GroupName, GroupView> = views.into_iter().map(|view| (view.name.clone(), view)).collect();
    let state = topic_state(shared, topic).await?;
    let mut reports = Vec::with_capacity(names.len());
    for name in names {
        // It may have been deleted since.
        let Some(stored) = within_deadline(shared.store.group(topic, &name)).await? else {
            continue;
        };
        let running = running.remove(&name);
        reports.push(report(shared, topic, &name, &state, FoundGroup { stored, running }).await?);
    }
    Ok(reports)
}

/// A topic that does not exist has nothing: a group may wait for it all the same.
pub(super) async fn topic_state(shared: &Arc<Shared>, topic: &TopicName) -> Result<TopicState, Failure> {
    let state = within_deadline(shared.store.topic(topic)).await?;
    Ok(state.unwrap_or_else(|| TopicState {
        partitions: 0,
        first: 1,
        tail: 0,
        events: 0,
        bytes: 0,
        ordinals: Vec::new(),
    }))
}

async fn report(
    shared: &Arc<Shared>,
    topic: &TopicName,
    group: &GroupName,
    state: &TopicState,
    found: FoundGroup,
) -> Result<GroupReport, Failure> {
    let place = place(shared, topic, state, &found).await?;
    let FoundGroup { stored, running } = found;
    let now_ms = shared.clock.now_ms();
    let at = place.oldest.as_ref().map(|event| event.at);
    let lag_ms = at.map_or(0, |at| now_ms.saturating_sub(at));
    Ok(GroupReport {
        topic: topic.clone(),
        group: group.clone(),
        lag: place.lag,
        lag_ms,
        inflight: running.as_ref().map_or(0, |view| view.rules.stats.inflight as u64),
        members: running.as_ref().map_or(0, |view| view.members.len() as u64),
        waiting: running.as_ref().map_or(0, |view| view.waiting),
        floor: place.floor,
        tail: state.tail,
        paused: running.as_ref().map_or(stored.paused, |view| view.paused.clone()),
        cursors: running.map_or(stored.cursors, |view| view.rules.cursors),
    })
}

/// How far a group is: by its own cursors where it runs, which know of acks that are not saved yet.
pub(super) async fn place(
    shared: &Arc<Shared>,
    topic: &TopicName,
    state: &TopicState,
    found: &FoundGroup,
) -> Result<Place, Failure> {
    let cursors = match &found.running {
        Some(view) => &view.rules.cursors,
        None => &found.stored.cursors,
    };
    place_of(shared.store.as_ref(), topic, state, cursors).await
}
