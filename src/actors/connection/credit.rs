//! How much a connection lets its subscriptions be given: credit, in events and bytes.
//!
//! Where pushes are not limited, credit is granted ahead, so that events need not wait for it. Where they are, a token is
//! taken before its credit is granted, and only for events that are there: an event that was handed out can be written at
//! once, and one that waits for a token waits in its group, without a lease.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::actors::limiter::Limiter;
use crate::actors::messages::GrantCredit;
use crate::domain::group::MemberId;

/// Credit ahead for one subscription, where pushes are not limited.
const EVENTS_AHEAD: u32 = 1_024;
/// Bytes ahead for one subscription, at most.
const BYTES_AHEAD: usize = 256 << 10;
/// Bytes ahead for one subscription, at least, however many there are.
const BYTES_AHEAD_MIN: usize = 16 << 10;
/// How many tokens one subscription is given before the next has its turn.
const TURN: u32 = 16;

/// One subscription's account.
#[derive(Debug, Default)]
struct Account {
    /// Granted and not used.
    events: u32,
    bytes: usize,
    /// What it asked for: events that are ready, bytes of the next one.
    want: Option<(u32, usize)>,
}

/// The accounts of a connection's subscriptions.
#[derive(Debug)]
pub(super) struct Credit {
    accounts: BTreeMap<MemberId, Account>,
    /// Those that asked, in the order of their turns.
    queue: VecDeque<MemberId>,
    /// Granted and not used, over all.
    bytes: usize,
    /// The most of that.
    bytes_max: usize,
}

