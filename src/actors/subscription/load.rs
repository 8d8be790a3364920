//! Loading a group from the store, or making it.

use std::sync::Arc;

use actix::prelude::*;

use super::{Claim, SubscriptionActor};
use crate::actors::shared::Shared;
use crate::actors::start::{cursors_at, start_seq, within_deadline};
use crate::actors::store::store_unavailable;
use crate::actors::topic::Tail;
use crate::domain::group::Group;
use crate::domain::{GroupName, GroupSettings, StartFrom, TopicName};
use crate::protocol::{ErrorCode, Failure};
use crate::store::{GroupState, Pause, Refused, Write, Written};

/// A group as it is loaded or made.
pub(super) struct Loaded {
    group: Group,
    claim: Claim,
    /// Whether the whole group is paused.
    paused: Option<Pause>,
    /// How many unacked events retention took while nobody looked.
    expired: u64,
}

impl SubscriptionActor {
    /// Loads the group where it exists. Until then no message is handled.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let load = load_group(self.shared.clone(), self.topic.clone(), self.name.clone());
        ctx.wait(load.into_actor(self).map(|loaded, actor, ctx| match loaded {
            Ok(loaded) => {
                if let Some(loaded) = loaded {
                    actor.adopt(loaded);
                    actor.inherit();
                }
                actor.pump(ctx);
            }
            Err(failure) => actor.give_up(&failure, ctx),
        }));
    }

    pub(super) fn adopt(&mut self, loaded: Loaded) {
        self.state = Some((loaded.group, loaded.claim));
        // After a deletion the figures begin anew too.
        self.metrics = self.shared.metrics.group(&self.topic, &self.name);
        self.paused = loaded.paused;
        self.metrics.expired_unacked.inc_by(loaded.expired);
    }
}

async fn load_group(shared: Arc<Shared>, topic: TopicName, group: GroupName) -> Result<Option<Loaded>, Failure> {
    let exists = within_deadline(shared.store.group(&topic, &group)).await?.is_some();
    if !exists {
        return Ok(None);
    }
    // Claim first, then read: nobody else can have written in between.
    let claim = Write::ClaimGroup {
        topic: topic.clone(),
        group: group.clone(),
    };
    match shared.perform(claim).await {
        Ok(Ok(_)) => {}
        Ok(Err(Refused::NoSuchGroup(_))) => return Ok(None),
        Ok(Err(refused)) => return Err(Failure::new(ErrorCode::Conflict, refused.to_string())),
        Err(error) => return Err(store_unavailable(&error)),
    }
    let Some(state) = within_deadline(shared.store.group(&topic, &group)).await? else {
        return Ok(None);
    };
    let mut loaded = revive(state, &topic);
    let log = within_deadline(shared.store.topic(&topic)).await?;
    if let Some(log) = log.filter(|log| log.first > 1) {
        let ordinals = within_deadline(shared.store.ordinals_at(&topic, log.first - 1)).await?;
        loaded.expired = loaded.group.expire_below(log.first, &ordinals);
    }
    Ok(Some(loaded))
}

fn revive(state: GroupState, topic: &TopicName) -> Loaded {
    let GroupState {
        settings,
        paused,
        epoch,
        seeks,
        cursors,
        retries,
    } = state;
    let mut group = Group::new(settings, cursors, retries, !topic.is_dead_letters());
    group.set_group_paused(paused.is_some());
    Loaded {
        group,
        claim: Claim { epoch, seeks },
        paused,
        expired: 0,
    }
}

/// Makes a group that does not exist, its start durable.
pub(super) async fn create_group(
    shared: Arc<Shared>,
    topic: TopicName,
    group: GroupName,
    tail: Arc<Tail>,
    from: StartFrom,
    settings: GroupSettings,
) -> Result<Loaded, Failure> {
    let seq = start_seq(shared.clone(), topic.clone(), tail, from).await?;
    let cursors = cursors_at(&shared, &topic, seq).await?;
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: settings.clone(),
        cursors: cursors.clone(),
    };
    match shared.perform(create).await {
        Ok(Ok(Written::Epoch(epoch))) => {
            let group = Group::new(settings, cursors, Vec::new(), !topic.is_dead_letters());
            Ok(Loaded {
                group,
                claim: Claim { epoch, seeks: 0 },
                paused: None,
                expired: 0,
            })
        }
        // A write that seemed to fail before had happened: the group is there.
        Ok(Ok(_)) | Ok(Err(Refused::GroupExists(_))) => {
            let loaded = load_group(shared, topic, group).await?;
            loaded.ok_or_else(|| {
                Failure::new(
                    ErrorCode::Conflict,
                    "the group was deleted while it was made: try again",
                )
            })
        }
        Ok(Err(refused @ Refused::TooManyGroups { .. })) => {
            Err(Failure::new(ErrorCode::BadRequest, format!("group: {refused}")))
        }
        Ok(Err(refused)) => Err(Failure::new(ErrorCode::Conflict, refused.to_string())),
        Err(error) => Err(store_unavailable(&error)),
    }
}
