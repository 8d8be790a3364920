//! Loading a group from the store, or making it. Where other gateways use the store too, it has to be claimed first, and
//! may be another's.

use std::sync::Arc;

use actix::prelude::*;

use super::{Claim, SubscriptionActor};
use crate::actors::node::Lease;
use crate::actors::shared::Shared;
use crate::actors::start::{cursors_at, start_seq, within_deadline};
use crate::actors::store::store_unavailable;
use crate::actors::topic::Tail;
use crate::domain::group::Group;
use crate::domain::{CursorUpdate, GroupName, GroupSettings, GroupSettingsPatch, Retry, StartFrom, TopicName};
use crate::protocol::{ErrorCode, Failure};
use crate::store::{GroupState, OwnerId, Pause, Refused, Write, Written};

/// A group as it is loaded or made.
pub(super) struct Loaded {
    group: Group,
    claim: Claim,
    /// Whether the whole group is paused.
    paused: Option<Pause>,
    /// How many unacked events retention took while nobody looked.
    expired: u64,
}

/// What came of looking for a group.
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// It is there, and another gateway's; or this one has no lease at the moment.
    Held {
        /// As they were.
        settings: GroupSettings,
        /// Who holds it, for the log.
        by: String,
    },
    /// It is claimed and loaded.
    Loaded(Box<Loaded>),
}

impl SubscriptionActor {
    /// Loads the group where it exists. Until then no message is handled.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let load = load_group(self.shared.clone(), self.topic.clone(), self.name.clone());
        ctx.wait(load.into_actor(self).map(|loaded, actor, ctx| match loaded {
            Ok(found) => {
                actor.found(found);
                actor.inherit();
                actor.pump(ctx);
            }
            Err(failure) => actor.give_up(&failure, ctx),
        }));
    }

    pub(super) fn found(&mut self, found: Found) {
        match found {
            Found::Nothing => {}
            Found::Loaded(loaded) => self.adopt(*loaded),
            Found::Held { settings, by } => self.wait_for(settings, &by),
        }
    }

    fn adopt(&mut self, loaded: Loaded) {
        let Loaded {
            mut group,
            claim,
            paused,
            expired,
        } = loaded;
        // After a deletion the figures begin anew too.
        self.metrics = self.shared.metrics.group(&self.topic, &self.name);
        if let Some(mut waited) = self.dormant.take() {
            group.take_members(&mut waited);
            tracing::info!(topic = %self.topic, group = %self.name, epoch = claim.epoch, "took over a group");
            self.shared.metrics.group_taken_over();
            self.members
                .values_mut()
                .for_each(|member| member.patch = GroupSettingsPatch::default());
        }
        self.state = Some((group, claim));
        self.paused = paused;
        self.metrics.expired_unacked.inc_by(expired);
        self.note_standing();
    }
}

pub(super) async fn load_group(shared: Arc<Shared>, topic: TopicName, group: GroupName) -> Result<Found, Failure> {
    let Some(known) = within_deadline(shared.store.group(&topic, &group)).await? else {
        return Ok(Found::Nothing);
    };
    let lease = shared.node_of(&topic).map(|node| node.lease());
    if lease
        .as_ref()
        .is_some_and(|lease| !lease.lasts_at(shared.clock.now_ms()))
    {
        return Ok(Found::Held {
            settings: known.settings,
            by: "nobody, as this gateway has no lease at the moment".into(),
        });
    }
    // Claim first, then read: nobody else can have written in between.
    let claim = Write::ClaimGroup {
        topic: topic.clone(),
        group: group.clone(),
        owner: lease
            .as_ref()
            .map_or_else(OwnerId::random, |lease| lease.owner().clone()),
    };
    let epoch = match shared.perform(claim).await {
        Ok(Ok(Written::Epoch(epoch))) => epoch,
        Ok(Err(Refused::NoSuchGroup(_))) => return Ok(Found::Nothing),
        Ok(Err(Refused::Held { owner, .. })) => {
            return Ok(Found::Held {
                settings: known.settings,
                by: owner.to_string(),
            });
        }
        Ok(Ok(_)) => return Err(Failure::new(ErrorCode::Conflict, "a claim got no epoch")),
        Ok(Err(refused)) => return Err(Failure::new(ErrorCode::Conflict, refused.to_string())),
        Err(error) => return Err(store_unavailable(&error)),
    };
    let Some(mut state) = within_deadline(shared.store.group(&topic, &group)).await? else {
        return Ok(Found::Nothing);
    };
    let log = within_deadline(shared.store.topic(&topic)).await?;
    let tail = log.as_ref().map_or(0, |log| log.tail);
    // Where another came in between, what was read may be that one's, but the epoch is not: every save is refused.
    state.epoch = epoch;
    if lease.is_some() && state.cursors.iter().any(|cursor| cursor.reaches_past(tail)) {
        tracing::warn!(%topic, %group, tail, "a group is ahead of its topic, whose last events were rolled back: it goes back");
        cut_back(&shared, &topic, &group, &mut state, tail).await?;
    }
    let mut loaded = revive(state, lease, &topic);
    if let Some(log) = log.filter(|log| log.first > 1) {
        let ordinals = within_deadline(shared.store.ordinals_at(&topic, log.first - 1)).await?;
        loaded.expired = loaded.group.expire_below(log.first, &ordinals);
    }
    Ok(Found::Loaded(Box::new(loaded)))
}

