//! What can go wrong in a store.

use super::OwnerId;
use crate::domain::GroupName;

/// The store as a whole could not do it. The batch may or may not have happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or takes no writes at the moment.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What it holds is not what was written.
    #[error("the store holds damaged data: {0}")]
    Corrupt(String),
    /// It was closed.
    #[error("the store is closed")]
    Closed,
}

/// One write was refused; nothing of it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The topic has this id with another payload, or the id stands twice in one append.
    #[error("the topic has an event with the id {id:?} and another payload")]
    Conflict {
        /// Which.
        id: Box<str>,
    },
    /// The group was claimed by somebody else since.
    #[error("the group was taken over by another owner")]
    Fenced,
    /// Another owner holds the group.
    #[error("the group is held by another gateway ({owner}), for {left_ms} ms at least")]
    Held {
        /// Who.
        owner: OwnerId,
        /// How long its lease still lasts, by the store's clock.
        left_ms: u64,
    },
    /// There is no such group.
    #[error("there is no group {0}")]
    NoSuchGroup(GroupName),
    /// There is such a group already.
    #[error("the group {0} exists already")]
    GroupExists(GroupName),
    /// One topic more than allowed.
    #[error("there are {max} topics already, the most that gateway.max_topics allows")]
    TooManyTopics {
        /// The limit.
        max: usize,
    },
    /// One group more than allowed.
    #[error("the topic has {max} groups already, the most that gateway.max_groups_per_topic allows")]
    TooManyGroups {
        /// The limit.
        max: usize,
    },
    /// An event that this store cannot hold.
    #[error("the event has {bytes} bytes, the store takes at most {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}
