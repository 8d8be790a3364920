//! An event that no worker can handle: it is given back until its attempts are used up, and is then found, with the
//! reason, in the topic of dead letters.
//!
//! `cargo run --example dead_letters` needs nothing else and ends by itself.

mod support;

use std::error::Error;
use std::net::SocketAddr;

use serde_json::json;
use tidegate::config::{Sources, load};
use tidegate::server::Gateway;
use tokio::sync::oneshot;

use crate::support::Client;

fn main() -> Result<(), Box<dyn Error>> {
    let set = ["store.kind=memory", "gateway.listen=127.0.0.1:0", "replay.listen=off"];
    let sources = Sources {
        set: set.iter().map(|&entry| entry.to_owned()).collect(),
        ..Sources::default()
    };
    let config = load(&sources)?.config;
    actix::System::new().block_on(async move {
        let gateway = Gateway::start(config).await?;
        let address = gateway.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = actix::spawn(gateway.run_until(async move {
            let _ = stopped.await;
        }));
        nack_until_dead(address).await?;
        drop(stop);
        Ok(running.await??)
    })
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
