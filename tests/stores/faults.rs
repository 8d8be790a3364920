//! What a damaged folder does to the embedded store: it opens with everything that was answered, or it says that it
//! cannot. Never less, without a word.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::domain::{CursorUpdate, Durability, NewEvent, Retention, Retry, TopicName, TopicSettings};
use tidegate::store::{EmbeddedStore, GroupState, OpenError, Store, StoreOptions, TopicState, Write};

use crate::bench::*;

fn durable(durability: Durability) -> StoreOptions {
    StoreOptions {
        rules: Arc::new(move |_| TopicSettings {
            partitions: 4,
            durability,
            ..TopicSettings::default()
        }),
        ..StoreOptions::default()
    }
}

fn open(path: &Path) -> Result<Arc<dyn Store>, OpenError> {
    let store = EmbeddedStore::open(path, durable(Durability::Fsync))?;
    Ok(Arc::new(store))
}

/// All that can be read of a topic.
#[derive(Debug, PartialEq)]
struct Contents {
    topics: Vec<(TopicName, TopicState)>,
    events: Vec<Arc<tidegate::domain::Event>>,
    groups: Vec<GroupState>,
    found: Vec<Option<u64>>,
}

async fn contents(store: &Arc<dyn Store>) -> Contents {
    let topics = store.topics().await.unwrap();
    let (mut events, mut groups, mut found) = (vec![], vec![], vec![]);
    for (topic, _) in &topics {
        let kept = all(store, topic).await;
        let ids = kept.iter().map(|event| event.id.clone()).collect();
        found.extend(store.seqs_of_ids(topic, ids).await.unwrap());
        events.extend(kept);
        for group in store.groups(topic).await.unwrap() {
            groups.push(store.group(topic, &group).await.unwrap().unwrap());
        }
    }
    Contents {
        topics,
        events,
        groups,
        found,
    }
}

/// A folder with a bit of everything, as it is on disk while the store is still open: what `kill -9` leaves.
struct Image {
    folder: TempDir,
    contents: Contents,
}

async fn image(commits: usize) -> Image {
    let live = tempfile::tempdir().unwrap();
    let store = open(live.path()).unwrap();
    let [a, b] = ["faults.a", "faults.b"].map(topic);
    let group = group("g");
    let epoch = make_group(&store, &a, &group).await;
    for n in 0..commits {
        let keyed = |id: String| NewEvent {
            key: Some(format!("key-{}", n % 5).into()),
            ..event(&id)
        };
        let batch = vec![
            Write::Append {
                topic: a.clone(),
                events: (0..4).map(|m| keyed(format!("{n}-{m}"))).collect(),
            },
            Write::Append {
                topic: b.clone(),
                events: events(&format!("{n}"), 2),
            },
            Write::SaveCursors {
                topic: a.clone(),
                group: group.clone(),
                epoch,
                updates: vec![CursorUpdate {
                    partition: n as u32 % 4,
                    cursor: floor(n as u64),
                    retries: vec![Retry {
                        seq: n as u64 + 1,
                        attempts: 1,
                        due_ms: 5,
                        reason: "nack".into(),
                    }],
                    settled: vec![n as u64],
                }],
                dead_letters: vec![],
            },
            Write::Trim {
                topic: b.clone(),
                retention: Retention {
                    count: Some(50),
                    ..Retention::default()
                },
            },
        ];
        assert!(store.commit(batch, NOW).await.unwrap().iter().all(Result::is_ok));
    }
    let folder = tempfile::tempdir().unwrap();
    copy(live.path(), folder.path());
    let contents = contents(&store).await;
    store.close().await.unwrap();
    Image { folder, contents }
}

/// Copies a folder. Journals are made for 64 MiB and mostly empty: their zeros are left out, but for some.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "jnl") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.truncate(data_len(&bytes) + 100);
            std::fs::write(target, bytes).unwrap();
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

/// How much of a journal is not zeros at its end.
fn data_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("db").join("0.jnl")
}

/// A copy of the image with its journal changed.
fn changed(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(image.folder.path(), folder.path());
    let mut bytes = std::fs::read(journal(folder.path())).unwrap();
    change(&mut bytes);
    std::fs::write(journal(folder.path()), bytes).unwrap();
    folder
}

/// Opens a folder; gives whether it opened. Then it must hold everything.
async fn opens_whole(folder: &Path, expected: &Contents, what: &str) -> bool {
    match open(folder) {
        Ok(store) => {
            assert_eq!(&contents(&store).await, expected, "{what}: opened with something else");
            store.close().await.unwrap();
            true
        }
        Err(error @ OpenError::Damaged { .. }) => {
            let text = error.to_string();
            assert!(text.contains("store check") && text.contains("store repair"), "{text}");
            false
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Places that are spread over a length, the same in every run.
fn places(count: u64, len: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % len as u64) as usize
    })
}

