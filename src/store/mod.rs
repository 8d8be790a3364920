//! Where events, groups and cursors are kept: one interface, several stores, one written contract.
//!
//! # The contract
//!
//! *Writing.* [`Store::commit`] takes a batch. Its writes take effect in their order, each one whole or not at all; a
//! later one sees the earlier ones. A write that cannot be done is refused alone ([`Refused`]) and hinders no other.
//! When the future is ready with `Ok`, everything in the batch that was not refused is as durable as its topic asks for.
//! `Err` means that the batch may or may not have happened: the caller finds out by id, or writes the same again (every
//! write can be repeated). There is one committer at a time; a store may rely on that.
//!
//! *Reading.* Reads never wait for a commit, and never see what is not durable yet. A reader that sees seq `k` sees every
//! kept event below it. What retention or compaction removed is left out without a word.
//!
//! *Numbers.* The seqs of a topic are 1, 2, 3, … in commit order. None is left out, none is given twice, not after a
//! restart, not after everything was removed. An event's `ordinal` counts its partition the same way.
//!
//! *Ids.* An id is in a topic once. A publish of a known id whose payload's text is the same is answered with the first
//! one's seq; with another payload it is refused, and so is the whole [`Write::Append`] that it is part of. An id is known
//! for as long as its event is kept.
//!
//! *Groups.* A group belongs to a topic, which may not exist yet. Every claim gives a group a new epoch; a write with any
//! other is refused and changes nothing. Epochs only rise, also over a group that was removed and made again: who owned
//! the old one cannot write to the new one.
//!
//! *Marks and claims.* A mark ([`Write::MarkSeen`]) says that a group's consumer has handled an event, until the mark is
//! over. A claim ([`Write::ClaimEvent`]) says that somebody is handling it now, so that nobody else does at the same time:
//! it is granted where there is neither a mark nor a claim of another owner, each only if it is not over. Asking and
//! granting are one step: of two who ask at once one is told that it is held. The owner may ask again, which moves the end;
//! it ends by [`Write::ReleaseEvent`] of its owner, by a mark, or when its time is over. A claim is measured by the store's
//! own clock (the batch's `now_ms`; in a database that several processes share, the database's), and how long it still
//! lasts is told as a duration: two machines' clocks are never compared. Claims need not be durable: who held one is a
//! handler in a process, so a store that one process has to itself may forget them when it is closed or dies; one that
//! several share must keep them until they are over. Both go with their group.

mod claims;
mod embedded;
mod error;
mod memory;
mod placing;
mod routed;

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::domain::{
    CursorUpdate, Event, GroupName, GroupSettings, NewEvent, PartitionCursor, Retention, Retry, TopicName,
    TopicSettings,
};
pub use embedded::{Copied, EmbeddedStore, Findings, FolderError, OpenError, Repaired, check_folder, repair_folder};
pub use error::{Refused, StoreError};
pub use memory::MemoryStore;
pub use routed::RoutedStore;

/// Gives each topic its settings: the configuration, as a store sees it.
pub type TopicRules = Arc<dyn Fn(&TopicName) -> TopicSettings + Send + Sync>;

/// What every store is opened with.
#[derive(Clone)]
pub struct StoreOptions {
    /// Gives each topic its settings.
    pub rules: TopicRules,
    /// The most topics; one more is refused (except for dead letters).
    pub max_topics: usize,
    /// The most groups of a topic; one more is refused.
    pub max_groups_per_topic: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            rules: Arc::new(|_| TopicSettings::default()),
            max_topics: 100_000,
            max_groups_per_topic: 1_000,
        }
    }
}

