//! Every message between the actors, grouped by the actor that receives it. Requests are imperative, news are facts.

pub mod connection;
pub mod feed;
pub mod store;
pub mod subscription;
pub mod topic;

pub use connection::{
    Answers, CheckRights, Deliver, EndSubscription, FeedLost, GoAway, Operate, Push, RoomFreed, WantCredit,
};
pub use feed::{FeedHandle, GrantCredit, Leave, SetPaused};
pub use store::{AppendEvents, AppendPart, Flush, Perform, PerformResult, SaveCursors};
pub use subscription::{
    Ack, AutoAck, Change, CursorsSaved, Drain, GroupChange, Inspect, Join, LookAtClaim, Modack, Nack, SaveStalled,
    Stop, TailMoved, TopicLost,
};
pub use topic::{
    AppendResult, AppendsDone, ChangeGroup, DeleteTopic, DrainGroups, EventsAppended, GroupIdle, InspectGroups,
    LogTrimmed, Publish, PublishRequest, Subscribe, TailSeen, TopicHinted,
};
