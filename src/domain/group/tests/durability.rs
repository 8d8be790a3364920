//! What the store is told, and what comes back from it.

use super::*;
use crate::domain::SeqRange;

fn attempts(max_attempts: u32) -> GroupSettings {
    GroupSettings {
        max_attempts,
        ..GroupSettings::default()
    }
}

#[test]
fn only_partitions_that_changed_are_written() {
    let mut bench = Bench::new(GroupSettings::default());
    for partition in [0, 1, 0] {
        bench.publish(None, partition, 1);
    }
    bench.join(1);
    bench.deliver_at(T0);
    assert!(!bench.group.is_dirty());
    assert_eq!(bench.group.take_changes(), None);
    bench.group.ack_seq(3);
    let changes = bench.save();
    assert_eq!(changes.updates.len(), 1);
    let expected = PartitionCursor {
        floor: 0,
        floor_ordinal: 0,
        acked: vec![SeqRange { first: 3, last: 3 }],
        acked_count: 1,
    };
    assert_eq!(
        (changes.updates[0].partition, &changes.updates[0].cursor),
        (0, &expected)
    );
    bench.group.ack_seq(1);
    let cursor = bench.save().updates[0].cursor.clone();
    assert_eq!((cursor.floor, cursor.floor_ordinal, cursor.acked.len()), (3, 2, 0));
    assert_eq!(bench.group.cursors()[1].floor, 1);
}

#[test]
fn one_batch_is_with_the_store_at_a_time_and_a_failed_one_comes_again() {
    let mut bench = Bench::with_events(3, GroupSettings::default());
    bench.deliver_at(T0);
    bench.group.ack_seq(1);
    bench.nack(1, 2, Some(9), T0);
    let first = bench.group.take_changes().unwrap();
    bench.group.ack_seq(3);
    assert_eq!(bench.group.take_changes(), None);
    bench.group.save_failed();
    let again = bench.save();
    assert_eq!(again.updates[0].retries, first.updates[0].retries);
    assert_eq!(again.updates[0].cursor.acked, [SeqRange { first: 3, last: 3 }]);
    assert!(!bench.group.is_dirty());
}

#[test]
fn a_retry_is_written_when_it_changes_and_settled_when_it_is_over() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    bench.deliver_at(T0);
    bench.nack(1, 1, Some(50), T0);
    let expected = Retry {
        seq: 1,
        attempts: 1,
        due_ms: T0 + 50,
        reason: "broken".into(),
    };
    assert_eq!(bench.save().updates[0].retries, [expected]);
    bench.group.ack_seq(2);
    let update = &bench.save().updates[0];
    assert_eq!(
        (update.retries.len(), update.settled.len()),
        (0, 0),
        "neither had to be told"
    );
    bench.group.ack_seq(1);
    assert_eq!(bench.save().updates[0].settled, [1]);
}

#[test]
fn a_retry_that_may_be_stored_is_settled_too() {
    let mut bench = Bench::with_events(1, GroupSettings::default());
    bench.deliver_at(T0);
    bench.nack(1, 1, Some(50), T0);
    bench.group.take_changes().unwrap();
    bench.group.ack_seq(1);
    bench.group.save_failed();
    let update = &bench.save().updates[0];
    assert_eq!((update.retries.len(), update.settled.as_slice()), (0, [1].as_slice()));
}

#[test]
fn a_restart_goes_on_where_the_store_is() {
    let mut bench = Bench::with_events(5, GroupSettings::default());
    bench.deliver_at(T0);
    bench.group.ack_seq(1);
    bench.group.ack_seq(4);
    bench.nack(1, 2, Some(500), T0);
    let update = bench.save().updates.remove(0);
    bench.group.ack_seq(3);
    bench.restart(vec![update.cursor, PartitionCursor::default()], update.retries);
    assert_eq!(bench.group.read_position(), 0, "the other partition's floor");
    assert_eq!(
        bench.deliver_at(T0),
        [(1, 3, 1), (1, 5, 1)],
        "a delivery in flight is not counted"
    );
    assert_eq!(bench.deliver_at(T0 + 500), [(1, 2, 2)]);
    bench.group.ack_seq(2);
    assert_eq!(bench.save().updates[0].settled, [2]);
}

