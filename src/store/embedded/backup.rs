//! A consistent copy of an open store: the rows of one snapshot in a folder of their own. Commits go on meanwhile; only
//! the removal of expired rows waits, so that the snapshot stays whole.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::folder::{FolderError, NewFolder};
use super::keys::{self, Space};
use super::reader::View;
use super::rows::{CommitRow, Rows};
use super::staging::read_failed;
use super::sweep::{Filter, Keeping};
use super::{EmbeddedStore, Shared};

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Events.
    pub events: u64,
    /// Rows of all kinds.
    pub rows: u64,
    /// The newest commit in it.
    pub commit: u64,
}

/// How many rows lie between two reports of progress.
const REPORT_ROWS: u64 = 10_000;

impl EmbeddedStore {
    /// Writes a copy of the store, as it is now, into a folder that does not exist yet. It blocks; commits and reads go
    /// on. `progress` is called with the number of rows every now and then.
    pub fn backup(&self, target: &Path, progress: impl FnMut(u64)) -> Result<Copied, FolderError> {
        let shared = self.shared()?;
        let folder = NewFolder::begin(target)?;
        match copy(&shared, &folder, progress) {
            Ok((copied, commit)) => folder.finish(&commit).map(|()| copied),
            Err(error) => {
                folder.give_up();
                Err(error)
            }
        }
    }
}

fn copy(
    shared: &Arc<Shared>,
    folder: &NewFolder,
    mut progress: impl FnMut(u64),
) -> Result<(Copied, CommitRow), FolderError> {
    // Before the snapshot: what it sees is kept until this is dropped.
    let _keeping = Keeping::new(&shared.hidden, &shared.sweeper);
    let view = View::new(&shared.database, &shared.spaces);
    let commit = view.row(Space::State, keys::COMMIT, CommitRow::decode)?;
    let commit = commit.unwrap_or_default().in_a_new_database();
    let mut copied = Copied {
        commit: commit.number,
        ..Copied::default()
    };
    for space in Space::ALL {
        let mut filter = Filter::new(space, &shared.hidden);
        folder.fill(space, &commit, |put| {
            for row in view.prefix(space, b"") {
                let (key, value) = row.into_inner().map_err(read_failed)?;
                if filter.hides(&key, &value) {
                    continue;
                }
                copied.events += u64::from(space == Space::Events && *key != *keys::LAST_COMMIT);
                copied.rows += 1;
                if copied.rows.is_multiple_of(REPORT_ROWS) {
                    progress(copied.rows);
                }
                put(key, value)?;
            }
            Ok(())
        })?;
    }
    Ok((copied, commit))
}
