//! A gateway inside of another program: it is started, a client publishes and consumes in a group, and it is drained.
//!
//! `cargo run --example embed` needs nothing else and ends by itself.

mod support;

use std::error::Error;
use std::net::SocketAddr;

use serde_json::json;
use tidegate::config::{Sources, load};
use tidegate::server::Gateway;
use tokio::sync::oneshot;

use crate::support::Client;

fn main() -> Result<(), Box<dyn Error>> {
    // As with `tidegate serve --set ...`; a tidegate.toml or the environment would be read with other `Sources`.
    let set = ["store.kind=memory", "gateway.listen=127.0.0.1:0", "replay.listen=off"];
    let sources = Sources {
        set: set.iter().map(|&entry| entry.to_owned()).collect(),
        ..Sources::default()
    };
    let config = load(&sources)?.config;

    // The gateway is made of actix actors, so it lives in an actix system.
    actix::System::new().block_on(async move {
        let gateway = Gateway::start(config).await?;
        let address = gateway.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = actix::spawn(gateway.run_until(async move {
            let _ = stopped.await;
        }));

        publish_and_consume(address).await?;

        // Dropping `stop` is the signal: the gateway drains, and `running` ends when everything is on its way home.
        drop(stop);
        running.await??;
        println!("the gateway has drained");
        Ok(())
    })
}

async fn publish_and_consume(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut publisher = Client::connect(address).await?;
    for number in 1..=3 {
        let frame = json!({
            "op": "PUBLISH", "topic": "orders", "payload": {"number": number}, "opts": {"key": "customer-7"},
        });
        let ok = publisher.ok(frame).await?;
        println!("published order {number} as seq {}", ok["seq"]);
    }

    let mut worker = Client::connect(address).await?;
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": {"from": "earliest"}});
    worker.ok(subscribe).await?;
    for _ in 1..=3 {
        let delivery = worker.event().await?;
        let event = &delivery["event"];
        println!("billing got seq {}: {}", event["seq"], event["payload"]);
        // The answer comes once the ack is durable: the group never gets this event again.
        worker
            .ok(json!({"op": "ACK", "topic": "orders", "group": "billing", "id": event["id"]}))
            .await?;
    }
    println!("billing acked everything");

    // Who leaves on purpose says so: what it still held would go to another member at once.
    worker
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "orders", "group": "billing"}))
        .await?;
    Ok(())
}
