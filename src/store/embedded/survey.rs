//! Reading a folder that may be damaged, without touching it: what a check and a repair have in common.
//!
//! Opening a database changes its files. So the folder is copied first, tables as further names of the same files
//! (they are never changed, only added and removed), and the copy is opened. Reads go on behind what cannot be read.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::{Database, Slice};

use super::codec::Decoder;
use super::folder::{FolderError, beside};
use super::journal::{self, Journal};
use super::keys::{self, Space};
use super::mark::Mark;
use super::open::{self, OpenError};
use super::rows::EventRow;
use super::staging::Spaces;
use super::sweep::Hidden;

/// The folder's name within the database for each keyspace's tables.
const TABLES: &str = "tables";
/// More of one kind of problem than this are only counted.
const LISTED_MAX: usize = 1_000;

/// A locked folder and an open copy of it.
pub(super) struct Survey {
    pub database: Database,
    pub spaces: Spaces,
    pub mark: u64,
    pub problems: Problems,
    scratch: Scratch,
    _lock: File,
}

/// Removes the copy at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a working copy could not be removed");
        }
    }
}

/// What is wrong, in words.
#[derive(Default)]
pub(super) struct Problems {
    listed: Vec<String>,
    more: u64,
}

impl Problems {
    pub fn add(&mut self, problem: String) {
        if self.listed.len() < LISTED_MAX {
            self.listed.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.listed.push(format!("and {} more", self.more));
        }
        self.listed
    }
}

impl Survey {
    /// Locks the folder, looks at its own files, and opens a copy of its database.
    pub fn begin(path: &Path) -> Result<Survey, FolderError> {
        let database_path = path.join("db");
        if !database_path.exists() && !path.join("MARK").exists() {
            return Err(FolderError::NoStore(path.to_path_buf()));
        }
        let lock = open::lock(path)?;
        let mut problems = Problems::default();
        match open::check_format(path) {
            Err(OpenError::Damaged { what, .. }) => problems.add(what),
            other => other?,
        }
        let mark = match Mark::open(&path.join("MARK")) {
            Ok(Some(mark)) => mark.number(),
            Ok(None) => {
                problems.add("the file MARK cannot be read: the newest commits may be missing without a trace".into());
                0
            }
            Err(error) => {
                problems.add(format!("the file MARK: {error}"));
                0
            }
        };
        let inspected = journal::inspect(&database_path, mark);
        let journal_is_whole = inspected.is_ok();
        let journal = inspected.unwrap_or_else(|error| {
            problems.add(error.to_string());
            Journal::default()
        });
        let scratch = Scratch(beside(path, &format!(".copy-{}", std::process::id())));
        let at = |source| OpenError::Io {
            path: scratch.0.clone(),
            source,
        };
        std::fs::create_dir_all(&scratch.0).map_err(at)?;
        let copier = Copier {
            from: &database_path,
            scratch: &scratch.0,
            with_journal: journal_is_whole,
        };
        let opened = copier.open_what_opens(&mut problems);
        let (database, spaces) = opened.map_err(|why| FolderError::Write {
            path: scratch.0.clone(),
            why,
        })?;
        if let Err(error) = open::check_reach(&spaces, &journal) {
            problems.add(error.to_string());
        }
        if !journal_is_whole && database_path.exists() {
            replay_journal(&database_path, &spaces, &scratch.0)?;
        }
        Ok(Survey {
            database,
            spaces,
            mark,
            problems,
            scratch,
            _lock: lock,
        })
    }

    /// Every row of `state` with this prefix that can be reached, and whether some could not.
    pub fn state(&self, prefix: &[u8]) -> (Vec<(Slice, Slice)>, bool) {
        let mut rows = Vec::new();
        for row in self.spaces.of(Space::State).prefix(prefix) {
            match row.into_inner() {
                Ok(row) => rows.push(row),
                Err(_) => {
                    // From the other side, up to the same place.
                    let mut after: Vec<_> = self
                        .spaces
                        .of(Space::State)
                        .prefix(prefix)
                        .rev()
                        .map_while(|row| row.into_inner().ok())
                        .collect();
                    after.reverse();
                    rows.extend(after);
                    return (rows, true);
                }
            }
        }
        (rows, false)
    }

    /// The event under a key, where it is whole.
    pub fn event(&self, number: u32, seq: u64) -> Option<EventRow> {
        let key = keys::event(number, seq);
        let value = self.spaces.of(Space::Events).get(&key).ok()??;
        Decoder::whole(&key, &value, |decoder| EventRow::decode(seq, decoder))
    }