#[tokio::test]
async fn an_image_of_a_killed_process_opens_whole() {
    let image = image(40).await;
    assert!(opens_whole(image.folder.path(), &image.contents, "as it is").await);
    assert!(opens_whole(image.folder.path(), &image.contents, "a second time").await);
}

#[tokio::test]
async fn flipped_bits_in_the_journal_are_seen() {
    let image = image(60).await;
    let len = data_len(&std::fs::read(journal(image.folder.path())).unwrap());
    let mut opened = 0;
    for (n, place) in places(2_000, (len + 100) * 8).enumerate() {
        let (byte, bit) = (place / 8, place % 8);
        let folder = changed(&image, |bytes| bytes[byte] ^= 1 << bit);
        let what = format!("flip {n}, bit {bit} of byte {byte} of {len}");
        let whole = opens_whole(folder.path(), &image.contents, &what).await;
        opened += u32::from(whole);
        assert!(
            !whole || byte >= len || in_a_batch_number(&image, byte),
            "{what}: opened"
        );
    }
    println!("{opened} of 2,000 opened whole, the others were refused");
}

/// The only bytes that no checksum covers are the database's own numbers of its batches; a change of one that keeps
/// their order is harmless.
fn in_a_batch_number(image: &Image, byte: usize) -> bool {
    let bytes = std::fs::read(journal(image.folder.path())).unwrap();
    let mut starts = batch_starts(&bytes).into_iter();
    starts.any(|start| (start + 5..start + 13).contains(&byte))
}

/// Where the journal's batches begin: each ends with the same four bytes.
fn batch_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.windows(4).enumerate().filter(|(_, window)| window == b"FJL\x03");
    std::iter::once(0).chain(ends.map(|(at, _)| at + 4)).collect()
}

#[tokio::test]
async fn a_journal_cut_anywhere_is_seen() {
    let image = image(30).await;
    let len = data_len(&std::fs::read(journal(image.folder.path())).unwrap());
    for cut in (0..len).step_by(97).chain(len - 30..len) {
        let folder = changed(&image, |bytes| bytes.truncate(cut));
        assert!(
            !opens_whole(folder.path(), &image.contents, &format!("cut at {cut} of {len}")).await,
            "cut at {cut} of {len}: opened without what was answered"
        );
    }
    let folder = changed(&image, |bytes| bytes.truncate(len));
    assert!(opens_whole(folder.path(), &image.contents, "only zeros are gone").await);
}