#[test]
fn the_retry_of_an_event_that_is_gone_is_settled() {
    let mut bench = Bench::with_events(2, GroupSettings::default());
    let retry = Retry {
        seq: 1,
        attempts: 1,
        due_ms: T0,
        reason: "broken".into(),
    };
    bench.restart(vec![PartitionCursor::default(); PARTITIONS], vec![retry]);
    bench.group.offer(vec![bench.event(2)], 2);
    assert_eq!(bench.save().updates[0].settled, [1]);
}

#[test]
fn after_the_last_attempt_an_event_is_a_dead_letter_and_acked_in_one_step() {
    let mut bench = Bench::with_events(2, attempts(2));
    bench.deliver_at(T0);
    bench.nack(1, 1, Some(0), T0);
    assert_eq!(bench.deliver_at(T0), [(1, 1, 2)]);
    bench.save();
    bench.group.tick(T0 + 30_000);
    assert_eq!(bench.group.stats().dying, 1);
    let before = bench.save();
    assert_eq!(
        (before.dead.len(), before.updates[0].cursor.floor),
        (0, 0),
        "its body is missing"
    );
    assert_eq!(bench.group.take_loads(T0 + 30_000), [1, 2]);
    bench.group.loaded(&[1, 2], vec![bench.event(1), bench.event(2)]);
    let changes = bench.group.take_changes().unwrap();
    assert_eq!((changes.dead[0].attempts, &*changes.dead[0].reason), (2, "ack timeout"));
    assert_eq!(changes.dead[0].event, bench.event(1));
    assert_eq!(
        (changes.updates[0].cursor.floor, changes.updates[0].settled.as_slice()),
        (1, [1].as_slice())
    );
    bench.group.save_failed();
    assert_eq!(bench.save(), changes, "it comes again");
    assert!(!bench.group.is_dirty());
    assert_eq!(bench.deliver_at(T0 + 30_000), [(1, 2, 2)]);
}

#[test]
fn few_dead_letters_are_kept_while_the_store_does_not_take_them() {
    let mut bench = Bench::with_events(400, attempts(1));
    bench.join_with(
        1,
        MemberSettings {
            max_in_flight: 1_000,
            ..MemberSettings::default()
        },
    );
    bench.deliver_at(T0);
    bench.group.tick(T0 + 30_000);
    for _ in 0..5 {
        bench.load(T0 + 30_000);
        let changes = bench.group.take_changes().unwrap();
        bench.load(T0 + 30_000);
        bench.group.save_failed();
        assert!(changes.dead.len() <= 200, "{}", changes.dead.len());
    }
    let mut dead = 0;
    while dead < 400 {
        bench.load(T0 + 30_000);
        dead += bench.save().dead.len();
    }
    assert_eq!((dead, bench.group.stats().oldest_unacked), (400, None));
}

#[test]
fn an_ack_saves_an_event_from_the_dead_letters_until_it_is_handed_over() {
    let mut bench = Bench::with_events(1, attempts(1));
    bench.deliver_at(T0);
    bench.nack(1, 1, None, T0);
    bench.load(T0);
    bench.group.ack_seq(1);
    let changes = bench.save();
    assert_eq!((changes.dead.len(), changes.updates[0].cursor.floor), (0, 1));
}

#[test]
fn what_retention_took_is_no_dead_letter() {
    let mut bench = Bench::with_events(2, attempts(1));
    bench.deliver_at(T0);
    bench.nack(1, 1, None, T0);
    bench.nack(1, 2, None, T0);
    let asked = bench.group.take_loads(T0);
    assert_eq!(bench.group.expire_below(2, &[]), 1);
    assert_eq!(bench.group.loaded(&asked, vec![]), 1);
    let changes = bench.save();
    assert_eq!((changes.dead.len(), changes.updates[0].cursor.floor), (0, 2));
}

