//! Groups: claims, settings, cursors and retries.

use tidegate::domain::{CursorUpdate, Filter, GroupSettings, OneOrMore, PartitionCursor, Retry, SeqRange};
use tidegate::store::{OwnerId, Pause, Refused, Write, Written};

use crate::bench::*;

fn retry(seq: u64, attempts: u32) -> Retry {
    Retry {
        seq,
        attempts,
        due_ms: NOW + seq,
        reason: format!("broke \"{attempts}\" times é").into(),
    }
}

fn cursor(floor: u64, acked: &[(u64, u64)]) -> PartitionCursor {
    PartitionCursor {
        floor,
        floor_ordinal: floor / 2,
        acked: acked.iter().map(|&(first, last)| SeqRange { first, last }).collect(),
        acked_count: acked.len() as u64,
    }
}

pub async fn a_group_is_made_once(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.once"), group("team:billing"));
    let settings = GroupSettings {
        max_attempts: 9,
        ..GroupSettings::default()
    };
    let cursors: Vec<PartitionCursor> = (0..4).map(|n| cursor(n, &[(n + 5, n + 9)])).collect();
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: settings.clone(),
        cursors: cursors.clone(),
    };
    let made = epoch(write(&store, create.clone()).await);
    let refused = write(&store, create).await;
    assert_eq!(refused, Err(Refused::GroupExists(group.clone())));
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!((state.epoch, state.seeks, &state.paused), (made, 0, &None));
    assert_eq!((state.settings, state.cursors), (settings, cursors));
    assert!(state.retries.is_empty());
}

pub async fn a_group_may_come_before_its_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.before"), group("g"));
    make_group(&store, &topic, &group).await;
    assert_eq!(store.topic(&topic).await.unwrap(), None);
    assert_eq!(store.groups(&topic).await.unwrap(), std::slice::from_ref(&group));
    append(&store, &topic, vec![event("a")]).await.unwrap();
    assert_eq!(store.topic(&topic).await.unwrap().unwrap().tail, 1);
    assert!(store.group(&topic, &group).await.unwrap().is_some());
    write(&store, Write::DeleteTopic { topic: topic.clone() })
        .await
        .unwrap();
    make_group(&store, &topic, &group).await;
    write(&store, Write::DeleteTopic { topic: topic.clone() })
        .await
        .unwrap();
    assert!(store.groups(&topic).await.unwrap().is_empty());
}

pub async fn settings_and_pause_are_kept(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.settings"), group("g"));
    let epoch = make_group(&store, &topic, &group).await;
    let headers = [("h".to_string(), OneOrMore::Many(vec!["é\n".into(), "2".into()]))];
    let settings = GroupSettings {
        max_attempts: 1_000,
        backoff_ms: 30_000,
        ordered: true,
        filter: Some(Filter {
            keys: Some(vec!["a".into()]),
            key_prefix: Some(String::new()),
            tags: None,
            headers: Some(headers.into()),
        }),
        filter_since: 77,
    };
    let save = |paused| Write::SaveGroup {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        settings: settings.clone(),
        paused,
    };
    let paused = Pause {
        by: "ops é".into(),
        since_ms: NOW,
    };
    write(&store, save(Some(paused.clone()))).await.unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!((&state.settings, state.paused), (&settings, Some(paused)));
    write(&store, save(None)).await.unwrap();
    assert_eq!(store.group(&topic, &group).await.unwrap().unwrap().paused, None);
}

pub async fn a_claim_fences_every_older_owner(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.claim"), group("g"));
    let old = make_group(&store, &topic, &group).await;
    let claim = Write::ClaimGroup {
        topic: topic.clone(),
        group: group.clone(),
        owner: OwnerId::random(),
    };
    let new = epoch(write(&store, claim).await);
    assert!(new > old);
    let before = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!(before.epoch, new);
    let save_cursors = |epoch| Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        updates: vec![CursorUpdate {
            cursor: floor(7),
            retries: vec![retry(9, 1)],
            ..CursorUpdate::default()
        }],
        dead_letters: vec![event("letter")],
    };
    let save_group = |epoch| Write::SaveGroup {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        settings: GroupSettings {
            ordered: true,
            ..GroupSettings::default()
        },
        paused: None,
    };
    let seek = |epoch| Write::SeekGroup {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        cursors: vec![floor(3); 4],
    };
    for stale in [old, 0, new + 1] {
        let batch = vec![save_cursors(stale), save_group(stale), seek(stale)];
        for answer in store.commit(batch, NOW).await.unwrap() {
            assert_eq!(answer, Err(Refused::Fenced));
        }
    }
    assert_eq!(store.group(&topic, &group).await.unwrap().unwrap(), before);
    assert_eq!(store.topic(&topic.dead_letters()).await.unwrap(), None);
    let batch = vec![save_cursors(new), save_group(new), seek(new)];
    assert!(store.commit(batch, NOW).await.unwrap().iter().all(Result::is_ok));
}

pub async fn epochs_rise_over_a_group_made_again(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.again"), group("g"));
    let old = make_group(&store, &topic, &group).await;
    let delete = Write::DeleteGroup {
        topic: topic.clone(),
        group: group.clone(),
    };
    write(&store, delete).await.unwrap();
    assert!(make_group(&store, &topic, &group).await > old);
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!((state.seeks, state.retries.len()), (0, 0));
}

