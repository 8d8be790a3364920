//! What is read, how much of it is kept, and what is left out.

use super::*;
use crate::domain::group::ReadPlan;
use crate::domain::{Filter, WINDOW};

const BODIES: usize = 1_000;

#[test]
fn nothing_is_read_that_nobody_can_take() {
    let mut bench = Bench::with_events(3, GroupSettings::default());
    bench.group.set_paused(1, true);
    assert_eq!(bench.group.next_read(3), None);
    bench.group.set_paused(1, false);
    assert_eq!(bench.group.next_read(0), None, "nothing new");
    let plan = bench.group.next_read(3).unwrap();
    assert_eq!((plan.from, plan.max_events), (1, 3));
    bench.group.set_group_paused(true);
    assert_eq!(bench.group.next_read(3), None);
    bench.group.read_through(2);
    let plan = bench.group.next_read(3).unwrap();
    assert_eq!((plan.from, plan.max_events), (1, 2), "an ack asked for it");
}

#[test]
fn a_batch_is_read_at_a_time_and_not_before_less_than_one_is_ready() {
    let mut bench = Bench::with_events(500, GroupSettings::default());
    assert!(matches!(
        bench.group.next_read(500),
        Some(ReadPlan {
            from: 1,
            max_events: 100,
            ..
        })
    ));
    bench.group.offer(bench.log[..100].to_vec(), 100);
    assert_eq!(bench.group.next_read(500), None);
    bench.group.deliver(T0, 1);
    assert!(matches!(
        bench.group.next_read(500),
        Some(ReadPlan {
            from: 101,
            max_events: 100,
            ..
        })
    ));
}

#[test]
fn the_window_ends_where_it_must_whatever_is_offered() {
    let mut bench = Bench::with_events(WINDOW + 5, GroupSettings::default());
    bench.offer_all();
    assert_eq!(bench.group.read_position(), WINDOW);
    assert!(bench.group.in_window(WINDOW) && !bench.group.in_window(WINDOW + 1));
    bench.group.read_through(WINDOW + 1);
    assert_eq!(bench.group.next_read(bench.tail()), None);
    bench.group.ack_seq(2);
    assert!(!bench.group.in_window(WINDOW + 1), "the first one is unacked");
    bench.group.ack_seq(1);
    assert!(bench.group.in_window(WINDOW + 2));
    bench.offer_all();
    assert_eq!(bench.group.read_position(), WINDOW + 2);
}

#[test]
fn a_long_stretch_of_removed_events_is_passed_in_one_step() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    let mut far = (*bench.event(2)).clone();
    far.seq = WINDOW * 3;
    bench.group.offer(vec![Arc::new(far)], WINDOW * 3);
    assert_eq!(bench.group.read_position(), WINDOW * 3);
    assert_eq!(bench.group.stats().ready, 1);
}

#[test]
fn few_bodies_are_kept_and_the_rest_is_read_again_in_order() {
    let mut bench = Bench::with_events(1_500, GroupSettings::default());
    bench.offer_all();
    assert_eq!(bench.group.window.deliverable_load().count, BODIES);
    assert_eq!(bench.group.stats().ready, 1_500);
    bench.join_with(
        1,
        MemberSettings {
            max_in_flight: 10_000,
            ..MemberSettings::default()
        },
    );
    let delivered = bench.deliver_at(T0);
    assert_eq!(seqs(&delivered), (1..=1_500).collect::<Vec<_>>());
    assert_eq!(
        bench.group.window.deliverable_load().bytes,
        0,
        "what is handed out is not kept"
    );
}

#[test]
fn one_event_is_kept_however_large() {
    let mut bench = Bench::new(GroupSettings::default());
    for _ in 0..2 {
        bench.publish(None, 0, 5 << 20);
    }
    bench.join(1);
    bench.offer_all();
    assert_eq!(bench.group.window.deliverable_load().count, 1);
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 2]);
}

