//! What a topic promises: how durable it is, how long it keeps its events.

/// The number of partitions of a topic whose configuration does not say.
pub const PARTITIONS_DEFAULT: u32 = 8;

/// What `OK` to a publish or an ack means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the process's memory: gone with it. The topic starts again at seq 1.
    Memory,
    /// Handed to the operating system: survives `kill -9`, not a power cut.
    Os,
    /// On disk.
    #[default]
    Fsync,
}

/// How many members of a MongoDB replica set have a write before it is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WriteConcern {
    /// A majority, journaled: survives the loss of the primary.
    #[default]
    Majority,
    /// The primary alone: a fail-over may lose the last moments.
    One,
}

/// How long events are kept: until the first of these is passed. None given: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Milliseconds since the event came (`at`).
    pub age_ms: Option<u64>,
    /// How many events.
    pub count: Option<u64>,
    /// How many bytes of events, as JSON.
    pub bytes: Option<u64>,
}

/// A topic's settings, as far as a store is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Fixed when the topic is made.
    pub partitions: u32,
    /// What `OK` means, in the embedded store.
    pub durability: Durability,
    /// What `OK` means, in MongoDB.
    pub write_concern: WriteConcern,
    /// How long events are kept.
    pub retention: Retention,
    /// Whether only the newest event of each key is kept.
    pub compact: bool,
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            partitions: PARTITIONS_DEFAULT,
            durability: Durability::default(),
            write_concern: WriteConcern::default(),
            retention: Retention::default(),
            compact: false,
        }
    }
}