    /// Goes through a topic's seqs: each with its event, or with none where it is missing or damaged.
    pub fn events<E>(
        &self,
        number: u32,
        seqs: RangeInclusive<u64>,
        mut each: impl FnMut(u64, Option<EventRow>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut next, last) = seqs.into_inner();
        while next <= last {
            let range = keys::event(number, next)..=keys::event(number, last);
            for row in self.spaces.of(Space::Events).range(range) {
                let Ok((key, value)) = row.into_inner() else { break };
                let Some(seq) = keys::seq_of_event(&key) else { break };
                while next < seq {
                    each(next, None)?;
                    next += 1;
                }
                each(
                    seq,
                    Decoder::whole(&key, &value, |decoder| EventRow::decode(seq, decoder)),
                )?;
                next = seq + 1;
            }
            // What a range cannot pass, single reads can; then the range goes on behind it.
            while next <= last {
                let event = self.event(number, next);
                let found = event.is_some();
                each(next, event)?;
                next += 1;
                if found {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A folder for what is made on the way.
    pub fn scratch(&self) -> &Path {
        &self.scratch.0
    }
}

/// Seqs as a person writes them.
#[derive(Default)]
pub(super) struct SeqList {
    ranges: Vec<(u64, u64)>,
    pub count: u64,
}

impl SeqList {
    /// Adds a seq above all before.
    pub fn push(&mut self, seq: u64) {
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => self.ranges.push((seq, seq)),
        }
    }

    pub fn text(&self) -> String {
        let range = |&(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        };
        let listed: Vec<String> = self.ranges.iter().map(range).collect();
        listed.join(", ")
    }
}

/// Puts every whole batch of a damaged journal over what the tables hold, oldest first. Where a batch between them is
/// damaged and its rows are in tables already, an older row may win: then acks are forgotten, and events come again.
fn replay_journal(database: &Path, spaces: &Spaces, scratch: &Path) -> Result<(), FolderError> {
    let by_id = Space::ALL.map(|space| (spaces.of(space).id(), space));
    journal::salvage(database, |row| {
        let Some((_, space)) = by_id.iter().find(|(id, _)| *id == row.keyspace) else {
            return Ok(());
        };
        let keyspace = spaces.of(*space);
        let done = match row.value {
            Some(value) => keyspace.insert(row.key, value),
            None => keyspace.remove(row.key),
        };
        done.map_err(|error| FolderError::Write {
            path: scratch.to_path_buf(),
            why: format!("{error:?}"),
        })
    })
}

/// The database's own keyspace, a list of the others: the same in every database of ours.
const LIST: u64 = 0;

/// The database numbers its keyspaces in the order in which they are made.
fn keyspace_number(space: Space) -> u64 {
    space as u64 + 1
}

/// Makes copies of the database until one opens.
struct Copier<'a> {
    from: &'a Path,
    scratch: &'a Path,
    with_journal: bool,
}

impl Copier<'_> {
    /// Opens a copy. Where the database refuses it, keyspaces are left empty, those first that can be
    /// made again.
    fn open_what_opens(&self, problems: &mut Problems) -> Result<(Database, Spaces), String> {
        let [events, index, state, marks] = Space::ALL.map(keyspace_number);
        let hidden = Arc::new(Hidden::default());
        let empty = self.scratch.join("empty");
        drop(open::open_database(&empty, &hidden)?);
        let attempts: [&[u64]; 8] = [
            &[],
            &[LIST],
            &[index],
            &[marks],
            &[index, marks],
            &[state],
            &[index, marks, state],
            &[events],
        ];
        for (attempt, emptied) in attempts.into_iter().enumerate() {
            let copy = self.scratch.join(format!("db-{attempt}"));
            let copied = self.copy(&copy, &empty, emptied);
            let opened = copied.map_err(|error| error.to_string());
            match opened.and_then(|()| open::open_database(&copy, &hidden)) {
                Ok(opened) => {
                    let emptied = |space: &Space| emptied.contains(&keyspace_number(*space));
                    for space in Space::ALL.into_iter().filter(emptied) {
                        problems.add(format!("the tables of {} are out of reach", space.name()));
                    }
                    return Ok(opened);
                }
                Err(why) if attempt == 0 => problems.add(why),
                Err(_) => {}
            }
        }
        problems.add("all tables are out of reach".into());
        open::open_database(&empty, &hidden)
    }

    fn copy(&self, to: &Path, empty: &Path, replaced: &[u64]) -> io::Result<()> {
        std::fs::create_dir_all(to)?;
        if self.from.exists() {
            copy_folder(self.from, to, self.with_journal)?;
        }
        for number in replaced {
            let folder = Path::new("keyspaces").join(number.to_string());
            std::fs::remove_dir_all(to.join(&folder))?;
            std::fs::create_dir_all(to.join(&folder))?;
            copy_folder(&empty.join(&folder), &to.join(&folder), true)?;
        }
        Ok(())
    }
}

/// Copies a database's folder. A damaged journal is left out: the database would refuse it, and the tables with it.
fn copy_folder(from: &Path, to: &Path, with_journal: bool) -> io::Result<()> {
    let immutable = from.file_name().is_some_and(|name| name == TABLES);
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_folder(&entry.path(), &target, with_journal)?;
        } else if !with_journal && target.extension().is_some_and(|extension| extension == "jnl") {
            continue;
        } else if !immutable || std::fs::hard_link(entry.path(), &target).is_err() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
