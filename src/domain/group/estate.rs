//! What a group that has to be built anew leaves to the one that follows: its members and what they hold. Without it an
//! event that is still with one member would be handed to another.

use super::entry::State;
use super::{Group, MemberId};
use crate::domain::MemberSettings;

/// A lease that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub seq: u64,
    pub member: MemberId,
    pub since_ms: u64,
    pub until_ms: u64,
}

/// What a group leaves behind.
#[derive(Debug, Default)]
pub struct Estate {
    members: Vec<(MemberId, MemberSettings)>,
    leases: Vec<Held>,
}

impl Group {
    /// What is to go on. `was_sent` says of a seq whether its delivery left the group: one that did not was never held.
    pub fn estate(&self, was_sent: impl Fn(u64) -> bool) -> Estate {
        let read = self.window.iter().filter_map(|(seq, entry)| match entry.state {
            State::Leased { member, until_ms } if was_sent(seq) => Some(Held {
                seq,
                member,
                since_ms: entry.delivered_ms,
                until_ms,
            }),
            _ => None,
        });
        Estate {
            members: self
                .members
                .with_ids()
                .map(|(id, member)| (id, member.settings))
                .collect(),
            leases: read.chain(self.inherited.values().copied()).collect(),
        }
    }

    /// Takes over, before anything is read: the members, paused until they join again, and their leases with
    /// the time that is left. An event gets its lease back when it is read; until then nobody else can be given it.
    pub fn inherit(&mut self, estate: Estate) {
        for (id, settings) in estate.members {
            self.members.join(id, settings);
            self.set_paused(id, true);
        }
        for held in estate.leases {
            if held.seq <= self.read_position {
                continue;
            }
            if let Some(member) = self.members.get_mut(held.member) {
                member.leases.insert(held.seq);
                self.inherited.insert(held.seq, held);
                // Whatever the demand: a lease has to end in time, and full members ask for nothing.
                self.read_through(held.seq);
            }
        }
    }

    /// An event was read: whoever held it holds it again.
    pub(super) fn hold_again(&mut self, seq: u64) {
        let Some(held) = self.inherited.remove(&seq) else {
            return;
        };
        let held_again = self.window.update(seq, |entry| {
            entry.state = State::Leased {
                member: held.member,
                until_ms: held.until_ms,
            };
            entry.delivered_ms = held.since_ms;
            entry.body = None;
        });
        if held_again.is_none() {
            self.members.release(held.member, seq);
        }
    }

    /// Leases of events that are no longer in the log.
    pub(super) fn forget_inherited_read_past(&mut self) {
        while let Some(entry) = self.inherited.first_entry()
            && *entry.key() <= self.read_position
        {
            let (seq, held) = entry.remove_entry();
            self.members.release(held.member, seq);
        }
    }

    /// What a member that left was to hold again is anybody's.
    pub(super) fn disinherit(&mut self, member: MemberId) {
        self.inherited.retain(|_, held| held.member != member);
    }
}