pub async fn writes_to_a_group_that_is_not_there_are_refused(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.none"), group("g"));
    let batch = vec![
        Write::ClaimGroup {
            topic: topic.clone(),
            group: group.clone(),
            owner: OwnerId::random(),
        },
        Write::SaveGroup {
            topic: topic.clone(),
            group: group.clone(),
            epoch: 1,
            settings: GroupSettings::default(),
            paused: None,
        },
        Write::SaveCursors {
            topic: topic.clone(),
            group: group.clone(),
            epoch: 1,
            updates: vec![],
            dead_letters: vec![event("letter")],
        },
        Write::SeekGroup {
            topic: topic.clone(),
            group: group.clone(),
            epoch: 1,
            cursors: vec![],
        },
    ];
    for answer in store.commit(batch, NOW).await.unwrap() {
        assert_eq!(answer, Err(Refused::NoSuchGroup(group.clone())));
    }
    assert_eq!(store.topic(&topic.dead_letters()).await.unwrap(), None);
}

pub async fn cursors_and_retries_are_kept(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.cursors"), group("g"));
    let epoch = make_group(&store, &topic, &group).await;
    let save = |updates: Vec<CursorUpdate>| Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        updates,
        dead_letters: vec![],
    };
    let one = CursorUpdate {
        partition: 1,
        cursor: cursor(10, &[(12, 15), (20, u64::MAX)]),
        retries: vec![retry(300, 1), retry(16, 2)],
        settled: vec![],
    };
    let three = CursorUpdate {
        partition: 3,
        cursor: cursor(4, &[]),
        retries: vec![retry(5, 3)],
        settled: vec![999],
    };
    let answer = write(&store, save(vec![one.clone(), three.clone()])).await;
    assert_eq!(answer, Ok(Written::CursorsSaved(vec![])));
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!(state.cursors, [floor(0), one.cursor, floor(0), three.cursor.clone()]);
    assert_eq!(state.retries, [retry(5, 3), retry(16, 2), retry(300, 1)]);

    let next = CursorUpdate {
        partition: 1,
        cursor: cursor(16, &[]),
        retries: vec![retry(300, 2), retry(17, 1)],
        settled: vec![16],
    };
    write(&store, save(vec![next.clone()])).await.unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!(state.cursors, [floor(0), next.cursor, floor(0), three.cursor]);
    assert_eq!(state.retries, [retry(5, 3), retry(17, 1), retry(300, 2)]);
}

pub async fn a_partition_that_is_new_to_the_group_gets_a_cursor(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.grow"), group("g"));
    let create = Write::CreateGroup {
        topic: topic.clone(),
        group: group.clone(),
        settings: GroupSettings::default(),
        cursors: vec![floor(1)],
    };
    let epoch = epoch(write(&store, create).await);
    let updates = vec![CursorUpdate {
        partition: 2,
        cursor: floor(5),
        ..CursorUpdate::default()
    }];
    let save = Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        updates,
        dead_letters: vec![],
    };
    write(&store, save).await.unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!(state.cursors, [floor(1), floor(0), floor(5)]);
}

pub async fn seek_replaces_cursors_and_forgets_retries(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (topic, group) = (topic("groups.seek"), group("g"));
    let epoch = make_group(&store, &topic, &group).await;
    let save = |retries| Write::SaveCursors {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        updates: vec![CursorUpdate {
            partition: 2,
            cursor: cursor(10, &[(12, 15)]),
            retries,
            settled: vec![],
        }],
        dead_letters: vec![],
    };
    let seek = |cursors| Write::SeekGroup {
        topic: topic.clone(),
        group: group.clone(),
        epoch,
        cursors,
    };
    write(&store, save(vec![retry(11, 1)])).await.unwrap();
    let batch = vec![
        save(vec![retry(12, 1)]),
        seek(vec![floor(3); 4]),
        save(vec![retry(13, 1)]),
    ];
    store.commit(batch, NOW).await.unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!(state.cursors, [floor(3), floor(3), cursor(10, &[(12, 15)]), floor(3)]);
    assert_eq!((state.seeks, state.retries), (1, vec![retry(13, 1)]));
    write(&store, seek(vec![floor(0); 4])).await.unwrap();
    let state = store.group(&topic, &group).await.unwrap().unwrap();
    assert_eq!((state.seeks, state.retries), (2, vec![]));
    assert_eq!((state.epoch, state.cursors), (epoch, vec![floor(0); 4]));
}

pub async fn groups_are_listed_in_order_and_per_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (one, two) = (topic("groups.list"), topic("groups.list.two"));
    for name in ["b", "a:z", "B", "a"] {
        make_group(&store, &one, &group(name)).await;
    }
    make_group(&store, &two, &group("other")).await;
    let expected: Vec<_> = ["B", "a", "a:z", "b"].map(group).to_vec();
    assert_eq!(store.groups(&one).await.unwrap(), expected);
    let delete = Write::DeleteGroup {
        topic: one.clone(),
        group: group("a"),
    };
    write(&store, delete).await.unwrap();
    assert_eq!(store.group(&one, &group("a")).await.unwrap(), None);
    assert!(store.group(&one, &group("a:z")).await.unwrap().is_some());
    assert_eq!(store.groups(&one).await.unwrap().len(), 3);
}
