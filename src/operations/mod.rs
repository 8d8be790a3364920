//! What an operator asks of a running gateway: its topics, its groups, how far they are, why they do or do not move, and
//! changes of them. Whatever runs is asked; what does not is read from the store, and is not started for it.

mod changes;
mod dead_letters;
pub mod explain;
mod gauges;
mod groups;
mod lag;
mod topics;

pub use changes::{change_group, delete_topic};
pub use dead_letters::{REPLAY_GROUP, Replayed, replay_dead_letters};
pub use explain::{Explanation, explain_group};
pub use gauges::refresh_gauges;
pub use groups::{GroupReport, find_group, group_report, group_reports};
pub use lag::{Place, place_of};
pub use topics::{TopicReport, topic_reports};
