//! The members of a group: what each may be given, what it holds, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::MemberId;
use crate::domain::MemberSettings;

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub settings: MemberSettings,
    pub paused: bool,
    pub credit_events: u32,
    pub credit_bytes: usize,
    /// The seqs it holds.
    pub leases: BTreeSet<u64>,
    /// Whether the caller was told that it wants credit.
    pub asked_for_credit: bool,
}

impl Member {
    /// How many more events it may hold; 0 while it is paused.
    pub fn room(&self) -> usize {
        if self.paused {
            return 0;
        }
        (self.settings.max_in_flight as usize).saturating_sub(self.leases.len())
    }

    fn may_take(&self) -> bool {
        self.room() > 0 && self.credit_events > 0
    }

    /// Whether its credit is enough for an event of this size.
    pub fn can_afford(&self, bytes: usize) -> bool {
        self.credit_events > 0 && self.credit_bytes >= bytes
    }
}

/// All members, by id.
#[derive(Debug, Default)]
pub(super) struct Members {
    by_id: BTreeMap<MemberId, Member>,
    /// Whose turn was last.
    served_last: MemberId,
}

impl Members {
    pub fn join(&mut self, id: MemberId, settings: MemberSettings) {
        let fresh = Member {
            settings,
            paused: false,
            credit_events: 0,
            credit_bytes: 0,
            leases: BTreeSet::new(),
            asked_for_credit: false,
        };
        self.by_id.entry(id).or_insert(fresh).settings = settings;
    }

    /// Removes a member; the answer is what it held.
    pub fn leave(&mut self, id: MemberId) -> BTreeSet<u64> {
        self.by_id.remove(&id).map(|member| member.leases).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Member> {
        self.by_id.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values()
    }

    pub fn with_ids(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        self.by_id.iter().map(|(&id, member)| (id, member))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (MemberId, &mut Member)> {
        self.by_id.iter_mut().map(|(&id, member)| (id, member))
    }

    /// Ends a lease.
    pub fn release(&mut self, id: MemberId, seq: u64) {
        if let Some(member) = self.by_id.get_mut(&id) {
            member.leases.remove(&seq);
        }
    }

    /// Those that may take an event if it is not too large for them, the one whose turn it is first.
    pub fn takers(&self) -> VecDeque<MemberId> {
        let after = self.by_id.range((Excluded(self.served_last), Unbounded));
        let before = self.by_id.range(..=self.served_last);
        after
            .chain(before)
            .filter(|(_, member)| member.may_take())
            .map(|(&id, _)| id)
            .collect()
    }

    /// Gives an event to the first taker that has the credit for it. Those that do not are out of this round: a smaller
    /// event after it would reach them out of order.
    pub fn give(&mut self, takers: &mut VecDeque<MemberId>, seq: u64, bytes: usize) -> Option<(MemberId, u64)> {
        while let Some(id) = takers.pop_front() {
            let Some(member) = self.by_id.get_mut(&id).filter(|member| member.can_afford(bytes)) else {
                continue;
            };
            member.credit_events -= 1;
            member.credit_bytes -= bytes;
            member.leases.insert(seq);
            if member.may_take() {
                takers.push_back(id);
            }
            self.served_last = id;
            return Some((id, member.settings.ack_timeout_ms));
        }
        None
    }
}
