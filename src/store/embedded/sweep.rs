//! Taking removed events off the disk.
//!
//! Retention moves a topic's `first`, deletion forgets its number; both hide rows at once and remove none. The rows go
//! when the database rewrites its tables: a filter leaves out what is hidden. Tables that hold nothing else are dropped
//! whole, without being read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fjall::AbstractTree;
use fjall::compaction::filter::{CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict};

use super::codec::Decoder;
use super::keys::{self, BLOCK, BLOCK_TAG, Space};
use super::staging::Spaces;

/// What is hidden: shared by the writer, who changes it, and the filters.
#[derive(Default)]
pub(super) struct Hidden {
    /// The lowest kept seq of each topic number. `None` until it was loaded: then nothing is hidden.
    firsts: RwLock<Option<HashMap<u32, u64>>>,
    /// The newest time a commit was made at: marks that are over by then are hidden.
    now_ms: AtomicU64,
    /// What is to be hidden when the last copy is done.
    held_back: Mutex<HeldBack>,
}

#[derive(Default)]
struct HeldBack {
    copies: usize,
    gone: Vec<Gone>,
}

/// While it lives, nothing more leaves the disk: a copy is made of what there is.
pub(super) struct Keeping {
    hidden: Arc<Hidden>,
    sweeper: Arc<Sweeper>,
}

impl Keeping {
    pub fn new(hidden: &Arc<Hidden>, sweeper: &Arc<Sweeper>) -> Keeping {
        hidden.held_back().copies += 1;
        Keeping {
            hidden: Arc::clone(hidden),
            sweeper: Arc::clone(sweeper),
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let mut held_back = self.hidden.held_back();
        held_back.copies -= 1;
        if held_back.copies == 0 {
            let gone = std::mem::take(&mut held_back.gone);
            self.hidden.hide_now(&gone);
            self.sweeper.add(&gone);
        }
    }
}

impl Hidden {
    /// From here on filters leave out what these topics do not keep.
    pub fn load(&self, firsts: HashMap<u32, u64>) {
        *self.firsts.write().unwrap_or_else(PoisonError::into_inner) = Some(firsts);
    }

    /// To be called before the first rows of these topics are written.
    pub fn make(&self, numbers: &[u32]) {
        self.change(|firsts| firsts.extend(numbers.iter().map(|number| (*number, 1))));
    }

    /// To be called after these changes are on disk. While a copy is made, they wait.
    pub fn hide(&self, gone: &[Gone], sweeper: &Sweeper) {
        let mut held_back = self.held_back();
        if held_back.copies > 0 {
            held_back.gone.extend_from_slice(gone);
            return;
        }
        self.hide_now(gone);
        sweeper.add(gone);
    }

    fn held_back(&self) -> std::sync::MutexGuard<'_, HeldBack> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hide_now(&self, gone: &[Gone]) {
        self.change(|firsts| {
            for gone in gone {
                match gone.first {
                    Some(first) => firsts.insert(gone.number, first),
                    None => firsts.remove(&gone.number),
                };
            }
        });
    }

    pub fn set_now(&self, now_ms: u64) {
        self.now_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<u32, u64>)) {
        let mut firsts = self.firsts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(firsts) = firsts.as_mut() {
            change(firsts);
        }
    }

    /// The lowest seq of this topic number that is not hidden; all are for a number that is not in use any more.
    fn first(&self, number: u32) -> u64 {
        let firsts = self.firsts.read().unwrap_or_else(PoisonError::into_inner);
        match firsts.as_ref() {
            Some(firsts) => firsts.get(&number).copied().unwrap_or(u64::MAX),
            None => 0,
        }
    }
}

/// Makes the filters of one keyspace.
pub(super) struct FilterFactory {
    space: Space,
    hidden: Arc<Hidden>,
}

impl FilterFactory {
    /// The filter of a keyspace, where it has one.
    pub fn of(name: &str, hidden: &Arc<Hidden>) -> Option<Arc<dyn Factory>> {
        let space = Space::ALL.into_iter().find(|space| space.name() == name)?;
        (space != Space::State).then(|| {
            Arc::new(FilterFactory {
                space,
                hidden: Arc::clone(hidden),
            }) as Arc<dyn Factory>
        })
    }
}

impl Factory for FilterFactory {
    fn name(&self) -> &str {
        self.space.name()
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter::new(self.space, &self.hidden))
    }
}

/// Tells which rows of a keyspace are hidden.
pub(super) struct Filter {
    space: Space,
    hidden: Arc<Hidden>,
    /// A table's rows are in order, so the topic is mostly that of the row before.
    newest_lookup: Option<(u32, u64)>,
}

