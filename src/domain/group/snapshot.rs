//! A group as it stands at a moment, for those who ask why it moves or does not.

use super::entry::{Entry, Spot, State};
use super::{Group, MemberId, Stats};
use crate::domain::{GroupSettings, PartitionCursor};

/// The most leases of a member that are told one by one.
const LEASES_TOLD: usize = 5;

/// A group as it stands at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// What the group has in common.
    pub settings: GroupSettings,
    /// Counts of what it holds.
    pub stats: Stats,
    /// How many events up to the tail are not acked.
    pub lag: u64,
    /// Everything up to this seq was looked at.
    pub read_position: u64,
    /// Whether it would look further, had its window room.
    pub window_full: bool,
    /// Where it is, partition by partition.
    pub cursors: Vec<PartitionCursor>,
    /// By number.
    pub members: Vec<MemberSnapshot>,
    /// The lowest that is not acked, of those read.
    pub oldest: Option<Unacked>,
    /// The earliest end of a lease.
    pub lease_ends_ms: Option<u64>,
    /// The earliest end of a wait for redelivery.
    pub retry_due_ms: Option<u64>,
    /// With `ordered`: the key for whose oldest event the most others wait.
    pub blocked_key: Option<BlockedKey>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSnapshot {
    /// Who.
    pub id: MemberId,
    /// Whether it asked for a pause.
    pub paused: bool,
    /// The most that it may hold.
    pub max_in_flight: u32,
    /// How many events it holds.
    pub held: usize,
    /// The first of them.
    pub leases: Vec<Unacked>,
    /// How many events it may be given now.
    pub credit: u32,
    /// Whether something is ready for it that it has not the credit or the room for.
    pub wants_credit: bool,
}

/// An event that is not acked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unacked {
    /// Its seq.
    pub seq: u64,
    /// Its id.
    pub id: Box<str>,
    /// Its key.
    pub key: Option<Box<str>>,
    /// How many deliveries of it failed.
    pub attempts: u32,
    /// When it came.
    pub at: u64,
    /// Where it stands.
    pub state: UnackedState,
}

/// Where an event stands between being read and being acked. Times are epoch milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnackedState {
    /// It can be delivered.
    Ready,
    /// It waits for an earlier event of its key.
    Held,
    /// It is with a member.
    Leased {
        /// With whom.
        member: MemberId,
        /// Since when.
        since_ms: u64,
        /// Until when.
        until_ms: u64,
    },
    /// It waits for its redelivery.
    Waiting {
        /// Until when.
        until_ms: u64,
    },
    /// It is on its way to the dead letters.
    Dying,
}

/// A key whose events wait for one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedKey {
    /// Which.
    pub key: Box<str>,
    /// How many events wait.
    pub waiting: usize,
    /// For this one.
    pub behind: Unacked,
}

impl Group {
    /// How many events up to the tail are not acked: exactly, but that events are counted which a filter has yet to
    /// leave out.
    pub fn lag(&self, tail: u64) -> u64 {
        if self.read_position >= tail {
            // What is not in the window is settled, also where the log lost the last events of a partition.
            return self.window.len() as u64;
        }
        tail.saturating_sub(self.settled())
    }

    /// How many events of the log are settled: acked, left out or gone. It goes down only with a seek.
    pub fn settled(&self) -> u64 {
        let partitions = self.partitions.values();
        let settled = partitions.map(|progress| progress.settled(self.read_position));
        settled.fold(0, u64::saturating_add)
    }

    /// The group as it stands, where the log ends at `tail`.
    pub fn snapshot(&self, tail: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            settings: self.settings.clone(),
            stats: self.stats(),
            lag: self.lag(tail),
            read_position: self.read_position,
            window_full: tail > self.read_position && !self.in_window(self.read_position + 1),
            cursors: self.cursors(),
            members: Vec::new(),
            oldest: None,
            lease_ends_ms: None,
            retry_due_ms: None,
            blocked_key: None,
        };
        for (seq, entry) in self.window.iter() {
            let earliest = match entry.state {
                State::Leased { .. } => &mut snapshot.lease_ends_ms,
                State::Waiting => &mut snapshot.retry_due_ms,
                State::Ready | State::Dying => &mut None,
            };
            if let Spot::Timed(at) = entry.spot {
                *earliest = Some(earliest.map_or(at, |before: u64| before.min(at)));
            }
            snapshot.oldest.get_or_insert_with(|| unacked(seq, entry));
        }
        snapshot.blocked_key = self.blocked_key();
        let members = self.members.with_ids();
        snapshot.members = members
            .map(|(id, member)| MemberSnapshot {
                id,
                paused: member.paused,
                max_in_flight: member.settings.max_in_flight,
                held: member.leases.len(),
                leases: member
                    .leases
                    .iter()
                    .take(LEASES_TOLD)
                    .filter_map(|&seq| Some(unacked(seq, self.window.get(seq)?)))
                    .collect(),
                credit: member.credit_events,
                wants_credit: member.asked_for_credit,
            })
            .collect();
        snapshot
    }

    fn blocked_key(&self) -> Option<BlockedKey> {
        let held = self.window.iter().filter(|(_, entry)| is_held(entry));
        let holders = held.filter_map(|(_, entry)| Some((self.window.key_holder(entry)?, entry.key.as_deref()?)));
        let ((seq, waiting), key) = holders.max_by_key(|((_, waiting), _)| *waiting)?;
        Some(BlockedKey {
            key: key.into(),
            waiting,
            behind: unacked(seq, self.window.get(seq)?),
        })
    }
}

fn is_held(entry: &Entry) -> bool {
    entry.state == State::Ready && entry.spot == Spot::Nowhere
}

fn unacked(seq: u64, entry: &Entry) -> Unacked {
    Unacked {
        seq,
        id: entry.id.as_ref().into(),
        key: entry.key.as_deref().map(Box::from),
        attempts: entry.attempts,
        at: entry.at,
        state: match entry.state {
            State::Leased { member, until_ms } => UnackedState::Leased {
                member,
                since_ms: entry.delivered_ms,
                until_ms,
            },
            State::Waiting => UnackedState::Waiting { until_ms: entry.due_ms },
            State::Dying => UnackedState::Dying,
            State::Ready if is_held(entry) => UnackedState::Held,
            State::Ready => UnackedState::Ready,
        },
    }
}