/// Lets a group forget what it knew of events that the store took back: their seqs are given to others.
async fn cut_back(
    shared: &Shared,
    topic: &TopicName,
    group: &GroupName,
    state: &mut GroupState,
    tail: u64,
) -> Result<(), Failure> {
    let ordinals = within_deadline(shared.store.ordinals_at(topic, tail)).await?;
    let mut updates = Vec::new();
    for (partition, cursor) in (0..).zip(&mut state.cursors) {
        cursor.cut_at(tail, ordinals.get(partition as usize).copied().unwrap_or(0));
        updates.push(CursorUpdate {
            partition,
            cursor: cursor.clone(),
            ..CursorUpdate::default()
        });
    }
    let (kept, gone) = std::mem::take(&mut state.retries)
        .into_iter()
        .partition(|retry| retry.seq <= tail);
    state.retries = kept;
    if let Some(update) = updates.first_mut() {
        let gone: Vec<Retry> = gone;
        update.settled = gone.iter().map(|retry| retry.seq).collect();
    }
    let save = Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch: state.epoch,
        updates,
        dead_letters: Vec::new(),
    };
    match shared.perform(save).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refused)) => Err(Failure::new(ErrorCode::Conflict, refused.to_string())),
        Err(error) => Err(store_unavailable(&error)),
    }
}

fn revive(state: GroupState, lease: Option<Arc<Lease>>, topic: &TopicName) -> Loaded {
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
        claim: Claim {
            epoch,
            seeks,
            lease,
            used: false,
        },
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
) -> Result<Found, Failure> {
    let seq = start_seq(shared.clone(), topic.clone(), tail, from).await?;
    let cursors = cursors_at(&shared, &topic, seq).await?;
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: settings.clone(),
        cursors: cursors.clone(),
    };
    match shared.perform(create).await {
        Ok(Ok(Written::Epoch(epoch))) if !shared.store.shares(&topic) => {
            let group = Group::new(settings, cursors, Vec::new(), !topic.is_dead_letters());
            let claim = Claim {
                epoch,
                seeks: 0,
                lease: None,
                used: false,
            };
            Ok(Found::Loaded(Box::new(Loaded {
                group,
                claim,
                paused: None,
                expired: 0,
            })))
        }
        // It is there now, or was: another gateway made it, or a write that seemed to fail before had happened.
        Ok(Ok(_)) | Ok(Err(Refused::GroupExists(_))) => {
            let found = load_group(shared, topic, group).await?;
            if matches!(found, Found::Nothing) {
                let msg = "the group was deleted while it was made: try again";
                return Err(Failure::new(ErrorCode::Conflict, msg));
            }
            Ok(found)
        }
        Ok(Err(refused @ Refused::TooManyGroups { .. })) => {
            Err(Failure::new(ErrorCode::BadRequest, format!("group: {refused}")))
        }
        Ok(Err(refused)) => Err(Failure::new(ErrorCode::Conflict, refused.to_string())),
        Err(error) => Err(store_unavailable(&error)),
    }
}

/// Claims and loads a group that stood by, with what its members asked of it meanwhile.
pub(super) async fn take_over(
    shared: Arc<Shared>,
    topic: TopicName,
    group: GroupName,
    patches: Vec<GroupSettingsPatch>,
) -> Result<Found, Failure> {
    let mut found = load_group(shared.clone(), topic.clone(), group.clone()).await?;
    let Found::Loaded(loaded) = &mut found else {
        return Ok(found);
    };
    let current = loaded.group.settings().clone();
    let mut wanted = patches
        .iter()
        .fold(current.clone(), |settings, patch| patch.over(&settings));
    // These two cannot change while there are members, and there are.
    (wanted.ordered, wanted.filter) = (current.ordered, current.filter.clone());
    if wanted == current {
        return Ok(found);
    }
    let save = Write::SaveGroup {
        topic,
        group,
        epoch: loaded.claim.epoch,
        settings: wanted.clone(),
        paused: loaded.paused.clone(),
    };
    match shared.perform(save).await {
        Ok(Ok(_)) => loaded.group.apply_settings(wanted),
        other => tracing::warn!(?other, "the settings of a group that was taken over could not be saved"),
    }
    Ok(found)
}
