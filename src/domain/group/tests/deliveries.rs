//! Who gets what, when, and how a delivery ends.

use super::*;
use crate::domain::group::{AckOutcome, Departure, Want};

fn few_in_flight(max_in_flight: u32) -> MemberSettings {
    MemberSettings {
        max_in_flight,
        ..MemberSettings::default()
    }
}

#[test]
fn members_take_turns_and_the_lowest_seq_goes_first() {
    let mut bench = Bench::with_events(5, GroupSettings::default());
    bench.join(2);
    assert_eq!(
        bench.deliver_at(T0),
        [(1, 1, 1), (2, 2, 1), (1, 3, 1), (2, 4, 1), (1, 5, 1)]
    );
    assert_eq!(bench.deliver_at(T0), [], "an event is with one member at a time");
    bench.publish(None, 0, 10);
    assert_eq!(bench.deliver_at(T0), [(2, 6, 1)], "the turn goes on");
}

#[test]
fn a_delivery_carries_the_length_of_its_lease_and_spends_credit() {
    let mut bench = Bench::with_events(3, GroupSettings::default());
    bench.group.take_back_bytes(1);
    bench.offer_all();
    bench.group.credit(1, 0, 1_000);
    let deliveries = bench.group.deliver(T0, 1);
    assert_eq!((deliveries.len(), deliveries[0].ack_timeout_ms), (1, 30_000));
    assert_eq!(deliveries[0].event, bench.event(1));
    assert_eq!(bench.group.take_back_bytes(1), 1_000 - bench.size(1));
    assert_eq!(bench.group.deliver(T0, 10), []);
}

#[test]
fn nobody_gets_more_than_it_has_room_for() {
    let mut bench = Bench::with_events(5, GroupSettings::default());
    bench.join_with(1, few_in_flight(2));
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 2]);
    bench.group.ack_seq(1);
    assert_eq!(seqs(&bench.deliver_at(T0)), [3]);
}

#[test]
fn pauses_hold_deliveries_but_not_leases() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    bench.join_with(1, few_in_flight(1));
    bench.join(2);
    bench.group.set_paused(2, true);
    assert_eq!(bench.deliver_at(T0), [(1, 1, 1)]);
    bench.group.set_group_paused(true);
    bench.group.set_paused(2, false);
    assert_eq!(bench.deliver_at(T0), []);
    assert_eq!(bench.group.modack(1, &id(1), 2_000, T0), Some(2_000));
    bench.group.set_group_paused(false);
    assert_eq!(bench.deliver_at(T0), [(2, 2, 1)]);
}

#[test]
fn an_event_too_large_for_one_member_goes_to_another_and_keeps_the_first_from_smaller_ones() {
    let mut bench = Bench::new(GroupSettings::default());
    let large = bench.publish(None, 0, 1_000);
    let small = bench.publish(None, 0, 1);
    bench.join_with(1, MemberSettings::default());
    bench.group.credit(1, 10, bench.size(small));
    bench.offer_all();
    assert_eq!(bench.group.deliver(T0, 10), []);
    bench.join(2);
    assert_eq!(bench.deliver_at(T0), [(2, large, 1), (2, small, 1)]);
}

#[test]
fn who_lacks_credit_is_named_once() {
    let mut bench = Bench::new(GroupSettings::default());
    for _ in 0..3 {
        bench.publish(None, 0, 10);
    }
    bench.join_with(1, few_in_flight(2));
    bench.join_with(2, few_in_flight(2));
    assert_eq!(bench.group.wants(), [], "nothing is ready");
    bench.offer_all();
    bench.group.set_paused(2, true);
    let want = Want {
        member: 1,
        events: 2,
        bytes: bench.size(1) + bench.size(2),
        next_bytes: bench.size(1),
        lacks_bytes_only: false,
    };
    assert_eq!(bench.group.wants(), [want]);
    assert_eq!(bench.group.wants(), []);
    bench.group.credit(1, 1, bench.size(1) - 1);
    let want = Want {
        lacks_bytes_only: true,
        ..want
    };
    assert_eq!(bench.group.wants(), [want], "one byte is missing");
    bench.group.credit(1, 1, 1);
    assert_eq!(bench.group.wants(), [], "it can take the next one");
    assert_eq!(bench.deliver_at(T0), [(1, 1, 1)]);
    bench.group.set_paused(2, false);
    let named: Vec<_> = bench
        .group
        .wants()
        .iter()
        .map(|want| (want.member, want.events))
        .collect();
    assert_eq!(named, [(1, 1), (2, 2)]);
}

