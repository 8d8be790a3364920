//! Folders as a crash leaves them, and ways to damage them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::domain::{CursorUpdate, Durability, NewEvent, Retention, Retry, TopicName, TopicSettings};
use tidegate::store::{EmbeddedStore, GroupState, OpenError, Store, StoreOptions, TopicState, Write};

use crate::bench::*;

pub fn durable(durability: Durability) -> StoreOptions {
    StoreOptions {
        rules: Arc::new(move |_| TopicSettings {
            partitions: 4,
            durability,
            ..TopicSettings::default()
        }),
        ..StoreOptions::default()
    }
}

pub fn open(path: &Path) -> Result<Arc<dyn Store>, OpenError> {
    let store = EmbeddedStore::open(path, durable(Durability::Fsync))?;
    Ok(Arc::new(store))
}

/// All that can be read of a topic.
#[derive(Debug, PartialEq)]
pub struct Contents {
    topics: Vec<(TopicName, TopicState)>,
    events: Vec<Arc<tidegate::domain::Event>>,
    groups: Vec<GroupState>,
    found: Vec<Option<u64>>,
}

impl Contents {
    /// Up to which seq a topic's events are gone.
    pub fn removed(&self, topic: &TopicName) -> u64 {
        let state = self.topics.iter().find(|(name, _)| name == topic);
        state.map_or(0, |(_, state)| state.first - 1)
    }

    /// Whether an event is among them.
    pub fn holds(&self, event: &Arc<tidegate::domain::Event>) -> bool {
        self.events.contains(event)
    }
}

pub async fn contents(store: &Arc<dyn Store>) -> Contents {
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
pub struct Image {
    pub folder: TempDir,
    pub contents: Contents,
}

pub async fn image(commits: usize) -> Image {
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
pub fn copy(from: &Path, to: &Path) {
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
pub fn data_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

pub fn journal(folder: &Path) -> PathBuf {
    folder.join("db").join("0.jnl")
}

/// A copy of the image with its journal changed.
pub fn changed(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(image.folder.path(), folder.path());
    let mut bytes = std::fs::read(journal(folder.path())).unwrap();
    change(&mut bytes);
    std::fs::write(journal(folder.path()), bytes).unwrap();
    folder
}

/// Opens a folder; gives whether it opened. Then it must hold everything.
pub async fn opens_whole(folder: &Path, expected: &Contents, what: &str) -> bool {
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
pub fn places(count: u64, len: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % len as u64) as usize
    })
}

/// The only bytes that no checksum covers are the database's own numbers of its batches; a change of one that keeps
/// their order is harmless.
pub fn in_a_batch_number(image: &Image, byte: usize) -> bool {
    let bytes = std::fs::read(journal(image.folder.path())).unwrap();
    let mut starts = batch_starts(&bytes).into_iter();
    starts.any(|start| (start + 5..start + 13).contains(&byte))
}

/// Where the journal's batches begin: each ends with the same four bytes.
pub fn batch_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.windows(4).enumerate().filter(|(_, window)| window == b"FJL\x03");
    std::iter::once(0).chain(ends.map(|(at, _)| at + 4)).collect()
}

/// An image after each of some commits to one topic: the folder as it was, and what it held.
pub async fn images(durability: &[Durability]) -> Vec<Image> {
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

pub fn len_of(image: &Image) -> usize {
    data_len(&std::fs::read(journal(image.folder.path())).unwrap())
}

/// The newer image with the older one's mark: its last commit was written and never answered.
pub fn unanswered(older: &Image, newer: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = changed(newer, change);
    std::fs::copy(older.folder.path().join("MARK"), folder.path().join("MARK")).unwrap();
    folder
}

/// The image with its journal in two files, as the database leaves it when one is full.
pub fn in_two_files(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
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

pub fn newer_journal(folder: &Path) -> PathBuf {
    folder.join("db").join("1.jnl")
}
