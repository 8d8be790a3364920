//! Several gateways of one process on one store in memory: how the rules of a cluster are tested without a database, and
//! their plainest reading.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::{MemoryStore, State, broken, ready};
use crate::domain::{GroupName, TopicName};
use crate::store::{Appended, Cluster, Holder, OwnerId, Refused, StoreError, TopicMoved, Write, Written};

/// How many news wait for one who watches; beyond, some are lost, as they may be.
pub(super) const NEWS_KEPT: usize = 64;

impl State {
    pub(super) fn claim(&mut self, topic: &TopicName, group: GroupName, owner: OwnerId) -> Result<Written, Refused> {
        if let Some(Holder {
            owner: held_by,
            left_ms,
        }) = self.holder(topic, &group).filter(|held| held.owner != owner)
        {
            return Err(Refused::Held {
                owner: held_by,
                left_ms,
            });
        }
        let epoch = self.epoch + 1;
        let group = self.group(topic, group)?;
        group.epoch = epoch;
        let before = group.owner.replace(owner.clone());
        self.epoch = epoch;
        if let Some(over) = before.filter(|before| *before != owner) {
            self.leases.remove(&over);
        }
        Ok(Written::Epoch(epoch))
    }

    fn holder(&self, topic: &TopicName, group: &GroupName) -> Option<Holder> {
        let owner = self.groups.get(topic)?.get(group)?.owner.clone()?;
        let left = self.leases.get(&owner)?.checked_duration_since(Instant::now())?;
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        (left_ms > 0).then_some(Holder { owner, left_ms })
    }
}

impl MemoryStore {
    /// The topic that a write may add events to, where somebody may want to know.
    pub(super) fn watched(&self, write: &Write) -> Option<TopicName> {
        self.news.as_ref()?;
        match write {
            Write::Append { topic, .. } => Some(topic.clone()),
            Write::SaveCursors { topic, .. } => Some(topic.dead_letters()),
            _ => None,
        }
    }

    pub(super) fn tell(&self, topic: Option<TopicName>, answer: &Result<Written, Refused>) {
        if let (Some(news), Some(topic)) = (&self.news, topic)
            && let Ok(Written::Appended(events) | Written::CursorsSaved(events)) = answer
            && let Some(tail) = events.iter().map(Appended::seq).max()
        {
            // Nobody may be watching.
            let _ = news.send(TopicMoved { topic, tail });
        }
    }

    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut State) -> T,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let answer = match self.state.write() {
            Ok(state) if state.closed => Err(StoreError::Closed),
            Ok(mut state) => Ok(change(&mut state)),
            Err(_) => Err(broken()),
        };
        ready(answer)
    }
}

impl Cluster for MemoryStore {
    fn begin_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<(), StoreError>> {
        self.change(|state| {
            state.leases.insert(owner.clone(), Instant::now() + lasts);
        })
    }

    fn renew_lease(&self, owner: &OwnerId, lasts: Duration) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.change(|state| match state.leases.get_mut(owner) {
            Some(until) => {
                *until = Instant::now() + lasts;
                true
            }
            None => false,
        })
    }

    fn end_lease(&self, owner: &OwnerId) -> BoxFuture<'static, Result<(), StoreError>> {
        self.change(|state| {
            state.leases.remove(owner);
        })
    }

    fn holders(
        &self,
        groups: Vec<(TopicName, GroupName)>,
    ) -> BoxFuture<'static, Result<Vec<Option<Holder>>, StoreError>> {
        self.look(|state| {
            let holder = |(topic, group): &(TopicName, GroupName)| state.holder(topic, group);
            groups.iter().map(holder).collect()
        })
    }

    fn tails(&self, topics: Vec<TopicName>) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.look(|state| {
            let tail = |topic: &TopicName| state.logs.get(topic).map(|log| log.state().tail);
            topics.iter().map(tail).collect()
        })
    }

    fn watch(&self) -> BoxFuture<'static, Result<Option<BoxStream<'static, TopicMoved>>, StoreError>> {
        let watch = self.news.as_ref().map(|news| {
            let next = |mut news: tokio::sync::broadcast::Receiver<TopicMoved>| async move {
                loop {
                    match news.recv().await {
                        Ok(moved) => return Some((moved, news)),
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return None,
                    }
                }
            };
            stream::unfold(news.subscribe(), next).boxed()
        });
        ready(Ok(watch))
    }
}
