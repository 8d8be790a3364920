//! Groups, as a program looks at them and moves them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::error::bad_request;
use super::{Error, Handle};
use crate::actors::messages::GroupChange;
use crate::actors::shared::Shared;
use crate::domain::{GroupName, StartFrom, TopicName};
use crate::operations::{self, Explanation, GroupReport};
use crate::protocol::Failure;

/// Looking at groups, and moving them. The same as over HTTP.
impl Handle {
    /// How a group is: its lag, its members, whether it is paused.
    ///
    /// ```
    /// # tidegate::testing::run(async {
    /// # use tidegate::testing::TestGateway;
    /// # use tidegate::{Message, Subscribe};
    /// # let gateway = TestGateway::start().await?;
    /// # let handle = gateway.handle();
    /// let _member = handle.subscribe::<u32>(Subscribe::group("orders", "billing")).await?;
    /// handle.publish("orders", Message::json(&7)).await?;
    /// assert_eq!(handle.group("orders", "billing").await?.lag, 1);
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn group(&self, topic: &str, group: &str) -> Result<GroupReport, Error> {
        let (topic, group) = names(topic, group)?;
        self.ask(move |shared| Box::pin(async move { operations::group_report(&shared, &topic, &group).await }))
            .await
    }

    /// How all groups of a topic are.
    pub async fn groups(&self, topic: &str) -> Result<Vec<GroupReport>, Error> {
        let topic: TopicName = topic.parse().map_err(|why| bad_request(format!("topic: {why}")))?;
        self.ask(move |shared| Box::pin(async move { operations::group_reports(&shared, &topic).await }))
            .await
    }

    /// Why a group does or does not move.
    pub async fn explain(&self, topic: &str, group: &str) -> Result<Explanation, Error> {
        let (topic, group) = names(topic, group)?;
        self.ask(move |shared| Box::pin(async move { operations::explain_group(&shared, &topic, &group).await }))
            .await
    }

    /// Pauses a whole group, over restarts too: nothing is delivered to any member. `by` says who, for those who ask why.
    pub async fn pause(&self, topic: &str, group: &str, by: &str) -> Result<(), Error> {
        let by = by.into();
        self.change(topic, group, GroupChange::Pause { by }).await
    }

    /// Lets a paused group go on. A consumer that was given up tries again.
    pub async fn resume(&self, topic: &str, group: &str) -> Result<(), Error> {
        self.change(topic, group, GroupChange::Resume).await
    }

    /// Puts a group somewhere else: all leases end, and it goes on from there.
    pub async fn seek(&self, topic: &str, group: &str, to: StartFrom) -> Result<(), Error> {
        self.change(topic, group, GroupChange::Seek(to)).await
    }

    async fn change(&self, topic: &str, group: &str, change: GroupChange) -> Result<(), Error> {
        let (topic, group) = names(topic, group)?;
        self.ask(move |shared| Box::pin(async move { operations::change_group(&shared, &topic, &group, change).await }))
            .await
    }

    /// Has it done on a thread of the gateway: whoever asks may have another runtime, or none.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Shared>) -> BoxFuture<'static, Result<T, Failure>>,
    ) -> Result<T, Error> {
        self.0.check_running()?;
        let (sender, answer) = oneshot::channel();
        let work = work(self.0.shared.clone());
        self.0.arbiter.spawn(async move {
            let _ = sender.send(work.await);
        });
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => Err(self.0.check_running().err().unwrap_or_else(|| failure.into())),
            Err(_) => Err(Error::Stopped),
        }
    }
}

fn names(topic: &str, group: &str) -> Result<(TopicName, GroupName), Error> {
    let topic = topic.parse().map_err(|why| bad_request(format!("topic: {why}")))?;
    let group = group.parse().map_err(|why| bad_request(format!("group: {why}")))?;
    Ok((topic, group))
}
