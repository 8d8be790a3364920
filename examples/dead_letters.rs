//! An event that no worker can handle: it is given back until its attempts are used up, and is then found, with the
//! reason, in the topic of dead letters.
//!
//! `cargo run --example dead_letters` needs nothing else and ends by itself.

mod support;

use std::error::Error;
use std::net::SocketAddr;

use serde_json::json;
use tidegate::Gateway;

use crate::support::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = Gateway::builder()
        .in_memory()
        .listen(([127, 0, 0, 1], 0))
        .start()
        .await?;
    nack_until_dead(gateway.address().ok_or("it listens")?).await?;
    Ok(gateway.stop().await?)
}

async fn nack_until_dead(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut worker = Client::connect(address).await?;
    // An ephemeral subscription sees each dead letter as it comes; a group of its own could work them off.
    let mut watcher = Client::connect(address).await?;
    watcher.ok(json!({"op": "SUBSCRIBE", "topic": "dlq.orders"})).await?;

    let opts = json!({"from": "earliest", "maxAttempts": 3, "backoffMs": 20});
    worker
        .ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": opts}))
        .await?;
    worker
        .ok(json!({"op": "PUBLISH", "topic": "orders", "payload": {"amount": "a lot"}}))
        .await?;

    for _ in 1..=3 {
        let delivery = worker.event().await?;
        let (context, id) = (&delivery["ctx"], &delivery["event"]["id"]);
        println!("attempt {} of {}: nacked", context["attempt"], context["max_attempts"]);
        let nack =
            json!({"op": "NACK", "topic": "orders", "group": "billing", "id": id, "reason": "amount: no number"});
        worker.ok(nack).await?;
    }

    let letter = watcher.event().await?;
    let record = &letter["event"]["payload"];
    println!(
        "{} holds {} from {} of {}, after {} attempts: {}",
        letter["topic"],
        record["original"]["payload"],
        record["group"],
        record["topic"],
        record["attempts"],
        record["err"]
    );
    Ok(())
}
