//! The verdict as one sentence for a person.

use std::time::{Duration, SystemTime};

use super::facts::{Facts, MemberFacts};
use super::judge::{Moment, State, What};
use crate::domain::group::{Unacked, UnackedState};

/// The most members that are named.
const MEMBERS_NAMED: usize = 3;

pub(super) fn of(facts: &Facts, state: State, next: Moment, events: u64, zero_lag_in_ms: Option<u64>) -> String {
    let now = facts.now_ms;
    let why = match state {
        State::CaughtUp => "Caught up: 0 events wait".to_owned(),
        State::Moving => moving(facts, zero_lag_in_ms),
        State::Paused => {
            let pause = facts.paused.as_ref();
            let by = pause.map_or("somebody", |pause| &*pause.by);
            let since = pause.map_or(now, |pause| pause.since_ms);
            format!("Paused by {by} since {}: {}", moment(since), wait(events))
        }
        State::NoMembers => format!("No members are connected: {}{}", wait(events), oldest(facts)),
        State::MembersPaused => {
            let members = facts.members.len();
            format!("All {members} members asked for a pause: {}", wait(events))
        }
        State::MaxInFlight => format!(
            "All members hold as many events as they may ({}): {} not acked",
            named(facts, holds),
            are(events)
        ),
        State::WindowFull => format!(
            "The window is full: {} not acked, and the group looks no further before {}",
            are(events),
            facts.oldest.as_ref().map_or_else(String::new, |event| {
                format!("{} is ({})", name(event), standing(event, facts))
            })
        ),
        State::WaitingForToken => format!(
            "Pushes wait for a token of {} ({}): {}",
            facts.bucket,
            named(facts, |member, _| {
                let wait = member.token_at_ms.map_or(0, |at| at.saturating_sub(now));
                format!("the next one comes in {}", span(wait))
            }),
            wait(events)
        ),
        State::NotReading => format!(
            "The client does not read ({}): {}",
            named(facts, |member, now| {
                let since = member.blocked_since_ms.map_or(0, |since| now.saturating_sub(since));
                let (bytes, held) = (member.waiting_bytes, member.rules.held);
                format!(
                    "nothing taken for {}, {bytes} bytes wait, it holds {held} events",
                    span(since)
                )
            }),
            wait(events)
        ),
        State::KeyBlocked => match &facts.blocked_key {
            Some(key) => format!(
                "{} of the key {:?} behind {} ({})",
                are(events),
                key.key,
                name(&key.behind),
                standing(&key.behind, facts)
            ),
            None => format!("{} for earlier ones of their keys", wait(events)),
        },
        State::BackOff => format!(
            "{} for the next delivery after a failure{}",
            wait(events),
            oldest(facts)
        ),
        State::InFlight => format!("{} with members and not acked ({})", are(events), named(facts, holds)),
        State::StoreUnavailable => {
            let why = facts.store.as_ref().map_or("", |trouble| &trouble.why);
            let since = facts.store.as_ref().map_or(now, |trouble| trouble.since_ms);
            format!("The store fails since {} ({why}): {}", moment(since), wait(events))
        }
        State::Delivering => format!("Nothing holds it up: {} about to be delivered", are(events)),
    };
    format!("{why}. {}.", outlook(facts, next))
}

fn moving(facts: &Facts, zero_lag_in_ms: Option<u64>) -> String {
    let (settled, published) = (facts.settled_per_second, facts.published_per_second);
    let left = count(facts.lag);
    match zero_lag_in_ms {
        Some(ms) => format!(
            "Moving: {settled:.1} events a second are settled, {published:.1} published; {left} are left, none in about {}",
            span(ms)
        ),
        None => format!(
            "Moving, but not catching up: {settled:.1} events a second are settled, {published:.1} published; {left} are left"
        ),
    }
}

/// What happens next.
fn outlook(facts: &Facts, next: Moment) -> String {
    let when = next.at_ms.map_or_else(String::new, |at| {
        format!("in {}", span(at.saturating_sub(facts.now_ms)))
    });
    match next.what {
        What::ZeroLag => format!("At these rates it has caught up {when}"),
        What::LeaseEnds => format!("The next lease ends {when}, and its event is delivered again"),
        What::Redelivery => format!("The next is delivered again {when}"),
        What::Token => format!("The next token comes {when}"),
        What::CutOff => format!("The client is cut off {when}, and what it holds goes to other members"),
        What::StoreRetry => format!("The store is asked again {when}"),
        What::Expiry => format!("Retention takes the oldest {when}"),
        What::Resume => "Nothing happens before it is resumed".to_owned(),
        What::Join => "Nothing happens before a member connects".to_owned(),
        What::MemberResume => "Nothing happens before a member resumes".to_owned(),
        What::Publish => "The next event is delivered when it is published".to_owned(),
        What::Delivery => "The next delivery is made now".to_owned(),
    }
}

