//! A plain actix actor beside the gateway: it holds a state, a consumer feeds it events, anybody asks it. It has a thread of
//! its own, and is started anew after a panic.
//!
//! `cargo run --example custom_actor` needs nothing else and ends by itself.

use std::collections::BTreeMap;

use actix::prelude::*;
use tidegate::{Event, Gateway, Message as Publish, Subscribe, consumer_fn};

/// How many of what are in stock: a projection of a topic.
#[derive(Default)]
struct Stock {
    items: BTreeMap<String, i64>,
}

impl Actor for Stock {
    type Context = Context<Self>;
}

/// An event of the topic, and its message to the actor.
#[derive(serde::Serialize, serde::Deserialize, Message)]
#[rtype(result = "()")]
struct Moved {
    item: String,
    count: i64,
}

impl Handler<Moved> for Stock {
    type Result = ();

    fn handle(&mut self, moved: Moved, _: &mut Context<Self>) {
        *self.items.entry(moved.item).or_default() += moved.count;
    }
}

/// A question.
#[derive(Message)]
#[rtype(result = "i64")]
struct HowMany(&'static str);

impl Handler<HowMany> for Stock {
    type Result = i64;

    fn handle(&mut self, HowMany(item): HowMany, _: &mut Context<Self>) -> i64 {
        self.items.get(item).copied().unwrap_or(0)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gateway = Gateway::builder()
        .in_memory()
        .actor("stock", Stock::default)
        .consumer(Subscribe::group("moves", "stock").from_earliest(), || {
            consumer_fn(|event: Event<Moved>, ctx: tidegate::Context| async move {
                // Acked when the actor is done with it; where the actor died, the event comes again.
                ctx.gateway().actor::<Stock>("stock")?.send(event.payload).await
            })
        })
        .start()
        .await?;

    for (item, count) in [("apples", 10), ("pears", 5), ("apples", -3)] {
        let item = item.to_owned();
        gateway.publish("moves", Publish::json(&Moved { item, count })).await?;
    }
    while gateway.group("moves", "stock").await?.lag > 0 {
        tokio::task::yield_now().await;
    }
    let apples = gateway.actor::<Stock>("stock")?.send(HowMany("apples")).await?;
    gateway.stop().await?;
    println!("{apples} apples are in stock");
    Ok(())
}