/// An image after each of some commits to one topic: the folder as it was, and what it held.
async fn images(durability: &[Durability]) -> Vec<Image> {
    let live = tempfile::tempdir().unwrap();
    let rules: tidegate::store::TopicRules = Arc::new(|topic| TopicSettings {
        durability: match topic.as_str() {
            "torn.os" => Durability::Os,
            _ => Durability::Fsync,
        },
        ..TopicSettings::default()
    });
    let options = StoreOptions {
        rules,
        ..StoreOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(live.path(), options).unwrap());
    let mut images = vec![];
    for (n, durability) in durability.iter().enumerate() {
        let topic = match durability {
            Durability::Os => topic("torn.os"),
            _ => topic("torn.fsync"),
        };
        let large = NewEvent {
            payload: format!("\"{}\"", "x".repeat(3_000)).into(),
            ..event(&format!("{n}"))
        };
        append(&store, &topic, vec![large]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        copy(live.path(), folder.path());
        let contents = contents(&store).await;
        images.push(Image { folder, contents });
    }
    store.close().await.unwrap();
    images
}

fn len_of(image: &Image) -> usize {
    data_len(&std::fs::read(journal(image.folder.path())).unwrap())
}

/// The newer image with the older one's mark: its last commit was written and never answered.
fn unanswered(older: &Image, newer: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = changed(newer, change);
    std::fs::copy(older.folder.path().join("MARK"), folder.path().join("MARK")).unwrap();
    folder
}

#[tokio::test]
async fn a_torn_commit_that_was_never_answered_is_left_out() {
    let images = images(&[Durability::Fsync; 4]).await;
    let (older, newer) = (&images[2], &images[3]);
    let (from, to) = (len_of(older), len_of(newer));
    for cut in (from..to).step_by(61) {
        let folder = unanswered(older, newer, |bytes| bytes.truncate(cut));
        assert!(opens_whole(folder.path(), &older.contents, &format!("cut at {cut}")).await);
        let folder = unanswered(older, newer, |bytes| bytes[cut..].fill(0));
        assert!(opens_whole(folder.path(), &older.contents, &format!("zeros from {cut}")).await);
    }
    // A power cut may leave any sectors unwritten, not only the last ones.
    for sector in (from.next_multiple_of(512)..to - 512).step_by(512) {
        let folder = unanswered(older, newer, |bytes| bytes[sector..sector + 512].fill(0));
        assert!(opens_whole(folder.path(), &older.contents, &format!("no sector {sector}")).await);
    }
    let folder = unanswered(older, newer, |_| {});
    assert!(opens_whole(folder.path(), &newer.contents, "whole after all").await);
}

#[tokio::test]
async fn a_later_commit_tells_that_an_earlier_one_was_answered() {
    let images = images(&[Durability::Fsync; 4]).await;
    let (oldest, newest) = (&images[0], &images[3]);
    let middle = len_of(&images[1]) + 100;
    // The mark is old, as after a power cut; commit 4 says that commit 3 was on disk.
    let folder = unanswered(oldest, newest, |bytes| bytes[middle] ^= 1);
    assert!(!opens_whole(folder.path(), &newest.contents, "flip in commit 3").await);
}

#[tokio::test]
async fn a_power_cut_may_take_what_was_only_handed_over() {
    use Durability::{Fsync, Os};
    let images = images(&[Fsync, Os, Os, Os]).await;
    let sector = len_of(&images[1]).next_multiple_of(512) + 512;
    let folder = changed(&images[3], |bytes| bytes[sector..sector + 512].fill(0));
    assert!(opens_whole(folder.path(), &images[1].contents, "commit 3 is torn, 4 is there").await);
    assert!(opens_whole(images[3].folder.path(), &images[3].contents, "killed").await);

    let images = self::images(&[Fsync, Os, Fsync]).await;
    let sector = len_of(&images[0]).next_multiple_of(512);
    let folder = changed(&images[2], |bytes| bytes[sector..sector + 512].fill(0));
    assert!(!opens_whole(folder.path(), &images[2].contents, "synced by commit 3").await);
}

#[tokio::test]
async fn a_missing_mark_format_or_database_is_seen() {
    for missing in ["MARK", "FORMAT", "db"] {
        let image = image(3).await;
        let path = image.folder.path().join(missing);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        assert!(
            !opens_whole(image.folder.path(), &image.contents, missing).await,
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_folder_of_a_newer_program_is_left_alone() {
    let image = image(1).await;
    std::fs::write(image.folder.path().join("FORMAT"), "tidegate 2\n").unwrap();
    let refused = open(image.folder.path()).err().unwrap();
    assert!(
        matches!(&refused, OpenError::Format { found, .. } if found == "tidegate 2"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::Locked { .. })));
    append(&store, &topic("once"), vec![event("a")]).await.unwrap();
    store.close().await.unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(all(&store, &topic("once")).await.len(), 1);
}

#[tokio::test]
async fn a_making_that_was_broken_off_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("db")).unwrap();
    std::fs::write(folder.path().join("db").join("lock"), "").unwrap();
    std::fs::write(folder.path().join("db").join("0.jnl"), "").unwrap();
    let store = open(folder.path()).unwrap();
    append(&store, &topic("again"), vec![event("a")]).await.unwrap();
    store.close().await.unwrap();
}

/// The image with its journal in two files, as the database leaves it when one is full.
fn in_two_files(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(image.folder.path(), folder.path());
    let bytes = std::fs::read(journal(folder.path())).unwrap();
    let starts = batch_starts(&bytes);
    let (older, newer) = bytes.split_at(starts[starts.len() / 2]);
    let mut older = older.to_vec();
    older.extend_from_slice(&[0; 300]);
    change(&mut older);
    std::fs::write(journal(folder.path()), older).unwrap();
    std::fs::write(newer_journal(folder.path()), newer).unwrap();
    folder
}

fn newer_journal(folder: &Path) -> PathBuf {
    folder.join("db").join("1.jnl")
}

#[tokio::test]
async fn damage_in_an_older_journal_is_seen() {
    let image = image(30).await;
    let folder = in_two_files(&image, |_| {});
    let len = data_len(&std::fs::read(journal(folder.path())).unwrap());
    assert!(opens_whole(folder.path(), &image.contents, "whole").await);
    for place in places(200, len * 8) {
        let folder = in_two_files(&image, |bytes| bytes[place / 8] ^= 1 << (place % 8));
        let whole = opens_whole(folder.path(), &image.contents, &format!("bit {place}")).await;
        assert!(!whole || in_a_batch_number(&image, place / 8), "bit {place}");
    }
    for cut in (0..len).step_by(211) {
        let folder = in_two_files(&image, |bytes| bytes.truncate(cut));
        assert!(!opens_whole(folder.path(), &image.contents, &format!("cut at {cut}")).await);
    }
    for missing in [journal, newer_journal] {
        let folder = in_two_files(&image, |_| {});
        std::fs::remove_file(missing(folder.path())).unwrap();
        assert!(!opens_whole(folder.path(), &image.contents, "a whole file is gone").await);
    }
}
