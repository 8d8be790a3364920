//! A strict look at the database's journal, before the database itself opens it.
//!
//! What was committed and not yet sorted into tables is only in the journal. The database reads it kindly: where it
//! meets bytes that it cannot read it cuts the rest off, says nothing, and goes on with the next file. That is right for
//! what a crash leaves at the very end, and wrong for damage. So the journal is read here first, without changing it: every
//! batch must be whole, the commits must follow each other, and only the end of the newest file may be torn, and only by
//! what was never answered. Then nothing is left for the database to be kind about.
//!
//! The format is that of fjall 3 (`journal/entry.rs` there): a file is a row of batches, then zeros. A batch is
//! `1, items: u32, seqno: u64`, its items, `3, checksum: u64, "FJL" and 3`; an item `2, type, compression,
//! keyspace: u64, key length: u16, value length: u32, stored length: u32, key, stored value`. Little-endian; the
//! checksum is xxh3 over the items.

use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::codec::Decoder;
use super::keys;
use super::rows::CommitRow;

/// What ends every batch.
const TRAILER: &[u8] = b"FJL\x03";
/// The bytes of a batch before its items.
const BATCH_HEAD: usize = 13;
/// More than the database's counter moves between two commits: beyond, the number was not written by it.
const SEQNO_STEP_MAX: u64 = 1 << 32;

/// What the journal holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Journal {
    /// The oldest commit in it, where there is one.
    pub oldest: Option<CommitRow>,
    /// The newest commit in it, where there is one.
    pub newest: Option<u64>,
    /// Where the newest file is torn: what is behind was never answered and can be cut off.
    pub torn: Option<(PathBuf, u64)>,
}

/// Why the journal is not to be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Damaged(String),
}

/// Reads the journal of a database. `mark` is the newest commit that must be whole.
pub(super) fn inspect(database: &Path, mark: u64) -> Result<Journal, JournalError> {
    let files = journal_files(database).map_err(|source| JournalError::Io {
        path: database.to_path_buf(),
        source,
    })?;
    let mut inspector = Inspector {
        mark,
        oldest: None,
        newest: None,
        seqno: 0,
    };
    let mut torn = None;
    for (place, (_, path)) in files.iter().enumerate() {
        let bytes = std::fs::read(path).map_err(|source| JournalError::Io {
            path: path.clone(),
            source,
        })?;
        let end = inspector.batches(path, &bytes)?;
        let rest = bytes.get(end..).unwrap_or_default();
        if rest.iter().all(|byte| *byte == 0) {
            continue;
        }
        if place + 1 < files.len() {
            return Err(damaged(path, end, "a batch cannot be read, and later ones exist"));
        }
        inspector.check_torn(path, end, rest)?;
        torn = Some((path.clone(), end as u64));
    }
    if inspector.newest.is_some_and(|newest| newest < mark) {
        let newest = inspector.newest.unwrap_or_default();
        return Err(JournalError::Damaged(format!(
            "the journal ends with commit {newest}, but commit {mark} was written and answered"
        )));
    }
    Ok(Journal {
        oldest: inspector.oldest,
        newest: inspector.newest,
        torn,
    })
}

