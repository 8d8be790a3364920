//! Each case, from facts alone.

use super::*;
use crate::actors::subscription::Trouble;
use crate::domain::group::{BlockedKey, MemberSnapshot, Stats, Unacked, UnackedState};
use crate::store::Pause;

const NOW: u64 = 1_800_000_000_000;

fn facts() -> Facts {
    Facts {
        topic: "t".parse().unwrap(),
        group: "g".parse().unwrap(),
        now_ms: NOW,
        lag: 12,
        oldest: Some(event(5, UnackedState::Ready)),
        oldest_expires_ms: None,
        published_per_second: 0.0,
        settled_per_second: 0.0,
        settled_ms: None,
        paused: None,
        store: None,
        members: vec![member(1)],
        stats: Stats::default(),
        window_full: false,
        lease_ends_ms: None,
        retry_due_ms: None,
        blocked_key: None,
        max_attempts: 5,
        bucket: "limits.connection",
        write_timeout_ms: 10_000,
    }
}

fn event(seq: u64, state: UnackedState) -> Unacked {
    Unacked {
        seq,
        id: format!("id-{seq}").into(),
        key: None,
        attempts: 2,
        at: NOW - 90_000,
        state,
    }
}

fn member(id: u64) -> MemberFacts {
    MemberFacts {
        rules: MemberSnapshot {
            id,
            paused: false,
            max_in_flight: 2,
            held: 0,
            leases: Vec::new(),
            credit: 0,
            wants_credit: false,
        },
        connection: id + 100,
        client: "10.0.0.7".to_owned(),
        waiting_bytes: 0,
        blocked_since_ms: None,
        token_at_ms: None,
    }
}

fn full(id: u64) -> MemberFacts {
    let mut full = member(id);
    full.rules.held = 2;
    full.rules.leases = vec![event(
        5,
        UnackedState::Leased {
            member: id,
            since_ms: NOW - 4_000,
            until_ms: NOW + 26_000,
        },
    )];
    full
}

fn judged(facts: &Facts, state: State, what: What, in_ms: Option<u64>) -> String {
    let explanation = explain(facts);
    assert_eq!(explanation.state, state, "{}", explanation.sentence);
    let next = Moment {
        what,
        at_ms: in_ms.map(|ms| NOW + ms),
    };
    assert_eq!(explanation.next, next, "{}", explanation.sentence);
    assert!(explanation.sentence.contains(char::is_numeric));
    explanation.sentence
}

#[test]
fn moving_says_how_fast_and_when_it_is_done() {
    let mut facts = facts();
    (facts.settled_ms, facts.settled_per_second, facts.published_per_second) = (Some(NOW - 10), 5.0, 2.0);
    let sentence = judged(&facts, State::Moving, What::ZeroLag, Some(4_000));
    assert_eq!(
        sentence,
        "Moving: 5.0 events a second are settled, 2.0 published; 12 events are left, none in about 4.0 s. At these rates \
         it has caught up in 4.0 s."
    );
    facts.published_per_second = 5.0;
    facts.lease_ends_ms = Some(NOW + 700);
    let sentence = judged(&facts, State::Moving, What::LeaseEnds, Some(700));
    assert!(sentence.starts_with("Moving, but not catching up"), "{sentence}");
}

#[test]
fn a_group_that_settled_nothing_for_a_while_does_not_move() {
    let mut facts = facts();
    facts.settled_ms = Some(NOW - 3_000);
    facts.members = vec![full(1)];
    assert_eq!(explain(&facts).state, State::MaxInFlight);
}

#[test]
fn paused_by_whom_and_since_when() {
    let mut facts = facts();
    facts.paused = Some(Pause {
        by: "ann".into(),
        since_ms: NOW - 60_000,
    });
    let sentence = judged(&facts, State::Paused, What::Resume, None);
    assert_eq!(
        sentence,
        "Paused by ann since 2027-01-15T07:59:00Z: 12 events wait. Nothing happens before it is resumed."
    );
    facts.lag = 0;
    assert_eq!(explain(&facts).state, State::Paused, "also where nothing waits");
    facts.oldest_expires_ms = Some(NOW + 120_000);
    let sentence = judged(&facts, State::Paused, What::Expiry, Some(120_000));
    assert!(sentence.ends_with("Retention takes the oldest in 2m."), "{sentence}");
}

#[test]
fn nobody_there_or_nobody_awake() {
    let mut facts = facts();
    facts.members.clear();
    let sentence = judged(&facts, State::NoMembers, What::Join, None);
    assert_eq!(
        sentence,
        "No members are connected: 12 events wait, the oldest is event 5 (id-5) (came 1m 30s ago, 2 of 5 attempts \
         failed). Nothing happens before a member connects."
    );
    facts.members = vec![member(1), member(2)];
    facts.members.iter_mut().for_each(|member| member.rules.paused = true);
    let sentence = judged(&facts, State::MembersPaused, What::MemberResume, None);
    assert!(
        sentence.starts_with("All 2 members asked for a pause: 12 events wait"),
        "{sentence}"
    );
    facts.lag = 0;
    judged(&facts, State::CaughtUp, What::Publish, None);
}

