//! From facts to a verdict: what holds a group up, how many events that holds up, and what happens next.

use super::facts::{Facts, MemberFacts};
use super::sentence;

/// A group that settled an event so lately is moving.
const MOVING_MS: u64 = 3_000;
/// A client that took nothing for so long does not read.
const NOT_READING_MS: u64 = 500;
/// How often a group asks a store again that failed it.
const STORE_RETRY_MS: u64 = 1_000;

/// What a group does, or why it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Everything is acked.
    CaughtUp,
    /// Events are being settled.
    Moving,
    /// The whole group is paused.
    Paused,
    /// Nobody is connected.
    NoMembers,
    /// All members asked for a pause.
    MembersPaused,
    /// All members hold as much as they may.
    MaxInFlight,
    /// The group looks no further before what it has looked at is acked.
    WindowFull,
    /// Pushes wait for a token.
    WaitingForToken,
    /// A client does not take what is written to it.
    NotReading,
    /// Events wait for an earlier one of their key.
    KeyBlocked,
    /// What failed waits for its next delivery.
    BackOff,
    /// All that is left is with members.
    InFlight,
    /// The store does not do what it is asked to.
    StoreUnavailable,
    /// Nothing holds it up: the next delivery is under way.
    Delivering,
}

impl State {
    /// For programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::CaughtUp => "caught_up",
            State::Moving => "moving",
            State::Paused => "paused",
            State::NoMembers => "no_members",
            State::MembersPaused => "members_paused",
            State::MaxInFlight => "max_in_flight",
            State::WindowFull => "window_full",
            State::WaitingForToken => "waiting_for_token",
            State::NotReading => "not_reading",
            State::KeyBlocked => "key_blocked",
            State::BackOff => "back_off",
            State::InFlight => "in_flight",
            State::StoreUnavailable => "store_unavailable",
            State::Delivering => "delivering",
        }
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The lag is zero, at the rates of now.
    ZeroLag,
    /// A lease ends, and its event comes again.
    LeaseEnds,
    /// An event is delivered again.
    Redelivery,
    /// There is a token.
    Token,
    /// A client that does not read is cut off, and what it holds goes to others.
    CutOff,
    /// The store is asked again.
    StoreRetry,
    /// Retention takes the oldest event.
    Expiry,
    /// Nothing by itself: an operator has to resume the group.
    Resume,
    /// Nothing by itself: a member has to connect.
    Join,
    /// Nothing by itself: a member has to resume.
    MemberResume,
    /// Nothing by itself: an event has to be published.
    Publish,
    /// Now.
    Delivery,
}

impl What {
    /// For programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            What::ZeroLag => "zero_lag",
            What::LeaseEnds => "lease_ends",
            What::Redelivery => "redelivery",
            What::Token => "token",
            What::CutOff => "cut_off",
            What::StoreRetry => "store_retry",
            What::Expiry => "expiry",
            What::Resume => "resume",
            What::Join => "join",
            What::MemberResume => "member_resume",
            What::Publish => "publish",
            What::Delivery => "delivery",
        }
    }
}

/// The next thing that happens, and when; no time where somebody has to do something first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// What.
    pub what: What,
    /// When, in epoch milliseconds.
    pub at_ms: Option<u64>,
}

/// The verdict.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// What it is.
    pub state: State,
    /// For people.
    pub sentence: String,
    /// How many events wait for what the state names.
    pub events: u64,
    /// What happens next.
    pub next: Moment,
    /// When the lag is zero at the rates of now, from now.
    pub zero_lag_in_ms: Option<u64>,
    /// What it was judged by.
    pub facts: Facts,
}

/// What hinders one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hindrance {
    NotReading,
    Token,
    Full,
}

fn hindrance(member: &MemberFacts, now_ms: u64) -> Option<Hindrance> {
    let silent = |since: u64| now_ms.saturating_sub(since) >= NOT_READING_MS;
    if member.blocked_since_ms.is_some_and(silent) {
        Some(Hindrance::NotReading)
    } else if member.rules.held >= member.rules.max_in_flight as usize {
        Some(Hindrance::Full)
    } else if member.rules.wants_credit && member.token_at_ms.is_some() {
        Some(Hindrance::Token)
    } else {
        None
    }
}

/// Says why a group moves or does not.
pub fn explain(facts: &Facts) -> Explanation {
    let zero_lag_in_ms = zero_lag_in_ms(facts);
    let state = judge(facts);
    let next = next(facts, state, zero_lag_in_ms);
    let events = events(facts, state);
    Explanation {
        state,
        sentence: sentence::of(facts, state, next, events, zero_lag_in_ms),
        events,
        next,
        zero_lag_in_ms,
        facts: facts.clone(),
    }
}

