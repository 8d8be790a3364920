//! Making a whole new folder out of rows, for backups and repairs.
//!
//! The rows go into tables directly, in their order and past the journal: its batches must each be a commit. The folder is
//! made under another name and gets its own when everything in it is on disk, so a broken-off one is never taken for one
//! that is whole.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::{Database, PersistMode, Slice};

use super::journal::JournalError;
use super::keys::{self, Space};
use super::mark::Mark;
use super::open::{self, OpenError};
use super::rows::{CommitRow, encode_number};
use super::staging::Spaces;
use super::sweep::Hidden;
use crate::store::StoreError;

/// Why a folder could not be checked, copied or repaired.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be worked with.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing is ever written over.
    #[error("{0} exists already: name a folder that does not")]
    Exists(PathBuf),
    /// There is no store in it.
    #[error("there is no store in {0}")]
    NoStore(PathBuf),
    /// The new folder could not be written.
    #[error("writing {path}: {why}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What went wrong.
        why: String,
    },
}

impl From<JournalError> for FolderError {
    fn from(error: JournalError) -> FolderError {
        let (path, why) = match error {
            JournalError::Io { path, source } => (path, source.to_string()),
            JournalError::Damaged(what) => (PathBuf::new(), what),
        };
        FolderError::Write { path, why }
    }
}

/// A folder in the making.
pub(super) struct NewFolder {
    target: PathBuf,
    partial: PathBuf,
    database: Database,
    spaces: Spaces,
}

/// A path with something behind its last name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    // `a/b/..` and the like have no last name of their own.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    path.with_file_name(name)
}

impl NewFolder {
    /// Begins a folder that will have this name, which must be free.
    pub fn begin(target: &Path) -> Result<NewFolder, FolderError> {
        if target.exists() {
            return Err(FolderError::Exists(target.to_path_buf()));
        }
        let partial = beside(target, &format!(".partial-{}", std::process::id()));
        let failed = |why: String| write_error(&partial, why);
        std::fs::create_dir_all(&partial).map_err(|error| failed(error.to_string()))?;
        let hidden = Arc::new(Hidden::default());
        let (database, spaces) = open::open_database(&partial.join("db"), &hidden).map_err(failed)?;
        Ok(NewFolder {
            target: target.to_path_buf(),
            partial,
            database,
            spaces,
        })
    }

    /// Fills a keyspace with rows in the order of their keys. The rows that speak of commits are left out: [`Self::finish`]
    /// writes them.
    pub fn fill(
        &self,
        space: Space,
        commit: &CommitRow,
        mut rows: impl FnMut(&mut dyn FnMut(Slice, Slice) -> Result<(), FolderError>) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        let failed = |error: fjall::Error| write_error(&self.partial, format!("{error:?}"));
        let mut ingestion = self.spaces.of(space).start_ingestion().map_err(failed)?;
        let number = commit.last_in_space.get(space as usize).copied().unwrap_or(0);
        let own = match space {
            Space::State => Some((keys::COMMIT, commit.encode(keys::COMMIT))),
            _ if number > 0 => Some((keys::LAST_COMMIT, encode_number(keys::LAST_COMMIT, number))),
            _ => None,
        };
        // Both sort before every other key.
        if let Some((key, value)) = own {
            ingestion.write(key, value).map_err(failed)?;
        }
        rows(&mut |key, value| {
            if *key == *keys::COMMIT || *key == *keys::LAST_COMMIT {
                return Ok(());
            }
            ingestion.write(key, value).map_err(failed)
        })?;
        ingestion.finish().map_err(failed)
    }

    /// Brings everything to disk and gives the folder its name.
    pub fn finish(self, commit: &CommitRow) -> Result<(), FolderError> {
        let NewFolder {
            target,
            partial,
            database,
            spaces,
        } = self;
        let failed = |why: String| write_error(&partial, why);
        let persisted = database.persist(PersistMode::SyncAll);
        persisted.map_err(|error| failed(format!("{error:?}")))?;
        drop(spaces);
        drop(database);
        let last_steps = || -> io::Result<()> {
            let mut mark = Mark::create(&partial.join("MARK"))?;
            mark.put(commit.number)?;
            mark.sync()?;
            open::write_format(&partial)?;
            open::sync(&partial)?;
            std::fs::rename(&partial, &target)?;
            match target.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => open::sync(parent),
                _ => Ok(()),
            }
        };
        last_steps().map_err(|error| failed(error.to_string()))
    }

    /// Removes what was made so far.
    pub fn give_up(self) {
        let partial = self.partial.clone();
        drop(self);
        if let Err(error) = std::fs::remove_dir_all(&partial) {
            tracing::warn!(path = %partial.display(), %error, "a folder that was begun could not be removed");
        }
    }
}

fn write_error(path: &Path, why: String) -> FolderError {
    FolderError::Write {
        path: path.to_path_buf(),
        why,
    }
}