#[test]
fn everybody_full_says_who_holds_what_since_and_until_when() {
    let mut facts = facts();
    facts.members = (1..=5).map(full).collect();
    facts.lease_ends_ms = Some(NOW + 26_000);
    let sentence = judged(&facts, State::MaxInFlight, What::LeaseEnds, Some(26_000));
    let named = "connection 101 from 10.0.0.7: 2 of 2, event 5 (id-5) for 4.0 s, until 26.0 s from now";
    assert!(
        sentence.contains(named) && sentence.contains("and 2 more"),
        "{sentence}"
    );
    facts.members.push(member(6));
    facts.stats.inflight = 10;
    judged(&facts, State::InFlight, What::LeaseEnds, Some(26_000));
}

#[test]
fn a_full_window_names_its_oldest_event() {
    let mut facts = facts();
    facts.window_full = true;
    facts.stats.waiting = 1;
    facts.retry_due_ms = Some(NOW + 2_500);
    facts.oldest = Some(event(5, UnackedState::Waiting { until_ms: NOW + 2_500 }));
    let sentence = judged(&facts, State::WindowFull, What::Redelivery, Some(2_500));
    let oldest = "before event 5 (id-5) is (delivered again in 2.5 s, 2 of 5 attempts failed)";
    assert!(sentence.contains(oldest), "{sentence}");
    facts.stats.ready = 3;
    assert_ne!(
        explain(&facts).state,
        State::WindowFull,
        "as long as there is something to deliver"
    );
}

#[test]
fn a_missing_token_names_its_bucket() {
    let mut facts = facts();
    facts.stats.ready = 12;
    facts.members[0].rules.wants_credit = true;
    facts.members[0].token_at_ms = Some(NOW + 250);
    let sentence = judged(&facts, State::WaitingForToken, What::Token, Some(250));
    assert!(
        sentence.contains("limits.connection") && sentence.contains("in 250 ms"),
        "{sentence}"
    );
    facts.members.push(member(2));
    judged(&facts, State::Delivering, What::Delivery, Some(0));
}

#[test]
fn a_client_that_does_not_read_comes_before_all_else_of_members() {
    let mut facts = facts();
    facts.members = vec![full(1), full(2)];
    facts.members[1].blocked_since_ms = Some(NOW - 3_000);
    facts.members[1].waiting_bytes = 70_000;
    let sentence = judged(&facts, State::NotReading, What::CutOff, Some(7_000));
    assert!(
        sentence.contains("nothing taken for 3.0 s, 70000 bytes wait"),
        "{sentence}"
    );
    facts.members[1].blocked_since_ms = Some(NOW - 100);
    assert_eq!(explain(&facts).state, State::MaxInFlight, "a moment is nothing");
}

#[test]
fn a_blocked_key_names_the_event_that_blocks_it() {
    let mut facts = facts();
    facts.stats = Stats {
        inflight: 1,
        held: 3,
        ..Stats::default()
    };
    facts.members = vec![full(1)];
    facts.members[0].rules.max_in_flight = 100;
    facts.lease_ends_ms = Some(NOW + 26_000);
    facts.blocked_key = Some(BlockedKey {
        key: "k".into(),
        waiting: 3,
        behind: facts.members[0].rules.leases[0].clone(),
    });
    let sentence = judged(&facts, State::KeyBlocked, What::LeaseEnds, Some(26_000));
    let why = "3 events are of the key \"k\" behind event 5 (id-5) (with connection 101 from 10.0.0.7 for 4.0 s, until 26.0 s \
               from now, 2 of 5 attempts failed)";
    assert!(sentence.starts_with(why), "{sentence}");
}

#[test]
fn back_off_and_a_store_that_fails() {
    let mut facts = facts();
    facts.stats.waiting = 2;
    facts.retry_due_ms = Some(NOW + 45_000);
    let sentence = judged(&facts, State::BackOff, What::Redelivery, Some(45_000));
    assert!(
        sentence.starts_with("2 events wait for the next delivery"),
        "{sentence}"
    );
    facts.store = Some(Trouble {
        since_ms: NOW - 1_000,
        why: "no space left".to_owned(),
    });
    facts.paused = Some(Pause {
        by: "ann".into(),
        since_ms: NOW,
    });
    let sentence = judged(&facts, State::StoreUnavailable, What::StoreRetry, Some(1_000));
    assert!(sentence.contains("(no space left)"), "{sentence}");
}
