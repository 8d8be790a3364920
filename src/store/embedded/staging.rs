//! A batch while it is put together: rows to write over rows on disk, so that its later writes see the earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Slice};

use super::keys::{self, Space};
use super::rows::{CommitRow, Rows, TopicRow, encode_number};
use super::sweep::Gone;
use crate::store::StoreError;

/// More than this in memory and a keyspace's newest rows go to a table of their own: small, for memory and for opening.
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;

/// The keyspaces, opened.
#[derive(Clone)]
pub(super) struct Spaces {
    events: Keyspace,
    index: Keyspace,
    state: Keyspace,
    marks: Keyspace,
}

impl Spaces {
    pub fn open(database: &Database) -> fjall::Result<Spaces> {
        let open = |space: Space| {
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            database.keyspace(space.name(), options)
        };
        Ok(Spaces {
            events: open(Space::Events)?,
            index: open(Space::Index)?,
            state: open(Space::State)?,
            marks: open(Space::Marks)?,
        })
    }

    pub fn of(&self, space: Space) -> &Keyspace {
        match space {
            Space::Events => &self.events,
            Space::Index => &self.index,
            Space::State => &self.state,
            Space::Marks => &self.marks,
        }
    }
}

/// What the database says went wrong while reading.
pub(super) fn read_failed(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) => StoreError::Unavailable(format!("reading failed: {error}")),
        other => StoreError::Corrupt(format!("reading failed: {other:?}")),
    }
}

/// Rows to write: the last one for each key, `None` where the key is removed.
type Staged = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A batch in the making.
pub(super) struct Staging<'a> {
    spaces: &'a Spaces,
    staged: [Staged; 4],
    /// What the batch's own commit row will say.
    pub commit: CommitRow,
    /// How many topics there are.
    pub topics: usize,
    /// The numbers of the topics that this batch makes.
    pub made: Vec<u32>,
    /// The topics that this batch trims and removes.
    pub gone: Vec<Gone>,
    /// Whether the batch must be on disk before it is answered.
    pub sync: bool,
}

impl<'a> Staging<'a> {
    /// An empty batch after the given commit.
    pub fn new(spaces: &'a Spaces, last: &CommitRow, topics: usize) -> Staging<'a> {
        let number = last.number + 1;
        Staging {
            spaces,
            staged: Default::default(),
            commit: CommitRow {
                number,
                seqnos_before: last.seqnos(),
                ..*last
            },
            topics,
            made: Vec::new(),
            gone: Vec::new(),
            sync: false,
        }
    }

    pub fn put(&mut self, space: Space, key: Vec<u8>, value: Vec<u8>) {
        self.staged_mut(space).insert(key, Some(value));
    }

    pub fn remove(&mut self, space: Space, key: Vec<u8>) {
        self.staged_mut(space).insert(key, None);
    }

    pub fn put_topic(&mut self, name: &str, row: &mut TopicRow) {
        let key = keys::topic(name);
        row.commit = self.commit.number;
        let value = row.encode(&key);
        self.put(Space::State, key, value);
    }

    /// All keys of `state` that begin so, as this batch leaves them.
    pub fn keys_with_prefix(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = BTreeSet::new();
        for row in self.spaces.of(Space::State).prefix(prefix) {
            found.insert(row.key().map_err(read_failed)?.to_vec());
        }
        let staged = self.staged(Space::State).range(prefix.to_vec()..);
        for (key, value) in staged.take_while(|(key, _)| key.starts_with(prefix)) {
            match value {
                Some(_) => found.insert(key.clone()),
                None => found.remove(key),
            };
        }
        Ok(found.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.staged.iter().all(BTreeMap::is_empty)
    }

    /// Writes everything in one step. Readers see it once it is as durable as it must be.
    pub fn write(mut self, database: &Database) -> fjall::Result<CommitRow> {
        let number = self.commit.number;
        for space in Space::ALL {
            if space != Space::State && !self.staged(space).is_empty() {
                self.put(
                    space,
                    keys::LAST_COMMIT.to_vec(),
                    encode_number(keys::LAST_COMMIT, number),
                );
            }
        }
        for (last, staged) in self.commit.last_in_space.iter_mut().zip(&self.staged) {
            if !staged.is_empty() {
                *last = number;
            }
        }
        // The commit row is in `state`, so every batch writes there.
        if let Some(last) = self.commit.last_in_space.get_mut(Space::State as usize) {
            *last = number;
        }
        self.commit.engine_seqno = database.seqno();
        let row = self.commit.encode(keys::COMMIT);
        self.put(Space::State, keys::COMMIT.to_vec(), row);

        let mode = if self.sync {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        };
        let mut batch = database.batch().durability(Some(mode));
        for (space, staged) in Space::ALL.into_iter().zip(self.staged) {
            let keyspace = self.spaces.of(space);
            for (key, value) in staged {
                match value {
                    Some(value) => batch.insert(keyspace, key, value),
                    None => batch.remove(keyspace, key),
                }
            }
        }
        batch.commit()?;
        Ok(self.commit)
    }

    fn staged(&self, space: Space) -> &Staged {
        let [events, index, state, marks] = &self.staged;
        match space {
            Space::Events => events,
            Space::Index => index,
            Space::State => state,
            Space::Marks => marks,
        }
    }

    fn staged_mut(&mut self, space: Space) -> &mut Staged {
        let [events, index, state, marks] = &mut self.staged;
        match space {
            Space::Events => events,
            Space::Index => index,
            Space::State => state,
            Space::Marks => marks,
        }
    }
}

impl Rows for Staging<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        match self.staged(space).get(key) {
            Some(value) => Ok(value.as_deref().map(Slice::from)),
            None => self.spaces.of(space).get(key).map_err(read_failed),
        }
    }
}
