//! Looking after a folder: `check`, `repair` and `backup` do what they say, on whole folders and on damaged ones.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::domain::{Durability, NewEvent, Retention};
use tidegate::store::{EmbeddedStore, FolderError, Store, Write, check_folder, repair_folder};

use super::image::*;
use crate::bench::*;

fn problems(path: &Path) -> Vec<String> {
    check_folder(path, |_| {}).unwrap().problems
}

/// A copy of an image that is inside of another folder, so that what is made beside it goes with it.
fn nested(image: &Image, change: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("data");
    copy(image.folder.path(), &path);
    change(&path);
    (outer, path)
}

fn change_journal(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(journal(path)).unwrap();
    change(&mut bytes);
    std::fs::write(journal(path), bytes).unwrap();
}

#[tokio::test]
async fn a_whole_folder_is_found_whole_and_not_changed() {
    let image = image(40).await;
    let (outer, path) = nested(&image, |_| {});
    let before = std::fs::read(journal(&path)).unwrap();
    let found = check_folder(&path, |_| {}).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!((found.topics, found.events, found.groups), (2, 160 + 50, 1));
    assert_eq!(std::fs::read(journal(&path)).unwrap(), before);
    assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1, "no copy is left");
    assert!(opens_whole(&path, &image.contents, "after a check").await);
}

#[tokio::test]
async fn what_an_open_refuses_a_check_finds_and_a_repair_makes_openable() {
    let image = image(60).await;
    let len = data_len(&std::fs::read(journal(image.folder.path())).unwrap());
    let (mut repaired, mut kept_most) = (0, 0);
    for place in places(16, len * 8) {
        let (outer, path) = nested(&image, |path| {
            change_journal(path, |bytes| bytes[place / 8] ^= 1 << (place % 8))
        });
        if open(&path).is_ok() {
            continue;
        }
        let found = problems(&path);
        assert!(
            !found.is_empty(),
            "bit {place} was refused at opening, and a check finds nothing"
        );
        let before = std::fs::read(journal(&path)).unwrap();
        let result = repair_folder(&path, |_| {}).unwrap();
        assert!(!result.problems.is_empty(), "bit {place}");
        assert_eq!(
            std::fs::read(journal(&result.old)).unwrap(),
            before,
            "the old one is kept as it was"
        );
        assert_eq!(problems(&path), Vec::<String>::new(), "bit {place}, after the repair");
        assert_eq!(
            std::fs::read_dir(outer.path()).unwrap().count(),
            2,
            "the two folders and nothing else"
        );
        let store = open(&path).unwrap();
        check_kept(&store, &image, result.events).await;
        store.close().await.unwrap();
        let store = open(&path).unwrap();
        assert_eq!(
            seqs_of(&append(&store, &topic("faults.a"), events("b", 1)).await.unwrap()).len(),
            1
        );
        store.close().await.unwrap();
        repaired += 1;
        // One batch is damaged: it has 4 + 2 events.
        kept_most += u32::from(result.events + 6 >= 240 + 50);
    }
    println!("{repaired} repaired, {kept_most} of them lost one batch at most");
    assert!(repaired > 10 && kept_most * 10 >= repaired * 9);
}

/// Everything that is still there is what it was, its ids lead to it, and new events get new seqs.
async fn check_kept(store: &Arc<dyn Store>, image: &Image, expected: u64) {
    let mut count = 0;
    for name in ["faults.a", "faults.b"].map(topic) {
        let Some(state) = store.topic(&name).await.unwrap() else {
            continue;
        };
        let kept = all(store, &name).await;
        for event in &kept {
            // Where a trim was lost, what it had taken is back.
            assert!(
                image.contents.holds(event) || event.seq <= image.contents.removed(&name),
                "{event:?} was never written"
            );
        }
        let ids = kept.iter().map(|event| event.id.clone()).collect();
        let found = store.seqs_of_ids(&name, ids).await.unwrap();
        assert_eq!(found, kept.iter().map(|event| Some(event.seq)).collect::<Vec<_>>());
        count += kept.len() as u64;
        let fresh = append(store, &name, events("after", 1)).await.unwrap();
        assert_eq!(seqs_of(&fresh), [state.tail + 1]);
        assert_eq!(all(store, &name).await.len(), kept.len() + 1);
        store.ordinals_at(&name, state.tail).await.unwrap();
        store.seq_at_ts(&name, 1).await.unwrap();
    }
    assert_eq!(count, expected);
}

