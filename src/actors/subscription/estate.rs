//! What a group's actor that ends without its doing leaves to the one that follows: who its members are and what they
//! hold. They join again by themselves; until then, and as long as their leases last, nobody else is given what they hold.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Member, SubscriptionActor};
use crate::domain::group::{Departure, Estate, MemberId};
use crate::domain::{GroupName, TopicName};

/// How long a member may take to join again, and an estate to be claimed. A connection tries for a few seconds.
const CLAIM: Duration = Duration::from_secs(10);

struct Left {
    at: Instant,
    /// A seek in between makes it void.
    seeks: u64,
    estate: Estate,
    members: HashMap<MemberId, Member>,
}

/// The estates that nobody has claimed yet.
#[derive(Default)]
pub struct Estates(Mutex<HashMap<(TopicName, GroupName), Left>>);

impl Estates {
    fn leave(&self, whose: (TopicName, GroupName), left: Left) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, left| left.at.elapsed() < CLAIM);
        all.insert(whose, left);
    }

    fn claim(&self, whose: &(TopicName, GroupName)) -> Option<Left> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(whose).filter(|left| left.at.elapsed() < CLAIM)
    }
}

impl SubscriptionActor {
    /// Leaves what its members hold to its successor.
    pub(super) fn bequeath(&mut self) {
        let Some((group, claim)) = &self.state else { return };
        let unsent = |seq| {
            let mut unsent = self.handing_over.iter().flat_map(|(_, deliveries)| deliveries);
            unsent.any(|delivery| delivery.event.seq == seq)
        };
        let left = Left {
            at: Instant::now(),
            seeks: claim.seeks,
            estate: group.estate(|seq| !unsent(seq)),
            members: self.members.clone(),
        };
        self.shared.estates.leave((self.topic.clone(), self.name.clone()), left);
    }

    /// Takes over what its predecessor left.
    pub(super) fn inherit(&mut self) {
        let left = self.shared.estates.claim(&(self.topic.clone(), self.name.clone()));
        let (Some(left), Some((group, claim))) = (left, &mut self.state) else {
            return;
        };
        if left.seeks != claim.seeks {
            return;
        }
        group.inherit(left.estate);
        self.awaited = left.members.keys().map(|id| (*id, left.at + CLAIM)).collect();
        self.members = left.members;
        self.dismiss_the_gone();
    }

    /// Members whose connections are gone without a word leave.
    pub(super) fn dismiss_the_gone(&mut self) {
        let gone = self.members.iter().filter(|(_, member)| !member.connection.is_open());
        let gone: Vec<MemberId> = gone.map(|(id, _)| *id).collect();
        for member in gone {
            self.remove_member(member, Departure::Counted);
        }
    }

    /// Members that did not join again in time are gone.
    pub(super) fn dismiss_the_missing(&mut self) {
        let now = Instant::now();
        let missing: Vec<MemberId> = self
            .awaited
            .extract_if(|_, until| *until <= now)
            .map(|(id, _)| id)
            .collect();
        for member in missing {
            self.remove_member(member, Departure::Uncounted);
        }
    }
}
