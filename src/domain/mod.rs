//! The words of the gateway: events, names, cursors, settings and the rules of a group. Nothing in here knows actors, clocks or I/O.

mod cursor;
mod event;
pub mod group;
mod names;
mod partition;
mod pattern;
mod settings;
mod topic;

pub use cursor::{CursorUpdate, PartitionCursor, Retry, SeqRange};
pub use event::{Event, Labels, NewEvent, Place, TS_MAX};
pub(crate) use event::{push_number, push_string};
pub use names::{BadName, DEAD_LETTER_PREFIX, GROUP_NAME_MAX, GroupName, SNAPSHOT_SUFFIX, TOPIC_NAME_MAX, TopicName};
pub use partition::partition_of;
pub use pattern::TopicPattern;
pub use settings::{
    BACKOFF_MS_MAX, Filter, GroupSettings, GroupSettingsPatch, MemberSettings, OneOrMore, StartFrom, WINDOW,
};
pub use topic::{Durability, PARTITIONS_DEFAULT, Retention, TopicSettings, WriteConcern};