/// One thing to write.
#[derive(Debug, Clone)]
pub enum Write {
    /// Puts events at the end of a topic, all or none, and makes the topic where it does not exist.
    /// Answer: [`Written::Appended`], an entry for each event.
    Append {
        /// Where to.
        topic: TopicName,
        /// With none nothing happens. An id that stands twice in here is refused ([`Refused::Conflict`]).
        events: Vec<NewEvent>,
    },
    /// Makes a group, with a cursor for each partition. Answer: [`Written::Epoch`]. Refused where the group exists.
    CreateGroup {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// What it begins with.
        settings: GroupSettings,
        /// Where it begins: one for each partition, in their order.
        cursors: Vec<PartitionCursor>,
    },
    /// Makes the caller the one who may write to the group. Answer: [`Written::Epoch`].
    ClaimGroup {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
    },
    /// Changes a group's settings and pause state. Answer: [`Written::Done`].
    SaveGroup {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The caller's claim.
        epoch: u64,
        /// From now on.
        settings: GroupSettings,
        /// From now on.
        paused: Option<Pause>,
    },
    /// Moves cursors, and puts dead letters into `dlq.<topic>` in the same step. Answer: [`Written::CursorsSaved`].
    SaveCursors {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The caller's claim.
        epoch: u64,
        /// The partitions that changed. One that the group has no cursor for yet gets one.
        updates: Vec<CursorUpdate>,
        /// What to put into `dlq.<topic>`; one whose id is known there is left as it is, whatever its payload. That
        /// topic is made where it does not exist, also beyond [`StoreOptions::max_topics`]: a group must be able to move.
        dead_letters: Vec<NewEvent>,
    },
    /// Puts a group somewhere else: all cursors are replaced, all retries forgotten, `seeks` goes up by one, and its
    /// filter holds for all that it looks at from now on (`filter_since` is 0).
    /// Answer: [`Written::Done`].
    SeekGroup {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The caller's claim.
        epoch: u64,
        /// One for each partition, in their order.
        cursors: Vec<PartitionCursor>,
    },
    /// Removes a group and all that is kept of it. Answer: [`Written::Done`], also where there is none.
    DeleteGroup {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
    },
    /// Removes a topic, its events, groups and dedupe marks. Answer: [`Written::Done`], also where there is none.
    /// A topic that is made again under the name starts at seq 1.
    DeleteTopic {
        /// Which.
        topic: TopicName,
    },
    /// Remembers that a consumer has handled an event; a second mark replaces the first, and a claim
    /// ends. Answer: [`Written::Done`].
    /// Refused where there is no such group.
    MarkSeen {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The event.
        id: Box<str>,
        /// Until when, in epoch milliseconds.
        until_ms: u64,
    },
    /// Asks for the right to handle an event. Answer: [`Written::Claim`]. Refused where there is no such group.
    ClaimEvent {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The event.
        id: Box<str>,
        /// Who asks: a name that nobody else has, in this process or another.
        owner: Box<str>,
        /// How long it lasts, from now by the store's clock.
        ttl_ms: u64,
    },
    /// Ends a claim, if it is the owner's. Answer: [`Written::Done`], also where there is none. Refused where there is no
    /// such group.
    ReleaseEvent {
        /// Of which topic.
        topic: TopicName,
        /// Which group.
        group: GroupName,
        /// The event.
        id: Box<str>,
        /// Who claimed it.
        owner: Box<str>,
    },
    /// Removes what a topic no longer keeps: from the oldest on, each event that came more than `age_ms` ago or that is
    /// too much for `count` or `bytes`. Answer: [`Written::Trimmed`].
    Trim {
        /// Which.
        topic: TopicName,
        /// What it keeps.
        retention: Retention,
    },
}

impl Write {
    /// The topic that is written to.
    pub fn topic(&self) -> &TopicName {
        match self {
            Write::Append { topic, .. }
            | Write::CreateGroup { topic, .. }
            | Write::ClaimGroup { topic, .. }
            | Write::SaveGroup { topic, .. }
            | Write::SaveCursors { topic, .. }
            | Write::SeekGroup { topic, .. }
            | Write::DeleteGroup { topic, .. }
            | Write::DeleteTopic { topic }
            | Write::MarkSeen { topic, .. }
            | Write::ClaimEvent { topic, .. }
            | Write::ReleaseEvent { topic, .. }
            | Write::Trim { topic, .. } => topic,
        }
    }
}

/// The answer to one [`Write`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// To [`Write::Append`].
    Appended(Vec<Appended>),
    /// To [`Write::CreateGroup`] and [`Write::ClaimGroup`].
    Epoch(u64),
    /// To [`Write::SaveCursors`]: what became of the dead letters, in their order.
    CursorsSaved(Vec<Appended>),
    /// To [`Write::Trim`].
    Trimmed {
        /// The lowest seq that is kept from now on; the tail + 1 where none is.
        first: u64,
        /// How many events went.
        events: u64,
    },
    /// To [`Write::ClaimEvent`].
    Claim(EventClaim),
    /// To all others.
    Done,
}

/// What became of a [`Write::ClaimEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClaim {
    /// The event is the caller's to handle, until the claim is over.
    Granted,
    /// It was handled: there is a mark.
    Seen,
    /// Somebody else is handling it.
    Held {
        /// How long their claim still lasts.
        left_ms: u64,
    },
}

/// What became of one event of a [`Write::Append`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log now.
    New(Arc<Event>),
    /// The topic had it already, with the same payload.
    Known {
        /// The first one's seq.
        seq: u64,
    },
}

impl Appended {
    /// The event's seq.
    pub fn seq(&self) -> u64 {
        match self {
            Appended::New(event) => event.seq,
            Appended::Known { seq } => *seq,
        }
    }
}

/// Who paused a group, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// A person's or token's name, or the gateway's own reason.
    pub by: Box<str>,
    /// Epoch milliseconds.
    pub since_ms: u64,
}

/// Which events [`Store::read_lines`] reads, and how their JSON is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRange {
    /// The seqs.
    pub seqs: RangeInclusive<u64>,
    /// Events with another `ts` are left out.
    pub ts: RangeInclusive<u64>,
    /// What stands between them.
    pub framing: Framing,
    /// The most events that are looked at.
    pub max_events: usize,
    /// No more are read once there are so many bytes.
    pub max_bytes: usize,
}

