//! A gateway that listens, and a client that talks to it over WebSocket: it publishes, consumes in a group and acks.
//!
//! `cargo run --example websocket_client` needs nothing else and ends by itself. [The client](support/mod.rs) is a few lines of
//! tokio-tungstenite; any language's WebSocket library does.

mod support;

use serde_json::json;
use tidegate::Gateway;

use crate::support::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program with a configuration of its own has `.config(...)`; see `tidegate::config::load`.
    let gateway = Gateway::builder()
        .in_memory()
        .listen(([127, 0, 0, 1], 0))
        .start()
        .await?;
    let address = gateway.address().ok_or("it listens")?;

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
    // Who leaves on purpose says so: what it still held would go to another member at once.
    worker
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "orders", "group": "billing"}))
        .await?;
    println!("billing has {} left", gateway.group("orders", "billing").await?.lag);

    gateway.stop().await?;
    println!("the gateway has drained");
    Ok(())
}