impl Credit {
    /// `bytes_max`: the most that may be on its way to the socket.
    pub(super) fn new(bytes_max: usize) -> Credit {
        Credit {
            accounts: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn open(&mut self, member: MemberId) {
        self.accounts.insert(member, Account::default());
    }

    pub(super) fn close(&mut self, member: MemberId) {
        if let Some(account) = self.accounts.remove(&member) {
            self.bytes = self.bytes.saturating_sub(account.bytes);
        }
        self.queue.retain(|queued| *queued != member);
    }

    /// The subscription has events but not the credit for them.
    pub(super) fn want(&mut self, member: MemberId, events: u32, bytes: usize) {
        if let Some(account) = self.accounts.get_mut(&member)
            && account.want.replace((events, bytes)).is_none()
        {
            self.queue.push_back(member);
        }
    }

    /// An event was written.
    pub(super) fn used(&mut self, member: MemberId, bytes: usize) {
        if let Some(account) = self.accounts.get_mut(&member) {
            account.events = account.events.saturating_sub(1);
            let used = bytes.min(account.bytes);
            account.bytes -= used;
            self.bytes = self.bytes.saturating_sub(used);
        }
    }

    /// What can be granted now; and where a token is missing, how long the next one takes.
    pub(super) fn grant(&mut self, pushes: &Limiter) -> (Vec<GrantCredit>, Option<Duration>) {
        let mut grants = Vec::new();
        let wait = self.serve_wishes(pushes, &mut grants);
        if pushes.is_off() {
            self.grant_ahead(&mut grants);
        }
        (grants, wait)
    }

    fn serve_wishes(&mut self, pushes: &Limiter, grants: &mut Vec<GrantCredit>) -> Option<Duration> {
        while let Some(&member) = self.queue.front() {
            let Some((events, next)) = self.accounts.get(&member).and_then(|account| account.want) else {
                self.queue.pop_front();
                continue;
            };
            let has = self
                .accounts
                .get(&member)
                .map_or((0, 0), |account| (account.events, account.bytes));
            let bytes = self.bytes_ahead().max(next).saturating_sub(has.1);
            if self.bytes > 0 && self.bytes + bytes > self.bytes_max.max(next) {
                // No room: what is written next makes some, and looks here again.
                return None;
            }
            let tokens = match events.max(1).saturating_sub(has.0).min(TURN) {
                0 => 0,
                missing => match pushes.take_up_to(missing) {
                    Ok(tokens) => tokens,
                    Err(_) if has.0 > 0 => 0,
                    Err(wait) => return Some(wait),
                },
            };
            self.queue.pop_front();
            if let Some(account) = self.accounts.get_mut(&member) {
                account.want = None;
            }
            self.book(
                GrantCredit {
                    member,
                    events: tokens,
                    bytes,
                },
                grants,
            );
        }
        None
    }

    fn grant_ahead(&mut self, grants: &mut Vec<GrantCredit>) {
        let ahead = self.bytes_ahead();
        let low = |account: &Account| account.events <= EVENTS_AHEAD / 2 || account.bytes <= ahead / 2;
        let low: Vec<(MemberId, u32, usize)> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.want.is_none() && low(account))
            .map(|(member, account)| (*member, account.events, account.bytes))
            .collect();
        for (member, events, bytes) in low {
            let bytes = ahead.saturating_sub(bytes);
            if self.bytes + bytes <= self.bytes_max {
                self.book(
                    GrantCredit {
                        member,
                        events: EVENTS_AHEAD.saturating_sub(events),
                        bytes,
                    },
                    grants,
                );
            }
        }
    }

    fn book(&mut self, grant: GrantCredit, grants: &mut Vec<GrantCredit>) {
        if let Some(account) = self.accounts.get_mut(&grant.member) {
            account.events = account.events.saturating_add(grant.events);
            account.bytes += grant.bytes;
            self.bytes += grant.bytes;
            grants.push(grant);
        }
    }

    fn bytes_ahead(&self) -> usize {
        (self.bytes_max / 2 / self.accounts.len().max(1)).clamp(BYTES_AHEAD_MIN, BYTES_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::{Bucket, Limit};

    const MEMBER: MemberId = 1;

    fn limited(capacity: u32, refill_per_sec: f64) -> Limiter {
        Limiter::new(
            &Limit::Bucket(Bucket {
                capacity,
                refill_per_sec,
            }),
            Clock::new(),
        )
    }

    fn events(grants: &[GrantCredit]) -> u32 {
        grants.iter().map(|grant| grant.events).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_credit_is_granted_ahead_and_topped_up() {
        let off = Limiter::new(&Limit::Off, Clock::new());
        let mut credit = Credit::new(8 << 20);
        credit.open(MEMBER);
        let (grants, wait) = credit.grant(&off);
        assert_eq!(
            (events(&grants), grants[0].bytes, wait),
            (EVENTS_AHEAD, BYTES_AHEAD, None)
        );
        assert!(credit.grant(&off).0.is_empty(), "nothing is missing");
        for _ in 0..EVENTS_AHEAD / 2 {
            credit.used(MEMBER, 10);
        }
        assert_eq!(events(&credit.grant(&off).0), EVENTS_AHEAD / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_nth_push_comes_when_its_token_does() {
        let pushes = limited(2, 4.0);
        let mut credit = Credit::new(8 << 20);
        credit.open(MEMBER);
        assert!(credit.grant(&pushes).0.is_empty(), "no token is taken for nothing");
        credit.want(MEMBER, 5, 100);
        let (grants, _) = credit.grant(&pushes);
        assert_eq!(events(&grants), 2);
        for nth in 3..=5 {
            credit.used(MEMBER, 100);
            credit.used(MEMBER, 100);
            credit.want(MEMBER, 5 - nth + 1, 100);
            let (grants, wait) = credit.grant(&pushes);
            assert!(grants.is_empty(), "push {nth} has no token yet");
            assert_eq!(wait, Some(Duration::from_millis(250)));
            tokio::time::advance(Duration::from_millis(249)).await;
            assert_eq!(credit.grant(&pushes), (vec![], Some(Duration::from_millis(1))));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(events(&credit.grant(&pushes).0), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_take_turns_for_tokens() {
        let pushes = limited(32, 1.0);
        let mut credit = Credit::new(8 << 20);
        credit.open(1);
        credit.open(2);
        credit.want(1, 1_000, 10);
        credit.want(2, 1_000, 10);
        let (grants, _) = credit.grant(&pushes);
        let of = |member| {
            events(
                &grants
                    .iter()
                    .filter(|grant| grant.member == member)
                    .copied()
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!((of(1), of(2)), (16, 16));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_on_their_way_are_bounded() {
        let off = Limiter::new(&Limit::Off, Clock::new());
        let mut credit = Credit::new(1 << 20);
        for member in 0..256 {
            credit.open(member);
        }
        let (grants, _) = credit.grant(&off);
        assert!(grants.iter().map(|grant| grant.bytes).sum::<usize>() <= 1 << 20);
        // A large event waits until there is room, and then it gets it.
        let mut credit = Credit::new(1 << 20);
        credit.open(1);
        credit.open(2);
        credit.grant(&off);
        credit.want(1, 1, 1 << 20);
        assert!(credit.grant(&off).0.is_empty());
        credit.used(1, 256 << 10);
        credit.close(2);
        let (grants, _) = credit.grant(&off);
        assert_eq!(grants[0].bytes, 1 << 20);
    }
}
