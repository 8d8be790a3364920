//! A gateway inside a program: what it is built of, the handle to it, and what runs in it.

mod actor;
mod builder;
mod consumer;
mod dedupe;
mod error;
mod event;
mod gateway;
mod groups;
mod handle;
mod health;
mod message;
mod options;
mod restarts;
mod subscription;

pub use actor::ActorRef;
pub use builder::Builder;
pub use consumer::{
    Blocking, BlockingConsumer, BlockingError, Consumer, Context, ExactlyOnce, ExactlyOnceError, FnConsumer,
    consumer_fn,
};
pub use dedupe::{Claim, DedupeStore, Marked};
pub use error::Error;
pub use event::{Event, RawEvent};
pub use gateway::Gateway;
pub use handle::Handle;
pub use health::{ActorHealth, Condition, ConsumerHealth, Health};
pub use message::{Message, Published};
pub use options::{Consume, Subscribe};
pub use restarts::Restarts;
pub use subscription::{Delivery, Subscription};