#[test]
fn loads_come_in_batches_and_each_is_named_once() {
    let mut bench = Bench::with_events(150, GroupSettings::default());
    bench.join_with(
        1,
        MemberSettings {
            max_in_flight: 1_000,
            ..MemberSettings::default()
        },
    );
    bench.deliver_at(T0);
    bench.group.tick(T0 + 30_000);
    let asked = bench.group.take_loads(T0 + 30_000);
    assert_eq!(asked, (1..=100).collect::<Vec<_>>());
    assert_eq!(bench.group.take_loads(T0 + 30_000), [0_u64; 0]);
    bench.group.load_failed(&asked);
    assert_eq!(bench.group.take_loads(T0 + 30_000), asked);
    let events = asked.iter().skip(1).map(|&seq| bench.event(seq)).collect();
    assert_eq!(bench.group.loaded(&asked, events), 1, "the first is gone");
    assert_eq!(bench.group.stats().oldest_unacked, Some(2));
    bench.group.set_paused(1, true);
    assert_eq!(
        bench.group.take_loads(T0 + 30_000),
        [0_u64; 0],
        "nobody could take more"
    );
}

#[test]
fn a_body_that_is_not_needed_any_more_is_dropped() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    bench.deliver_at(T0);
    bench.group.tick(T0 + 30_000);
    let asked = bench.group.take_loads(T0 + 30_000);
    bench.group.ack_seq(1);
    let events = asked.iter().map(|&seq| bench.event(seq)).collect();
    assert_eq!(bench.group.loaded(&asked, events), 0);
    assert_eq!(bench.deliver_at(T0 + 30_000), [(1, 2, 2)]);
}

#[test]
fn what_a_filter_leaves_out_is_acked_from_the_read_position_on() {
    let mut bench = Bench::new(GroupSettings::default());
    bench.publish(Some("x"), 0, 1);
    bench.join(1);
    bench.offer_all();
    for key in [Some("a"), Some("x"), None] {
        bench.publish(key, 0, 1);
    }
    bench.group.apply_settings(GroupSettings {
        filter: Some(Filter {
            keys: Some(vec!["a".into()]),
            ..Filter::default()
        }),
        ..GroupSettings::default()
    });
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 2]);
    let cursor = &bench.save().updates[0].cursor;
    assert_eq!((cursor.floor, cursor.acked[0].first, cursor.acked[0].last), (0, 3, 4));
}

#[test]
fn a_new_filter_leaves_what_was_read_before_alone_over_a_restart_too() {
    let mut bench = Bench::new(GroupSettings::default());
    bench.publish(Some("x"), 0, 1);
    bench.join(1);
    bench.offer_all();
    let settings = GroupSettings {
        filter: Some(Filter {
            keys: Some(vec!["a".into()]),
            ..Filter::default()
        }),
        filter_since: bench.group.read_position(),
        ..GroupSettings::default()
    };
    bench.publish(Some("x"), 0, 1);
    let mut revived = Group::new(settings, bench.group.cursors(), Vec::new(), true);
    revived.join(1, MemberSettings::default());
    revived.credit(1, 10, 10_000);
    revived.offer(bench.log.clone(), 2);
    let delivered: Vec<u64> = revived.deliver(T0, 10).iter().map(|one| one.event.seq).collect();
    assert_eq!(delivered, [1]);
}

#[test]
fn retention_counts_as_acked_and_is_counted() {
    let mut bench = Bench::with_events(6, GroupSettings::default());
    bench.group.offer(bench.log[..3].to_vec(), 3);
    bench.group.deliver(T0, 1);
    bench.group.ack_seq(2);
    assert_eq!(bench.group.expire_below(3, &[]), 1);
    assert_eq!(bench.group.stats().inflight, 0, "a lease on it is over");
    assert_eq!(bench.group.expire_below(6, &[]), 1);
    assert_eq!(bench.group.read_position(), 5);
    assert_eq!(bench.deliver_at(T0), [(1, 6, 1)]);
    assert_eq!(bench.save().updates[0].cursor.floor, 5);
}
