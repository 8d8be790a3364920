//! The actors: connections, topics, groups and the store, and the messages between them.
//!
//! One direction, no asking back: a request carries where its answer goes, so no actor waits for another in a handler.
//! `actors.md` draws the tree and says for each actor what happens when it is full, slow or dead.

pub mod connection;
pub mod handle;
pub mod limiter;
pub mod messages;
pub mod meter;
pub mod registry;
pub mod reply;
pub mod shared;
pub(crate) mod start;
pub mod store;
pub mod subscription;
pub mod supervision;
pub(crate) mod sweeper;
pub mod topic;
pub mod writer;