fn judge(facts: &Facts) -> State {
    if facts.store.is_some() {
        return State::StoreUnavailable;
    }
    if facts.paused.is_some() {
        return State::Paused;
    }
    if facts.lag == 0 {
        return State::CaughtUp;
    }
    if facts.members.is_empty() {
        return State::NoMembers;
    }
    let is_recent = |at: u64| facts.now_ms.saturating_sub(at) < MOVING_MS;
    if facts.settled_ms.is_some_and(is_recent) {
        return State::Moving;
    }
    let active: Vec<&MemberFacts> = facts.members.iter().filter(|member| !member.rules.paused).collect();
    if active.is_empty() {
        return State::MembersPaused;
    }
    if facts.window_full && facts.stats.ready == 0 {
        return State::WindowFull;
    }
    let hindrances: Vec<Option<Hindrance>> = active.iter().map(|member| hindrance(member, facts.now_ms)).collect();
    let any = |wanted| hindrances.contains(&Some(wanted));
    if !hindrances.contains(&None) {
        // What is most out of the ordinary is told first.
        return match () {
            () if any(Hindrance::NotReading) => State::NotReading,
            () if any(Hindrance::Token) => State::WaitingForToken,
            () => State::MaxInFlight,
        };
    }
    match facts.stats {
        stats if stats.ready > 0 => State::Delivering,
        stats if stats.held > 0 => State::KeyBlocked,
        stats if stats.inflight > 0 => State::InFlight,
        stats if stats.waiting > 0 => State::BackOff,
        _ => State::Delivering,
    }
}

/// How long until everything is acked, where that will be so at the rates of now.
fn zero_lag_in_ms(facts: &Facts) -> Option<u64> {
    let gain = facts.settled_per_second - facts.published_per_second;
    if facts.lag == 0 {
        return Some(0);
    }
    (gain > 0.0).then(|| (facts.lag as f64 * 1_000.0 / gain).ceil() as u64)
}

fn events(facts: &Facts, state: State) -> u64 {
    match state {
        State::KeyBlocked => facts.blocked_key.as_ref().map_or(0, |key| key.waiting as u64),
        State::BackOff => facts.stats.waiting as u64,
        State::InFlight => facts.stats.inflight as u64,
        _ => facts.lag,
    }
}

fn next(facts: &Facts, state: State, zero_lag_in_ms: Option<u64>) -> Moment {
    let at = |what, at_ms| Moment { what, at_ms };
    let lease = facts.lease_ends_ms.map(|ms| at(What::LeaseEnds, Some(ms)));
    let retry = facts.retry_due_ms.map(|ms| at(What::Redelivery, Some(ms)));
    let expiry = facts.oldest_expires_ms.map(|ms| at(What::Expiry, Some(ms)));
    let earliest = |moments: &[Option<Moment>]| moments.iter().flatten().min_by_key(|moment| moment.at_ms).copied();
    let of_members = |moment: fn(&MemberFacts) -> Option<u64>| facts.members.iter().filter_map(moment).min();
    let found = match state {
        State::CaughtUp => Some(at(What::Publish, None)),
        State::Moving => {
            let zero = zero_lag_in_ms.map(|ms| at(What::ZeroLag, Some(facts.now_ms.saturating_add(ms))));
            zero.or_else(|| earliest(&[lease, retry, expiry]))
        }
        State::Paused => earliest(&[lease, expiry]).or(Some(at(What::Resume, None))),
        State::NoMembers => expiry.or(Some(at(What::Join, None))),
        State::MembersPaused => earliest(&[lease, expiry]).or(Some(at(What::MemberResume, None))),
        State::MaxInFlight | State::InFlight => earliest(&[lease, retry]),
        State::WindowFull | State::KeyBlocked | State::BackOff => earliest(&[lease, retry]),
        State::WaitingForToken => {
            let token = of_members(|member| member.token_at_ms);
            earliest(&[token.map(|ms| at(What::Token, Some(ms))), lease])
        }
        State::NotReading => {
            let since = of_members(|member| member.blocked_since_ms);
            since.map(|ms| at(What::CutOff, Some(ms.saturating_add(facts.write_timeout_ms))))
        }
        State::StoreUnavailable => Some(at(What::StoreRetry, Some(facts.now_ms + STORE_RETRY_MS))),
        State::Delivering => None,
    };
    found.unwrap_or(at(What::Delivery, Some(facts.now_ms)))
}