#[tokio::test]
async fn a_backup_of_a_store_in_use_is_a_store() {
    let (live, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(EmbeddedStore::open(live.path(), durable(Durability::Os)).unwrap());
    let dynamic: Arc<dyn Store> = store.clone();
    let name = topic("backup");
    let group = group("g");
    append(&dynamic, &name, events("before", 3_000)).await.unwrap();
    make_group(&dynamic, &name, &group).await;
    let (target, copier) = (copies.path().join("copy"), store.clone());
    let copying = tokio::task::spawn_blocking({
        let target = target.clone();
        move || copier.backup(&target, |_| {})
    });
    // Writing and trimming go on while it is made.
    let mut n = 0;
    while !copying.is_finished() {
        n += 1;
        append(&dynamic, &name, events(&format!("w{n}"), 10)).await.unwrap();
        let retention = Retention {
            count: Some(2_000),
            ..Retention::default()
        };
        write(
            &dynamic,
            Write::Trim {
                topic: name.clone(),
                retention,
            },
        )
        .await
        .unwrap();
    }
    let copied = copying.await.unwrap().unwrap();
    println!("{n} commits while {} events were copied", copied.events);
    assert!(
        matches!(store.backup(&target, |_| {}), Err(FolderError::Exists(_))),
        "nothing is written over"
    );
    assert_eq!(problems(&target), Vec::<String>::new());
    let original = all(&dynamic, &name).await;
    store.close().await.unwrap();

    let copy = open(&target).unwrap();
    let kept = all(&copy, &name).await;
    assert_eq!(kept.len() as u64, copied.events);
    let seqs: HashSet<u64> = original.iter().map(|event| event.seq).collect();
    assert!(
        kept.iter()
            .filter(|event| seqs.contains(&event.seq))
            .all(|event| original.contains(event))
    );
    assert_eq!(copy.groups(&name).await.unwrap(), [group]);
    let tail = copy.topic(&name).await.unwrap().unwrap().tail;
    let answers = append(&copy, &name, vec![event("restored")]).await.unwrap();
    assert_eq!(seqs_of(&answers), [tail + 1]);
    copy.close().await.unwrap();
    let copy = open(&target).unwrap();
    assert_eq!(all(&copy, &name).await.len(), kept.len() + 1);
    copy.close().await.unwrap();
}

#[tokio::test]
async fn flipped_bits_in_tables_are_errors_and_never_other_data() {
    let live = tempfile::tempdir().unwrap();
    let store = open(live.path()).unwrap();
    let name = topic("tables");
    let keyed = |n: usize| NewEvent {
        key: Some(format!("key-{}", n % 50).into()),
        ..event(&format!("id-{n}"))
    };
    append(&store, &name, (0..2_000).map(keyed).collect()).await.unwrap();
    // A backup is all tables and an empty journal.
    store.close().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = EmbeddedStore::open(live.path(), durable(Durability::Fsync)).unwrap();
    let original = source.read(&name, 0, usize::MAX, usize::MAX).await.unwrap();
    source.backup(&folder.path().join("copy"), |_| {}).unwrap();
    source.close().await.unwrap();
    let mut tables = Vec::new();
    find_tables(&folder.path().join("copy"), &mut tables);
    assert!(tables.len() >= 3, "{tables:?}");
    let (mut refused, mut errors, mut whole) = (0, 0, 0);
    let mut kept = Vec::new();
    for (n, table) in (0..24).zip(tables.iter().cycle()) {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("data");
        copy(&folder.path().join("copy"), &path);
        let table = path.join(table.strip_prefix(folder.path().join("copy")).unwrap());
        let mut bytes = std::fs::read(&table).unwrap();
        let place = places(n + 1, bytes.len() * 8).last().unwrap();
        bytes[place / 8] ^= 1 << (place % 8);
        std::fs::write(&table, bytes).unwrap();
        let Ok(store) = open(&path) else {
            refused += 1;
            kept.push(repaired_events(&path, &original).await);
            continue;
        };
        match store.read(&name, 0, usize::MAX, usize::MAX).await {
            Ok(read) => {
                assert!(read == original, "{n}: {table:?} bit {place}: read something else");
                whole += 1;
            }
            Err(_) => errors += 1,
        }
        for event in original.iter().step_by(97) {
            match store.read_seqs(&name, vec![event.seq]).await {
                Ok(found) => assert_eq!(found, std::slice::from_ref(event), "{table:?} bit {place}"),
                Err(_) => errors += 1,
            }
            if let Ok(found) = store.seqs_of_ids(&name, vec![event.id.clone()]).await {
                assert_eq!(found, [Some(event.seq)], "{table:?} bit {place}: an id is not found");
            }
        }
        store.close().await.unwrap();
    }
    println!("of 24 flips: {refused} refused at opening, {errors} reads gave errors, {whole} read whole");
    assert!(refused + errors > 0);
    kept.sort_unstable();
    println!("repairs of those that were refused kept, of 2,000 events: {kept:?}");
    assert!(kept.last() == Some(&original.len()), "no repair kept everything");
}

/// How many events a repair keeps; each of them as it was, in a folder that opens.
async fn repaired_events(path: &Path, original: &[Arc<tidegate::domain::Event>]) -> usize {
    let repaired = repair_folder(path, |_| {}).unwrap();
    assert_eq!(problems(path), Vec::<String>::new());
    let store = open(path).unwrap();
    let kept = all(&store, &topic("tables")).await;
    assert_eq!(kept.len() as u64, repaired.events);
    assert!(kept.iter().all(|event| original.contains(event)));
    assert!(kept.len() == original.len() || !(repaired.lost.is_empty() && repaired.problems.is_empty()));
    store.close().await.unwrap();
    kept.len()
}

#[tokio::test]
async fn a_damaged_journal_costs_nothing_that_is_in_tables() {
    let outer = tempfile::tempdir().unwrap();
    let (live, path) = (outer.path().join("live"), outer.path().join("data"));
    let store = EmbeddedStore::open(&live, durable(Durability::Fsync)).unwrap();
    let name = topic("both");
    let write = Write::Append {
        topic: name.clone(),
        events: events("table", 500),
    };
    store.commit(vec![write], NOW).await.unwrap();
    // All of it is in tables there; what comes now is in the journal.
    store.backup(&path, |_| {}).unwrap();
    store.close().await.unwrap();
    let store = open(&path).unwrap();
    for n in 0..10 {
        append(&store, &name, vec![event(&format!("journal-{n}"))])
            .await
            .unwrap();
    }
    store.close().await.unwrap();
    change_journal(&path, |bytes| {
        let place = bytes.windows(9).position(|window| window == b"journal-4").unwrap();
        bytes[place] ^= 1;
    });
    assert!(open(&path).is_err());
    let found = check_folder(&path, |_| {}).unwrap();
    assert_eq!(found.events, 509, "{:?}", found.problems);
    let repaired = repair_folder(&path, |_| {}).unwrap();
    assert_eq!(repaired.events, 509);
    assert_eq!(repaired.lost, ["topic both: 1 events: 505"]);
    let store = open(&path).unwrap();
    let kept = seqs(&all(&store, &name).await);
    assert_eq!(kept, (1..=510).filter(|seq| *seq != 505).collect::<Vec<_>>());
    store.close().await.unwrap();
}

fn find_tables(folder: &Path, tables: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_tables(&path, tables);
        } else if path.parent().unwrap().ends_with("tables") && path.metadata().unwrap().len() > 0 {
            tables.push(path);
        }
    }
}
