//! How many events a connection lets its subscriptions be given: credit.
//!
//! Where pushes are not limited, credit is granted ahead, so that events need not wait for it. Where they are, a token is
//! taken before its credit is granted, and only for events that are there: an event that was handed out can be written at
//! once, and one that waits for a token waits in its group, without a lease. Bytes are counted by [`super::Room`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Room;
use crate::actors::limiter::Limiter;
use crate::actors::messages::GrantCredit;
use crate::domain::group::MemberId;

/// Credit ahead for one subscription, where pushes are not limited.
const EVENTS_AHEAD: u32 = 1_024;
/// How many tokens one subscription is given before the next has its turn.
const TURN: u32 = 16;

/// One subscription's account.
#[derive(Debug, Default)]
struct Account {
    /// Granted and not used.
    events: u32,
    /// What it asked for: how many events are ready, and the bytes of the next one.
    wish: Option<(u32, usize)>,
}

/// The accounts of a connection's subscriptions.
#[derive(Debug, Default)]
pub(super) struct Credit {
    accounts: BTreeMap<MemberId, Account>,
    /// Those that asked, in the order of their turns.
    queue: VecDeque<MemberId>,
    /// Those with less than half of their credit ahead.
    low: Vec<MemberId>,
}

impl Credit {
    pub(super) fn open(&mut self, member: MemberId) {
        self.accounts.insert(member, Account::default());
        self.low.push(member);
    }

    pub(super) fn close(&mut self, member: MemberId) {
        self.accounts.remove(&member);
        self.queue.retain(|queued| *queued != member);
    }

    /// The subscription has events but not the credit or the room for them.
    pub(super) fn wish(&mut self, member: MemberId, events: u32, bytes: usize) {
        if let Some(account) = self.accounts.get_mut(&member)
            && account.wish.replace((events, bytes)).is_none()
        {
            self.queue.push_back(member);
        }
    }

    /// Events were written.
    pub(super) fn used(&mut self, member: MemberId, events: usize) {
        if let Some(account) = self.accounts.get_mut(&member) {
            let before = account.events;
            account.events = before.saturating_sub(u32::try_from(events).unwrap_or(u32::MAX));
            if before > EVENTS_AHEAD / 2 && account.events <= EVENTS_AHEAD / 2 {
                self.low.push(member);
            }
        }
    }

    /// What can be granted now; and where a token is missing, how long the next one takes.
    pub(super) fn grant(&mut self, pushes: &Limiter, room: &Room) -> (Vec<GrantCredit>, Option<Duration>) {
        let mut grants = Vec::new();
        let wait = self.serve_wishes(pushes, room, &mut grants);
        let low = std::mem::take(&mut self.low);
        if pushes.is_off() {
            for member in low {
                let missing = self
                    .accounts
                    .get(&member)
                    .map_or(0, |account| EVENTS_AHEAD.saturating_sub(account.events));
                self.book(member, missing, &mut grants);
            }
        }
        (grants, wait)
    }

    fn serve_wishes(&mut self, pushes: &Limiter, room: &Room, grants: &mut Vec<GrantCredit>) -> Option<Duration> {
        // Once around: who is still not served has its turn when room or a token comes.
        for _ in 0..self.queue.len() {
            let member = self.queue.pop_front()?;
            let Some(account) = self.accounts.get_mut(&member) else {
                continue;
            };
            let Some((events, bytes)) = account.wish else { continue };
            if !room.has(bytes) {
                self.queue.push_back(member);
                continue;
            }
            let tokens = match events.saturating_sub(account.events).min(TURN) {
                // It lacked room only: a grant of nothing tells it that there is some.
                0 => 0,
                missing => match pushes.take_up_to(missing) {
                    Ok(tokens) => tokens,
                    Err(wait) => {
                        self.queue.push_front(member);
                        return Some(wait);
                    }
                },
            };
            account.wish = None;
            self.book(member, tokens, grants);
        }
        None
    }

    fn book(&mut self, member: MemberId, events: u32, grants: &mut Vec<GrantCredit>) {
        if let Some(account) = self.accounts.get_mut(&member) {
            account.events = account.events.saturating_add(events);
            grants.push(GrantCredit { member, events });
        }
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
        let (mut credit, room) = (Credit::default(), Room::new(1_000));
        credit.open(MEMBER);
        assert_eq!(events(&credit.grant(&off, &room).0), EVENTS_AHEAD);
        assert!(credit.grant(&off, &room).0.is_empty(), "nothing is missing");
        credit.used(MEMBER, EVENTS_AHEAD as usize / 2);
        assert_eq!(events(&credit.grant(&off, &room).0), EVENTS_AHEAD / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_nth_push_comes_when_its_token_does() {
        let pushes = limited(2, 4.0);
        let (mut credit, room) = (Credit::default(), Room::new(1_000));
        credit.open(MEMBER);
        assert!(
            credit.grant(&pushes, &room).0.is_empty(),
            "no token is taken for nothing"
        );
        credit.wish(MEMBER, 5, 100);
        assert_eq!(events(&credit.grant(&pushes, &room).0), 2);
        credit.used(MEMBER, 2);
        for nth in 3..=5 {
            credit.wish(MEMBER, 5 - nth + 1, 100);
            let (grants, wait) = credit.grant(&pushes, &room);
            assert!(grants.is_empty(), "push {nth} has no token yet");
            assert_eq!(wait, Some(Duration::from_millis(250)));
            tokio::time::advance(Duration::from_millis(249)).await;
            assert_eq!(credit.grant(&pushes, &room), (vec![], Some(Duration::from_millis(1))));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(events(&credit.grant(&pushes, &room).0), 1);
            credit.used(MEMBER, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_take_turns_for_tokens() {
        let pushes = limited(32, 1.0);
        let (mut credit, room) = (Credit::default(), Room::new(1_000));
        for member in [1, 2] {
            credit.open(member);
            credit.wish(member, 1_000, 10);
        }
        let (grants, _) = credit.grant(&pushes, &room);
        let expected = [
            GrantCredit { member: 1, events: 16 },
            GrantCredit { member: 2, events: 16 },
        ];
        assert_eq!(grants, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn who_lacks_room_is_told_when_there_is_some_and_takes_no_token() {
        let pushes = limited(1, 1.0);
        let (mut credit, room) = (Credit::default(), Room::new(1_000));
        credit.open(MEMBER);
        assert!(room.take(600));
        credit.wish(MEMBER, 1, 500);
        assert_eq!(credit.grant(&pushes, &room), (vec![], None));
        room.give_back(600);
        assert_eq!(events(&credit.grant(&pushes, &room).0), 1);
        credit.wish(MEMBER, 1, 500);
        assert_eq!(
            credit.grant(&pushes, &room),
            (
                vec![GrantCredit {
                    member: MEMBER,
                    events: 0
                }],
                None
            )
        );
    }
}
