//! Where things are: the keyspaces of the database, and the keys in them.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `events` | topic number, seq | an event |
//! | `index` | topic number, `i`, id | its seq |
//! | | topic number, `k`, key | the seq of the key's newest event |
//! | | topic number, `b`, block | ordinals and highest `ts` of a run of seqs |
//! | `state` | `:commit` | the newest commit: what all counters stand at |
//! | | `t`, topic name | a topic |
//! | | `g`, topic name, 0, group name | a group |
//! | | `c`, group number, partition | a cursor |
//! | | `r`, group number, seq | a retry |
//! | `marks` | group number, id | until when the mark lasts |
//!
//! All numbers are big-endian, so that their order is the keys' order. Numbers of topics and groups begin at 1 and are
//! never used again: what a removed topic or group leaves behind is out of reach at once. Every keyspace but `state` has
//! one more row, [`LAST_COMMIT`].

/// A keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Events,
    Index,
    State,
    Marks,
}

impl Space {
    pub const ALL: [Space; 4] = [Space::Events, Space::Index, Space::State, Space::Marks];

    pub fn name(self) -> &'static str {
        match self {
            Space::Events => "events",
            Space::Index => "index",
            Space::State => "state",
            Space::Marks => "marks",
        }
    }
}

/// The row of the newest commit, in `state`. No other key begins like it.
pub(super) const COMMIT: &[u8] = b":commit";
/// The number of the newest commit that wrote to a keyspace. Shorter than every other key.
pub(super) const LAST_COMMIT: &[u8] = b"\0";

/// How many seqs a block has.
pub(super) const BLOCK: u64 = 256;

pub(super) const ID_TAG: u8 = b'i';
pub(super) const KEY_TAG: u8 = b'k';
pub(super) const BLOCK_TAG: u8 = b'b';

fn join<const N: usize>(parts: [&[u8]; N]) -> Vec<u8> {
    parts.concat()
}

pub(super) fn event(topic: u32, seq: u64) -> Vec<u8> {
    join([&topic.to_be_bytes(), &seq.to_be_bytes()])
}

/// The seq in an event's key.
pub(super) fn seq_of_event(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(4..)?.try_into().ok()?))
}

/// The number of the topic that a row of `events` or `index` belongs to.
pub(super) fn topic_of_row(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(..4)?.try_into().ok()?))
}

pub(super) fn id(topic: u32, id: &str) -> Vec<u8> {
    join([&topic.to_be_bytes(), &[ID_TAG], id.as_bytes()])
}

pub(super) fn newest(topic: u32, key: &str) -> Vec<u8> {
    join([&topic.to_be_bytes(), &[KEY_TAG], key.as_bytes()])
}

pub(super) fn block(topic: u32, block: u64) -> Vec<u8> {
    join([&topic.to_be_bytes(), &[BLOCK_TAG], &block.to_be_bytes()])
}

/// The prefix of all topics' keys.
pub(super) const TOPICS: &[u8] = b"t";

pub(super) fn topic(name: &str) -> Vec<u8> {
    join([TOPICS, name.as_bytes()])
}

/// The prefix of the keys of a topic's groups; the rest of each is the group's name.
pub(super) fn groups(topic: &str) -> Vec<u8> {
    join([b"g", topic.as_bytes(), &[0]])
}

pub(super) fn group(topic: &str, group: &str) -> Vec<u8> {
    join([b"g", topic.as_bytes(), &[0], group.as_bytes()])
}

pub(super) fn cursor(group: u64, partition: u32) -> Vec<u8> {
    join([b"c", &group.to_be_bytes(), &partition.to_be_bytes()])
}

/// The prefix of a group's retries; the rest of each key is the seq.
pub(super) fn retries(group: u64) -> Vec<u8> {
    join([b"r", &group.to_be_bytes()])
}

pub(super) fn retry(group: u64, seq: u64) -> Vec<u8> {
    join([b"r", &group.to_be_bytes(), &seq.to_be_bytes()])
}

/// The seq in a retry's key.
pub(super) fn seq_of_retry(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(9..)?.try_into().ok()?))
}

pub(super) fn mark(group: u64, id: &str) -> Vec<u8> {
    join([&group.to_be_bytes(), id.as_bytes()])
}