#[test]
fn acks_are_taken_from_anyone_and_count_once() {
    let mut bench = Bench::with_events(3, GroupSettings::default());
    bench.offer_all();
    assert_eq!(bench.group.ack(&id(2)), AckOutcome::Done, "not delivered to anyone yet");
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 3]);
    assert_eq!(bench.group.ack(&id(1)), AckOutcome::Done);
    assert_eq!(bench.group.ack(&id(1)), AckOutcome::Lookup);
    assert_eq!(bench.group.ack("unheard of"), AckOutcome::Lookup);
    bench.group.tick(T0 + 100_000);
    assert_eq!(
        bench.deliver_at(T0 + 100_000),
        [(1, 3, 2)],
        "what is acked does not come again"
    );
}

#[test]
fn a_lease_that_is_over_comes_again_at_once_with_the_next_attempt() {
    let mut bench = Bench::with_events(1, GroupSettings::default());
    bench.deliver_at(T0);
    assert_eq!(bench.group.next_deadline(), Some(T0 + 30_000));
    assert_eq!(bench.deliver_at(T0 + 29_999), []);
    assert_eq!(bench.deliver_at(T0 + 30_000), [(1, 1, 2)]);
    assert_eq!(&*bench.save().updates[0].retries[0].reason, "ack timeout");
}

#[test]
fn modack_moves_the_end_of_a_lease_of_ones_own() {
    let mut bench = Bench::with_events(1, GroupSettings::default());
    bench.deliver_at(T0);
    assert_eq!(bench.group.modack(2, &id(1), 5_000, T0), None);
    assert_eq!(bench.group.modack(1, &id(1), 5_000, T0), Some(5_000));
    assert_eq!(bench.group.next_deadline(), Some(T0 + 5_000));
    assert_eq!(bench.group.modack(1, &id(1), 0, T0), Some(1_000));
    assert_eq!(bench.group.modack(1, &id(1), u64::MAX, T0), Some(u64::MAX));
    bench.group.ack_seq(1);
    assert_eq!(bench.group.modack(1, &id(1), 5_000, T0), None);
}

#[test]
fn a_nack_waits_for_its_delay_or_the_back_off() {
    let mut bench = Bench::with_events(1, GroupSettings::default());
    bench.deliver_at(T0);
    assert!(!bench.nack(2, 1, Some(0), T0), "another member's");
    assert!(bench.nack(1, 1, Some(0), T0));
    assert!(!bench.nack(1, 1, Some(0), T0), "it does not hold it any more");
    assert_eq!(bench.deliver_at(T0), [(1, 1, 2)]);
    bench.nack(1, 1, Some(700), T0);
    assert_eq!(bench.group.next_deadline(), Some(T0 + 700));
    assert_eq!(bench.deliver_at(T0 + 699), []);
    assert_eq!(bench.deliver_at(T0 + 700), [(1, 1, 3)]);
    bench.nack(1, 1, None, T0);
    let due_ms = bench.group.next_deadline().unwrap();
    assert!(
        (200..=400).contains(&(due_ms - T0)),
        "third back-off of 100 ms: {due_ms}"
    );
    assert_eq!(bench.deliver_at(due_ms), [(1, 1, 4)]);
}

#[test]
fn a_broken_connection_counts_and_waits_from_the_third_attempt_on() {
    let mut bench = Bench::with_events(1, GroupSettings::default());
    bench.deliver_at(T0);
    bench.group.leave(1, Departure::Counted, T0);
    bench.join(2);
    assert_eq!(bench.deliver_at(T0), [(2, 1, 2)]);
    bench.group.leave(2, Departure::Counted, T0);
    bench.join(3);
    assert_eq!(bench.deliver_at(T0), []);
    let due_ms = bench.group.next_deadline().unwrap();
    assert!(
        (100..=200).contains(&(due_ms - T0)),
        "second back-off of 100 ms: {due_ms}"
    );
    assert_eq!(bench.deliver_at(due_ms), [(3, 1, 3)]);
    assert_eq!(&*bench.save().updates[0].retries[0].reason, "member left");
    assert_eq!(bench.group.member_count(), 1);
}

#[test]
fn what_ends_without_fault_is_not_counted_and_comes_first_again() {
    let mut bench = Bench::with_events(3, GroupSettings::default());
    bench.join_with(1, few_in_flight(1));
    bench.deliver_at(T0);
    bench.group.leave(1, Departure::Uncounted, T0);
    bench.join(2);
    assert_eq!(
        bench.group.deliver(T0, 10),
        [],
        "later ones wait until it is read again"
    );
    assert_eq!(bench.deliver_at(T0), [(2, 1, 1), (2, 2, 1), (2, 3, 1)]);
    assert!(!bench.group.is_dirty());
}

