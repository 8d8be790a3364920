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

/// The rules, what the store knows them by, and whether the whole group is paused.
type Loaded = (Group, Claim, Option<Pause>);

impl SubscriptionActor {
    /// Loads the group where it exists. Until then no message is handled.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let load = load_group(self.shared.clone(), self.topic.clone(), self.name.clone());
        ctx.wait(load.into_actor(self).map(|loaded, actor, ctx| match loaded {
            Ok(loaded) => {
                if let Some(loaded) = loaded {
                    actor.adopt(loaded);
                }
                actor.pump(ctx);
            }
            Err(failure) => actor.give_up(&failure, ctx),
        }));
    }

    pub(super) fn adopt(&mut self, (group, claim, paused): Loaded) {
        self.state = Some((group, claim));
        self.paused = paused;
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
    let state = within_deadline(shared.store.group(&topic, &group)).await?;
    Ok(state.map(|state| revive(state, &topic)))
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
    (group, Claim { epoch, seeks }, paused)
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
            Ok((group, Claim { epoch, seeks: 0 }, None))
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
