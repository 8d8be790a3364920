//! Opening a folder: who may, whether it is one of ours, and whether all that was answered is still in it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::{AbstractTree, CompressionType, Database};

use super::journal::{self, Journal, JournalError};
use super::keys::{self, Space};
use super::log;
use super::mark::Mark;
use super::reader::View;
use super::rows::{CommitRow, Rows, TopicRow, damaged};
use super::staging::{Spaces, read_failed};
use super::sweep::{FilterFactory, Hidden};
use crate::domain::TopicName;
use crate::store::StoreError;

/// The version of the folder's layout that this program writes.
const FORMAT: u32 = 1;
/// The most that waits in the journal to be sorted into tables.
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system said no.
    #[error("{path}: {source}")]
    Io {
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Two processes on one folder would destroy it.
    #[error("{path} is in use by another process")]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written by a newer program, or is none of ours.
    #[error("{path} has format {found:?}, this program knows format {FORMAT}: use the program that wrote it")]
    Format {
        /// The folder.
        path: PathBuf,
        /// What it says of itself.
        found: String,
    },
    /// Something that was written and answered is not there any more.
    #[error(
        "{path} is damaged: {what}. `tidegate store check` says what is wrong, `tidegate store repair` keeps what is \
         whole and says what was lost"
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// What opening gives.
pub(super) struct Opened {
    pub database: Database,
    pub spaces: Spaces,
    pub hidden: Arc<Hidden>,
    pub mark: Mark,
    pub lock: File,
    pub last: CommitRow,
    pub topics: usize,
}

/// Opens a folder, and makes it where it is not there.
pub(super) fn open(path: &Path) -> Result<Opened, OpenError> {
    let at = |place: &Path| {
        let path = place.to_path_buf();
        move |source| OpenError::Io { path, source }
    };
    let damaged = |what: String| OpenError::Damaged {
        path: path.to_path_buf(),
        what,
    };
    std::fs::create_dir_all(path).map_err(at(path))?;
    let lock = lock(path)?;
    check_format(path)?;

    let database_path = path.join("db");
    // The database writes this file last when it is made.
    let exists = database_path.join("version").exists();
    let mark_path = path.join("MARK");
    let mark = match (Mark::open(&mark_path), exists) {
        (Ok(Some(mark)), _) => mark,
        (Ok(None), false) => Mark::create(&mark_path).map_err(at(&mark_path))?,
        (Err(error), false) if error.kind() == io::ErrorKind::NotFound => {
            Mark::create(&mark_path).map_err(at(&mark_path))?
        }
        (Ok(None), true) => return Err(damaged("the file MARK cannot be read".into())),
        (Err(error), true) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("the file MARK is missing".into()));
        }
        (Err(error), _) => return Err(at(&mark_path)(error)),
    };
    let mut journal = Journal::default();
    if exists {
        journal = journal::inspect(&database_path, mark.number()).map_err(|error| match error {
            JournalError::Io { path, source } => OpenError::Io { path, source },
            JournalError::Damaged(what) => damaged(what),
        })?;
        if let Some((torn, end)) = &journal.torn {
            cut(torn, *end).map_err(at(torn))?;
        }
    } else if mark.number() > 0 {
        return Err(damaged("the database is missing".into()));
    } else if database_path.exists() {
        // Its making was broken off half way; there is nothing in it yet.
        std::fs::remove_dir_all(&database_path).map_err(at(&database_path))?;
    }

    let hidden = Arc::new(Hidden::default());
    let (database, spaces) = open_database(&database_path, &hidden).map_err(damaged)?;
    // The database syncs what is in its folder; the names of that folder, of the mark and of the whole are ours to keep.
    for folder in [Some(path), path.parent()].into_iter().flatten() {
        if !folder.as_os_str().is_empty() {
            sync(folder).map_err(at(folder))?;
        }
    }
    let view = View::new(&database, &spaces);
    let verified = check_reach(&spaces, &journal).and_then(|()| verify(&view, mark.number(), journal.newest, &hidden));
    let (last, topics) = verified.map_err(|error| damaged(error.to_string()))?;
    drop(view);
    Ok(Opened {
        database,
        spaces,
        hidden,
        mark,
        lock,
        last,
        topics,
    })
}

pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let lock_path = path.join("LOCK");
    let open = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path);
    let io_error = |source| OpenError::Io {
        path: lock_path.clone(),
        source,
    };
    let file = open.map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
            path: path.to_path_buf(),
        }),
        Err(TryLockError::Error(source)) => Err(io_error(source)),
    }
}