/// Members that do not pause, with what is said of each.
fn named(facts: &Facts, say: impl Fn(&MemberFacts, u64) -> String) -> String {
    let active: Vec<&MemberFacts> = facts.members.iter().filter(|member| !member.rules.paused).collect();
    let say_one = |member: &&MemberFacts| {
        let (number, client) = (member.connection, &member.client);
        format!("connection {number} from {client}: {}", say(member, facts.now_ms))
    };
    let mut parts: Vec<String> = active.iter().take(MEMBERS_NAMED).map(say_one).collect();
    if active.len() > MEMBERS_NAMED {
        parts.push(format!("and {} more", active.len() - MEMBERS_NAMED));
    }
    parts.join("; ")
}

fn holds(member: &MemberFacts, now: u64) -> String {
    let (held, most) = (member.rules.held, member.rules.max_in_flight);
    let first = member.rules.leases.iter().find_map(|event| match event.state {
        UnackedState::Leased { since_ms, until_ms, .. } => Some((event, since_ms, until_ms)),
        _ => None,
    });
    match first {
        Some((event, since, until)) => format!(
            "{held} of {most}, {} for {}, until {} from now",
            name(event),
            span(now.saturating_sub(since)),
            span(until.saturating_sub(now))
        ),
        None => format!("{held} of {most}"),
    }
}

fn oldest(facts: &Facts) -> String {
    facts.oldest.as_ref().map_or_else(String::new, |event| {
        let age = span(facts.now_ms.saturating_sub(event.at));
        format!(
            ", the oldest is {} (came {age} ago, {} of {} attempts failed)",
            name(event),
            event.attempts,
            facts.max_attempts
        )
    })
}

fn standing(event: &Unacked, facts: &Facts) -> String {
    let (attempts, most) = (event.attempts, facts.max_attempts);
    let failed = format!("{attempts} of {most} attempts failed");
    match event.state {
        UnackedState::Leased {
            member,
            since_ms,
            until_ms,
        } => {
            let holder = facts.members.iter().find(|facts| facts.rules.id == member);
            let holder = holder.map_or_else(
                || "a member".to_owned(),
                |holder| format!("connection {} from {}", holder.connection, holder.client),
            );
            let (held, left) = (
                facts.now_ms.saturating_sub(since_ms),
                until_ms.saturating_sub(facts.now_ms),
            );
            format!(
                "with {holder} for {}, until {} from now, {failed}",
                span(held),
                span(left)
            )
        }
        UnackedState::Waiting { until_ms } => {
            let wait = span(until_ms.saturating_sub(facts.now_ms));
            format!("delivered again in {wait}, {failed}")
        }
        UnackedState::Ready => format!("ready to be delivered, {failed}"),
        UnackedState::Held => format!("behind another of its key, {failed}"),
        UnackedState::Dying => format!("on its way to the dead letters, {failed}"),
    }
}

fn name(event: &Unacked) -> String {
    format!("event {} ({})", event.seq, event.id)
}

fn count(events: u64) -> String {
    match events {
        1 => "1 event".to_owned(),
        _ => format!("{events} events"),
    }
}

/// How many wait.
fn wait(events: u64) -> String {
    match events {
        1 => "1 event waits".to_owned(),
        _ => format!("{events} events wait"),
    }
}

/// How many are something.
fn are(events: u64) -> String {
    match events {
        1 => "1 event is".to_owned(),
        _ => format!("{events} events are"),
    }
}

/// A length of time, with as many digits as a person needs.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => humantime::format_duration(Duration::from_secs(ms / 1_000)).to_string(),
    }
}

/// A moment.
fn moment(ms: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    // Only moments beyond the year 9999 cannot be written.
    at.filter(|_| ms <= crate::domain::TS_MAX).map_or_else(
        || ms.to_string(),
        |at| humantime::format_rfc3339_seconds(at).to_string(),
    )
}
