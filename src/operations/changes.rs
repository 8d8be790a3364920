//! Changes that an operator makes, on their way to the actors.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::actors::handle::Rejected;
use crate::actors::messages::{ChangeGroup, DeleteTopic, GroupChange, InspectGroups};
use crate::actors::reply::{Replied, Reply};
use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::actors::subscription::GroupView;
use crate::domain::{GroupName, TopicName};
use crate::protocol::{ErrorCode, Failure};

/// How long a change may take: longer than any deadline below it.
const CHANGE_DEADLINE: Duration = Duration::from_secs(30);
/// How long those who run may take to say how they stand.
const VIEW_DEADLINE: Duration = Duration::from_secs(5);

/// Pauses, resumes, moves or deletes a group; durable when it is ready.
pub async fn change_group(
    shared: &Arc<Shared>,
    topic: &TopicName,
    group: &GroupName,
    change: GroupChange,
) -> Result<(), Failure> {
    // Nobody is started for a name alone.
    if within_deadline(shared.store.group(topic, group)).await?.is_none() {
        return Err(no_such_group(topic, group));
    }
    let (reply, answer) = Reply::to_caller(ErrorCode::StoreUnavailable);
    let message = ChangeGroup {
        group: group.clone(),
        change,
        reply,
    };
    if let Err((failure, message)) = shared.topics.offer(topic, shared, message, 0) {
        message.reply.fail(failure);
    }
    wait(answer).await
}

/// Deletes a topic with its events and groups; durable when it is ready.
pub async fn delete_topic(shared: &Arc<Shared>, topic: &TopicName) -> Result<(), Failure> {
    let known = within_deadline(shared.store.topic(topic)).await?.is_some();
    if !known && within_deadline(shared.store.groups(topic)).await?.is_empty() {
        return Err(no_such_topic(topic));
    }
    let (reply, answer) = Reply::to_caller(ErrorCode::StoreUnavailable);
    if let Err((failure, message)) = shared.topics.offer(topic, shared, DeleteTopic { reply }, 0) {
        message.reply.fail(failure);
    }
    wait(answer).await
}

async fn wait(answer: oneshot::Receiver<Replied>) -> Result<(), Failure> {
    match tokio::time::timeout(CHANGE_DEADLINE, answer).await {
        Ok(Ok(replied)) => replied.map(|_| ()),
        Ok(Err(_)) | Err(_) => {
            let msg = "no answer in time: it may have happened";
            Err(Failure::new(ErrorCode::StoreUnavailable, msg).retry_after(1_000))
        }
    }
}

/// How the groups of a topic that run stand: one, or all.
pub(super) async fn views(
    shared: &Arc<Shared>,
    topic: &TopicName,
    group: Option<&GroupName>,
) -> Result<Vec<GroupView>, Failure> {
    let Some(running) = shared.topics.running(topic) else {
        return Ok(Vec::new());
    };
    let (views, answer) = oneshot::channel();
    let group = group.cloned();
    match running.offer(InspectGroups { group, views }, 0) {
        Ok(()) => {}
        // It has just left: then it had no groups.
        Err((Rejected::Closed, _)) => return Ok(Vec::new()),
        Err((Rejected::Full, _)) => return Err(overloaded()),
    }
    let collect = async {
        let mut found = Vec::new();
        for view in answer.await.unwrap_or_default() {
            // One that does not exist, or has just ended, says nothing.
            found.extend(view.await.ok());
        }
        found
    };
    let late = |_| Failure::new(ErrorCode::Overloaded, "the group does not answer in time").retry_after(1_000);
    tokio::time::timeout(VIEW_DEADLINE, collect).await.map_err(late)
}

/// What is told where there is no such group.
pub(super) fn no_such_group(topic: &TopicName, group: &GroupName) -> Failure {
    Failure::new(ErrorCode::NotFound, format!("group: {topic} has no group {group}"))
}

fn no_such_topic(topic: &TopicName) -> Failure {
    Failure::new(ErrorCode::NotFound, format!("topic: there is no topic {topic}"))
}

fn overloaded() -> Failure {
    Failure::new(ErrorCode::Overloaded, "too much waits for this topic").retry_after(100)
}