/// Reads the folder's format, and writes it into a new one.
pub(super) fn check_format(path: &Path) -> Result<(), OpenError> {
    let format_path = path.join("FORMAT");
    let io_error = |source| OpenError::Io {
        path: format_path.clone(),
        source,
    };
    let expected = format_line();
    match std::fs::read(&format_path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(OpenError::Format {
            path: path.to_path_buf(),
            found: found.trim().to_string(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join("db").join("version").exists() {
                return Err(OpenError::Damaged {
                    path: path.to_path_buf(),
                    what: "the file FORMAT is missing".into(),
                });
            }
            write_format(path).map_err(io_error)
        }
        Err(error) => Err(io_error(error)),
    }
}

fn format_line() -> String {
    format!("tidegate {FORMAT}\n")
}

/// Writes the file that says what a folder is.
pub(super) fn write_format(path: &Path) -> io::Result<()> {
    let temporary = path.join("FORMAT.new");
    std::fs::write(&temporary, format_line())?;
    sync(&temporary)?;
    std::fs::rename(&temporary, path.join("FORMAT"))
}

/// Brings a file or the names in a folder to disk.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn cut(path: &Path, end: u64) -> io::Result<()> {
    tracing::warn!(path = %path.display(), end, "the journal's end is torn, as a crash leaves it: cut off");
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()
}

/// Opens the database. It panics on some kinds of damage; here that is an answer like others.
pub(super) fn open_database(path: &Path, hidden: &Arc<Hidden>) -> Result<(Database, Spaces), String> {
    let hidden = Arc::clone(hidden);
    let open = AssertUnwindSafe(|| {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            // With more than one, the first passes compactions on to the others, and where those are busy it passes them
            // to itself again and again: a whole core for nothing.
            .worker_threads(1)
            // The database compares what it reads with what it would compress to today: another version of the
            // compressor would make it refuse its own journal.
            .journal_compression(CompressionType::None)
            .with_compaction_filter_factories(Arc::new(move |name| FilterFactory::of(name, &hidden)))
            .open()?;
        let spaces = Spaces::open(&database)?;
        Ok::<_, fjall::Error>((database, spaces))
    });
    match catch_unwind(open) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(format!("the database does not open: {error:?}")),
        Err(_) => Err("the database broke down while it was opened".into()),
    }
}

/// What the journal does not begin with must be in tables. Where a whole file of it is gone, they end before that. To be
/// called as soon as the database is open: it sorts what it has into tables by and by.
pub(super) fn check_reach(spaces: &Spaces, journal: &Journal) -> Result<(), StoreError> {
    let Some(oldest) = &journal.oldest else { return Ok(()) };
    for (space, least) in Space::ALL.into_iter().zip(oldest.seqnos_before) {
        let reached = spaces.of(space).tree.get_highest_persisted_seqno();
        if least > 0 && reached.is_none_or(|reached| reached < least) {
            return Err(StoreError::Corrupt(format!(
                "the journal begins with commit {}, and the tables of {} end before that: a file of the journal is gone",
                oldest.number,
                space.name()
            )));
        }
    }
    Ok(())
}

/// Compares what the database holds with what is known of it from elsewhere. Cheap: it looks at every topic and at the
/// two ends of its log, at no group. What is missing in between is an error when it is read.
fn verify(
    view: &View,
    mark: u64,
    newest_in_journal: Option<u64>,
    hidden: &Hidden,
) -> Result<(CommitRow, usize), StoreError> {
    let last = view
        .row(Space::State, keys::COMMIT, CommitRow::decode)?
        .unwrap_or_default();
    let expected = mark.max(newest_in_journal.unwrap_or(0));
    if last.number < expected {
        return Err(StoreError::Corrupt(format!(
            "it ends with commit {}, but commit {expected} was written",
            last.number
        )));
    }
    for (space, expected) in Space::ALL.into_iter().zip(last.last_in_space) {
        if space == Space::State {
            continue;
        }
        let found = view
            .row(space, keys::LAST_COMMIT, |decoder| decoder.u64())?
            .unwrap_or(0);
        if found != expected {
            return Err(StoreError::Corrupt(format!(
                "{} ends with commit {found}, but commit {expected} wrote to it",
                space.name()
            )));
        }
    }
    let mut firsts = HashMap::new();
    let mut tails: u64 = 0;
    for row in view.prefix(Space::State, keys::TOPICS) {
        let (key, value) = row.into_inner().map_err(read_failed)?;
        let (name, topic) = decode_topic(&key, &value)?;
        if topic.commit > last.number || topic.number > last.topic_number {
            return Err(StoreError::Corrupt(format!(
                "the topic {name} is newer than the newest commit"
            )));
        }
        if topic.keeps(topic.end.tail) {
            log::event(view, &topic, topic.first)?;
            log::event(view, &topic, topic.end.tail)?;
        }
        firsts.insert(topic.number, topic.first);
        tails = tails.saturating_add(topic.end.tail);
    }
    if tails != last.tails {
        return Err(StoreError::Corrupt(format!(
            "the topics have {tails} events by their rows, but {} were written",
            last.tails
        )));
    }
    let topics = firsts.len();
    hidden.load(firsts);
    Ok((last, topics))
}

/// Name and row of a topic.
pub(super) fn decode_topic(key: &[u8], value: &[u8]) -> Result<(TopicName, TopicRow), StoreError> {
    let name = key
        .get(keys::TOPICS.len()..)
        .and_then(|name| std::str::from_utf8(name).ok());
    let name = name.and_then(parse_topic_name);
    let row = super::codec::Decoder::whole(key, value, TopicRow::decode);
    name.zip(row).ok_or_else(|| damaged(Space::State, key))
}

/// A topic of dead letters can have a name that is longer than a client may give.
fn parse_topic_name(name: &str) -> Option<TopicName> {
    name.parse().ok().or_else(|| {
        let origin = name.strip_prefix(crate::domain::DEAD_LETTER_PREFIX)?;
        Some(parse_topic_name(origin)?.dead_letters())
    })
}