#[test]
fn what_members_hold_stays_with_them_when_the_group_is_built_anew() {
    let mut bench = Bench::with_events(5, GroupSettings::default());
    bench.join_with(2, few_in_flight(2));
    bench.group.credit(2, 2, 1 << 20);
    let before = bench.deliver_at(T0);
    assert_eq!(before.len(), 5);
    let held = |member| before.iter().filter(move |it| it.0 == member).map(|it| it.1);
    let lost = held(1).next_back().unwrap();
    let estate = bench.group.estate(|seq| seq != lost);
    bench.group = Group::new(GroupSettings::default(), bench.group.cursors(), vec![], true);
    bench.group.inherit(estate);
    bench.join(3);
    bench.offer_all();
    // Only what had not left the group is given to somebody else.
    assert_eq!(bench.deliver_at(T0), [(3, lost, 1)]);
    // Whoever holds an event nacks it, loses it in time, or gives it back when it leaves; an ack counts from anybody.
    let (of_one, of_two) = (held(1).next().unwrap(), held(2).next().unwrap());
    assert!(bench.nack(1, of_one, Some(0), T0) && !bench.nack(3, of_two, Some(0), T0));
    assert_eq!(bench.deliver_at(T0), [(3, of_one, 2)]);
    bench.group.leave(2, Departure::Uncounted, T0);
    assert_eq!(seqs(&bench.deliver_at(T0)), held(2).collect::<Vec<_>>());
    let late = T0 + MemberSettings::default().ack_timeout_ms;
    assert!(!bench.deliver_at(late).is_empty(), "leases end in time");
}

#[test]
fn a_redelivery_that_is_not_read_again_yet_lets_others_pass() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    bench.join_with(1, few_in_flight(1));
    bench.deliver_at(T0);
    bench.nack(1, 1, Some(0), T0);
    let deliveries = bench.group.deliver(T0, 1);
    assert_eq!(deliveries[0].event.seq, 2);
}

#[test]
fn ordered_keys_go_one_after_the_other_and_do_not_hold_others() {
    let ordered = GroupSettings {
        ordered: true,
        ..GroupSettings::default()
    };
    let mut bench = Bench::new(ordered);
    for key in [Some("a"), Some("a"), Some("b"), None, None] {
        bench.publish(key, 0, 10);
    }
    bench.join(1);
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 3, 4, 5]);
    assert_eq!(bench.group.stats().held, 1);
    bench.nack(1, 1, Some(500), T0);
    assert_eq!(bench.deliver_at(T0), [], "its key waits with it");
    assert_eq!(bench.deliver_at(T0 + 500), [(1, 1, 2)]);
    bench.group.ack_seq(1);
    assert_eq!(bench.deliver_at(T0 + 500), [(1, 2, 1)]);
}

#[test]
fn a_key_that_goes_on_does_not_hold_others_while_its_event_is_read_again() {
    let mut bench = Bench::new(GroupSettings {
        ordered: true,
        ..GroupSettings::default()
    });
    for key in ["a", "a", "b"] {
        bench.publish(Some(key), 0, 10);
    }
    bench.join_with(1, few_in_flight(1));
    bench.group.credit(1, 10, 10_000);
    bench.deliver_at(T0);
    bench.group.ack_seq(1);
    assert_eq!(bench.group.deliver(T0, 1)[0].event.seq, 3);
}

#[test]
fn a_key_waits_until_its_dead_letter_is_saved() {
    let ordered = GroupSettings {
        ordered: true,
        max_attempts: 1,
        ..GroupSettings::default()
    };
    let mut bench = Bench::new(ordered);
    bench.publish(Some("a"), 0, 10);
    bench.publish(Some("a"), 0, 10);
    bench.join(1);
    bench.deliver_at(T0);
    bench.nack(1, 1, None, T0);
    bench.load(T0);
    assert_eq!(bench.group.take_changes().unwrap().dead.len(), 1);
    assert_eq!(bench.deliver_at(T0), []);
    bench.group.saved();
    assert_eq!(bench.deliver_at(T0), [(1, 2, 1)]);
}

#[test]
fn order_can_be_asked_for_later() {
    let mut bench = Bench::new(GroupSettings::default());
    for _ in 0..3 {
        bench.publish(Some("a"), 0, 10);
    }
    bench.offer_all();
    bench.group.apply_settings(GroupSettings {
        ordered: true,
        ..GroupSettings::default()
    });
    bench.join(1);
    assert_eq!(bench.deliver_at(T0), [(1, 1, 1)]);
    bench.group.apply_settings(GroupSettings::default());
    assert_eq!(seqs(&bench.deliver_at(T0)), [2, 3]);
}