impl Filter {
    pub fn new(space: Space, hidden: &Arc<Hidden>) -> Filter {
        Filter {
            space,
            hidden: Arc::clone(hidden),
            newest_lookup: None,
        }
    }

    fn first(&mut self, number: u32) -> u64 {
        match self.newest_lookup {
            Some((last, first)) if last == number => first,
            _ => {
                let first = self.hidden.first(number);
                self.newest_lookup = Some((number, first));
                first
            }
        }
    }

    /// Whether a row is hidden. A row that cannot be read is not: damage must be found, not swept away.
    pub fn hides(&mut self, key: &[u8], value: &[u8]) -> bool {
        let number_in = |key: &[u8], value: &[u8]| Decoder::whole(key, value, |decoder| decoder.u64());
        if key == keys::LAST_COMMIT {
            return false;
        }
        let newest_seq = match self.space {
            Space::Marks => {
                let now_ms = self.hidden.now_ms.load(Ordering::Relaxed);
                return number_in(key, value).is_some_and(|until_ms| until_ms <= now_ms);
            }
            Space::Events => keys::seq_of_event(key),
            Space::Index if key.get(4) == Some(&BLOCK_TAG) => {
                let block = key
                    .get(5..)
                    .and_then(|block| block.try_into().ok())
                    .map(u64::from_be_bytes);
                block.map(|block| (block + 1).saturating_mul(BLOCK))
            }
            Space::Index => number_in(key, value),
            Space::State => None,
        };
        match (keys::topic_of_row(key), newest_seq) {
            (Some(number), Some(seq)) => seq < self.first(number),
            _ => false,
        }
    }
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        if !self.hides(item.key(), &item.value()?) {
            return Ok(Verdict::Keep);
        }
        Ok(match self.space {
            // An older mark of the same event may last longer: it must not come back.
            Space::Marks => Verdict::Remove,
            // An older row of the same key points to an even older event, which is hidden as well.
            _ => Verdict::Destroy,
        })
    }
}

/// A topic whose events went, from the oldest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone {
    /// The topic's number.
    pub number: u32,
    /// The lowest seq that is kept; `None` where the topic itself is gone.
    pub first: Option<u64>,
    /// How many events went, and the bytes of their JSON.
    pub events: u64,
    pub bytes: u64,
}

/// Hidden bytes of one topic that are worth looking for whole tables of them: about one table.
const DROP_BYTES: u64 = 64 * 1024 * 1024;
/// Hidden events that are worth rewriting the index for, where they are also a good part of it.
const REWRITE_EVENTS: u64 = 100_000;

/// Takes tables of hidden rows away, one run at a time and off the writer's thread: it may wait for a compaction.
#[derive(Default)]
pub(super) struct Sweeper {
    waiting: Mutex<Waiting>,
    running: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// By topic number: below which seq its events are hidden, and how many bytes of them may still be there.
    topics: HashMap<u32, (u64, u64)>,
    /// Events hidden since the index was rewritten.
    events: u64,
}

impl Sweeper {
    /// Notes what went.
    pub fn add(&self, gone: &[Gone]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in gone {
            waiting.events += gone.events;
            let before = waiting.topics.remove(&gone.number);
            let bytes = before.map_or(0, |(_, bytes)| bytes) + gone.bytes;
            // A topic that is gone will not grow: what little it left goes with the next rewriting of its tables.
            if gone.first.is_some() || bytes >= DROP_BYTES {
                let first = gone.first.unwrap_or(u64::MAX);
                waiting.topics.insert(gone.number, (first, bytes));
            }
        }
    }

    /// Does what is worth doing by now, unless another run is at it.
    pub fn run(&self, spaces: &Spaces) -> fjall::Result<()> {
        if self.running.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = self.sweep(spaces);
        self.running.store(false, Ordering::Release);
        result
    }

    fn sweep(&self, spaces: &Spaces) -> fjall::Result<()> {
        let (due, events) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let due: Vec<_> = waiting
                .topics
                .extract_if(|_, (_, bytes)| *bytes >= DROP_BYTES)
                .collect();
            (due, waiting.events)
        };
        for (number, (first, _)) in due {
            let events = spaces.of(Space::Events);
            events
                .tree
                .drop_range(keys::event(number, 0)..keys::event(number, first))?;
        }
        let index = spaces.of(Space::Index);
        if events >= REWRITE_EVENTS && events >= index.approximate_len() as u64 / 3 {
            index.major_compact()?;
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.events = waiting.events.saturating_sub(events);
        }
        Ok(())
    }
}