#[test]
fn a_dead_letter_topic_has_none_of_its_own() {
    let mut bench = Bench::with_events(1, attempts(1));
    bench.group = Group::new(attempts(1), vec![PartitionCursor::default()], vec![], false);
    bench.join(1);
    bench.deliver_at(T0);
    bench.nack(1, 1, None, T0);
    let changes = bench.group.take_changes().unwrap();
    assert_eq!(
        (
            changes.dropped_dead,
            changes.dead.len(),
            changes.updates[0].cursor.floor
        ),
        (1, 0, 1)
    );
    bench.group.save_failed();
    assert_eq!(bench.save().dropped_dead, 1);
}

#[test]
fn fewer_attempts_hold_for_what_failed_before() {
    let mut bench = Bench::with_events(2, attempts(5));
    bench.deliver_at(T0);
    bench.nack(1, 1, Some(0), T0);
    bench.nack(1, 2, Some(100), T0);
    bench.group.apply_settings(attempts(1));
    assert_eq!(bench.group.stats().dying, 1, "the other one waits");
    assert_eq!(bench.deliver_at(T0 + 100), []);
    assert_eq!(bench.save().dead.len(), 2);
}

#[test]
fn a_long_reason_is_cut() {
    let mut bench = Bench::with_events(1, attempts(5));
    bench.deliver_at(T0);
    bench.group.nack(1, &id(1), Some(&"é".repeat(400)), None, T0);
    assert_eq!(bench.save().updates[0].retries[0].reason.len(), 512);
}

#[test]
fn a_seek_forgets_everything_but_members_and_credit() {
    let mut bench = Bench::with_events(4, attempts(1));
    bench.deliver_at(T0);
    bench.nack(1, 1, None, T0);
    bench.load(T0);
    bench.group.ack_seq(2);
    bench.group.take_changes().unwrap();
    let cursor = PartitionCursor {
        floor: 2,
        floor_ordinal: 2,
        ..PartitionCursor::default()
    };
    bench.group.seek(vec![cursor.clone(); PARTITIONS]);
    assert_eq!(bench.group.stats().inflight, 0);
    assert_eq!(bench.group.cursors(), vec![cursor; PARTITIONS]);
    bench.group.save_failed();
    assert!(
        !bench.group.is_dirty(),
        "what was with the store belongs to the old place"
    );
    assert_eq!(bench.deliver_at(T0), [(1, 3, 1), (1, 4, 1)]);
}

#[test]
fn a_seek_forgets_retries_that_were_not_read_again() {
    let mut bench = Bench::with_events(1, attempts(5));
    let retry = Retry {
        seq: 1,
        attempts: 3,
        due_ms: T0 + 1_000,
        reason: "broken".into(),
    };
    let start = vec![PartitionCursor::default(); PARTITIONS];
    bench.restart(start.clone(), vec![retry]);
    bench.group.seek(start);
    assert_eq!(bench.deliver_at(T0), [(1, 1, 1)]);
}

#[test]
fn what_a_store_holds_cannot_break_a_group() {
    let odd = PartitionCursor {
        floor: u64::MAX,
        floor_ordinal: u64::MAX,
        acked: vec![
            SeqRange { first: 9, last: 3 },
            SeqRange {
                first: 0,
                last: u64::MAX,
            },
        ],
        acked_count: u64::MAX,
    };
    let retry = Retry {
        seq: u64::MAX,
        attempts: u32::MAX,
        due_ms: u64::MAX,
        reason: "".into(),
    };
    let mut bench = Bench::with_events(3, attempts(1));
    bench.publish(None, 77, 1);
    bench.restart(vec![odd.clone()], vec![retry.clone()]);
    assert_eq!(bench.group.next_read(4), None);
    bench.group.expire_below(u64::MAX, &[]);
    bench.group.cursors();
    bench.restart(vec![PartitionCursor { floor: 0, ..odd }], vec![retry]);
    assert_eq!(seqs(&bench.deliver_at(T0)), [4], "the partition that no cursor names");
    bench.group.cursors();
    bench.restart(vec![], vec![]);
    assert_eq!(seqs(&bench.deliver_at(T0)), [1, 2, 3, 4]);
}