/// The journal's files, oldest first.
fn journal_files(database: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(database)? {
        let path = entry?.path();
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let (true, Some(number)) = (is_journal, number) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

fn damaged(path: &Path, at: usize, what: &str) -> JournalError {
    JournalError::Damaged(format!("{}, byte {at}: {what}", path.display()))
}

/// One row as a batch of the journal has it.
pub(super) struct JournalRow<'a> {
    /// The database's number of the keyspace.
    pub keyspace: u64,
    pub key: &'a [u8],
    /// `None` where the row is removed.
    pub value: Option<&'a [u8]>,
}

/// Hands out every row of every batch that is whole, oldest first, also of those behind damage.
pub(super) fn salvage<E: From<JournalError>>(
    database: &Path,
    mut each: impl FnMut(JournalRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let io_error = |path: &Path, source| JournalError::Io {
        path: path.to_path_buf(),
        source,
    };
    for (_, path) in journal_files(database).map_err(|source| io_error(database, source))? {
        let bytes = std::fs::read(&path).map_err(|source| io_error(&path, source))?;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(batch) = Batch::parse(rest).filter(|batch| batch.commit.is_some()) else {
                // A batch begins with a 1; most bytes behind the last one are zeros.
                let next = rest.iter().skip(1).position(|byte| *byte == 1);
                let Some(next) = next else { break };
                at += next + 1;
                continue;
            };
            let mut cursor = Cursor {
                bytes: rest,
                at: BATCH_HEAD,
            };
            for _ in 0..batch.items {
                let Some(row) = cursor.row() else { break };
                each(row)?;
            }
            at += batch.len;
        }
    }
    Ok(())
}

struct Inspector {
    mark: u64,
    oldest: Option<CommitRow>,
    newest: Option<u64>,
    /// The highest number of the database's own that was met.
    seqno: u64,
}

impl Inspector {
    /// Reads batches up to the first bytes that are none; gives where that is.
    fn batches(&mut self, path: &Path, bytes: &[u8]) -> Result<usize, JournalError> {
        let mut at = 0;
        while let Some(batch) = bytes.get(at..).and_then(Batch::parse) {
            let Some(commit) = batch.commit else {
                return Err(damaged(path, at, "a batch that no commit of ours wrote"));
            };
            if self.newest.is_some_and(|newest| commit.number != newest + 1) {
                let newest = self.newest.unwrap_or_default();
                let what = format!("commit {newest} is followed by commit {}", commit.number);
                return Err(damaged(path, at, &what));
            }
            let least = commit.engine_seqno.max(self.seqno);
            if !(least..least.saturating_add(SEQNO_STEP_MAX)).contains(&batch.seqno) {
                return Err(damaged(path, at, "a batch is not in its order"));
            }
            self.newest = Some(commit.number);
            self.oldest.get_or_insert(commit);
            self.seqno = batch.seqno + 1;
            at += batch.len;
        }
        Ok(at)
    }

    /// A torn end is what the last write before a crash left. Where commit rows are found in it that must not be lost,
    /// it is damage.
    fn check_torn(&self, path: &Path, end: usize, rest: &[u8]) -> Result<(), JournalError> {
        let found = commits_in(rest);
        let answered = found
            .iter()
            .map(|commit| commit.durable)
            .max()
            .unwrap_or(0)
            .max(self.mark);
        let lost = match self.newest {
            Some(newest) => newest < answered,
            None => found.iter().any(|commit| commit.number <= answered),
        };
        if lost {
            let what = format!("a batch cannot be read, and commits up to {answered} were written and answered");
            return Err(damaged(path, end, &what));
        }
        Ok(())
    }
}

/// Every commit row that can be made out somewhere in these bytes.
fn commits_in(bytes: &[u8]) -> Vec<CommitRow> {
    let value_len = CommitRow::default().encode(keys::COMMIT).len();
    let mut found = Vec::new();
    for (at, window) in bytes.windows(keys::COMMIT.len()).enumerate() {
        if window == keys::COMMIT {
            let start = at + keys::COMMIT.len();
            let value = bytes.get(start..start + value_len).unwrap_or_default();
            found.extend(Decoder::whole(keys::COMMIT, value, CommitRow::decode));
        }
    }
    found
}

/// A batch that is whole.
struct Batch {
    items: u32,
    seqno: u64,
    commit: Option<CommitRow>,
    len: usize,
}

impl Batch {
    fn parse(bytes: &[u8]) -> Option<Batch> {
        let mut cursor = Cursor { bytes, at: 0 };
        if cursor.u8()? != 1 {
            return None;
        }
        let items = cursor.u32()?;
        let seqno = cursor.u64()?;
        let start = cursor.at;
        let mut commit = None;
        for _ in 0..items {
            let (key, value) = cursor.item()?;
            if key == keys::COMMIT {
                commit = Decoder::whole(key, value, CommitRow::decode);
            }
        }
        let sum = xxh3_64(bytes.get(start..cursor.at)?);
        let is_end = cursor.u8()? == 3 && cursor.u64()? == sum && cursor.take(TRAILER.len())? == TRAILER;
        is_end.then_some(Batch {
            items,
            seqno,
            commit,
            len: cursor.at,
        })
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Key and stored value of an item.
    fn item(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let row = self.row()?;
        Some((row.key, row.value.unwrap_or_default()))
    }

    fn row(&mut self) -> Option<JournalRow<'a>> {
        if self.u8()? != 2 {
            return None;
        }
        let kind = self.u8()?;
        let _compression = self.u8()?;
        let keyspace = self.u64()?;
        let key_len = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        let _value_len = self.u32()?;
        let stored_len = self.u32()?;
        let key = self.take(usize::from(key_len))?;
        let value = self.take(stored_len as usize)?;
        Some(JournalRow {
            keyspace,
            key,
            value: (kind == 0).then_some(value),
        })
    }
}
