#![doc = include_str!("../README.md")]

pub mod actors;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod operations;
pub mod protocol;
mod runtime;
pub mod server;
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
#[doc = include_str!("tutorial.md")]
pub mod tutorial {}

pub use domain::{Filter, StartFrom};
pub use runtime::{
    ActorHealth, ActorRef, Blocking, BlockingConsumer, BlockingError, Builder, Claim, Condition, Consume, Consumer,
    ConsumerHealth, Context, DedupeStore, Delivery, Error, Event, ExactlyOnce, ExactlyOnceError, FnConsumer, Gateway,
    Handle, Health, Marked, Message, Published, RawEvent, Restarts, Subscribe, Subscription, consumer_fn,
};
pub use server::ServeError;