/// What stands between the events of [`Lines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A line break after each.
    Line,
    /// A comma before each.
    List,
}

/// Events' JSON, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// In seq order.
    pub json: Vec<u8>,
    /// How many events there are in it.
    pub events: u64,
    /// The highest seq that was looked at; `None`: there is nothing more in the range.
    pub upto: Option<u64>,
}

impl Lines {
    /// Looks at one more event, and takes it if its `ts` is in the range. False: that is enough.
    fn push(&mut self, range: &LineRange, seq: u64, ts: u64, json: &[u8]) -> bool {
        self.upto = Some(seq);
        if range.ts.contains(&ts) {
            if range.framing == Framing::List {
                self.json.push(b',');
            }
            self.json.extend_from_slice(json);
            if range.framing == Framing::Line {
                self.json.push(b'\n');
            }
            self.events += 1;
        }
        self.json.len() < range.max_bytes
    }

    /// Passes over a seq that has no event.
    fn skip(&mut self, seq: u64) -> bool {
        self.upto = Some(seq);
        true
    }

    /// From events that were read.
    fn of(events: &[Arc<Event>], range: &LineRange) -> Lines {
        let mut lines = Lines::default();
        let in_range = events.iter().take_while(|event| event.seq <= *range.seqs.end());
        for event in in_range {
            if !lines.push(range, event.seq, event.ts, &event.json) {
                break;
            }
        }
        lines
    }
}

/// What a store knows of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicState {
    /// Fixed when the topic was made.
    pub partitions: u32,
    /// The lowest seq that is kept; `tail + 1` where none is.
    pub first: u64,
    /// The highest seq that was given; 0 before the first.
    pub tail: u64,
    /// How many events are kept.
    pub events: u64,
    /// The bytes of their JSON.
    pub bytes: u64,
    /// For each partition, how many events it was given ever: its newest ordinal.
    pub ordinals: Vec<u64>,
}

/// What a store knows of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// See [`GroupSettings`].
    pub settings: GroupSettings,
    /// Set while the whole group is paused.
    pub paused: Option<Pause>,
    /// The newest claim.
    pub epoch: u64,
    /// How often it was put somewhere else: part of its dead letters' ids.
    pub seeks: u64,
    /// One for each partition, in their order.
    pub cursors: Vec<PartitionCursor>,
    /// In seq order.
    pub retries: Vec<Retry>,
}

/// The result of a batch: one entry for each write, in their order.
pub type CommitResult = Result<Vec<Result<Written, Refused>>, StoreError>;

/// A store. See the [module](self) for what it promises.
pub trait Store: Send + Sync + 'static {
    /// Writes a batch. `now_ms` is what `at` of the batch's events is taken from; where it is lower than the topic's
    /// newest `at`, that one is used again.
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult>;

    /// All topics there are, by name, in order.
    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>>;

    /// One topic, where it exists.
    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>>;

    /// The kept events from a seq on, in seq order: at most `max_events`, and no more once `max_bytes` of JSON are reached
    /// (one is always read, however large). Empty at the end, and for a topic that does not exist.
    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>>;

    /// The JSON of kept events, put together for whoever ships them: what [`Store::read`] would give, in one piece.
    fn read_lines(&self, topic: &TopicName, range: LineRange) -> BoxFuture<'static, Result<Lines, StoreError>> {
        let events = self.read(topic, *range.seqs.start(), range.max_events, range.max_bytes);
        Box::pin(async move { Ok(Lines::of(&events.await?, &range)) })
    }

    /// Single events, in the order asked for; those that are not kept any more are left out.
    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>>;

    /// The seqs of ids, in the order asked for; `None` for one that is not (or no longer) in the topic.
    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>>;

    /// The seq of the first kept event, in seq order, whose `ts` is at least this; `tail + 1` where there is none.
    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// The kept event with the highest seq that has this key.
    fn newest_by_key(&self, topic: &TopicName, key: &str)
    -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>>;

    /// For each partition, the ordinal of its newest event with a seq of at most this (0 for none), whether those events
    /// are still kept or not. A seq beyond the tail counts as the tail; where the exact place was removed, the answer is
    /// that of the seq just below the lowest kept one. All 0 for a topic that does not exist.
    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>>;

    /// The names of a topic's groups, in order.
    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>>;

    /// One group, where it exists.
    fn group(&self, topic: &TopicName, group: &GroupName)
    -> BoxFuture<'static, Result<Option<GroupState>, StoreError>>;

    /// Whether a consumer has handled an event, by a mark that is not over at `now_ms`.
    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>>;

    /// Whether the store can take writes, for `/readyz`; the error says what is wrong.
    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Finishes what was begun and lets go of files and locks. What comes after it gets [`StoreError::Closed`]; closing
    /// again does nothing.
    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>>;
}
