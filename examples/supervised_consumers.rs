//! Consumers that crash: one is restarted and goes on, one crashes until it is given up and its group is paused, with the
//! reason, until somebody resumes it. The third notices nothing of it.
//!
//! `cargo run --example supervised_consumers` needs nothing else and ends by itself.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{Condition, Consumer, Context, Event, Gateway, Handle, Message, Restarts, Subscribe, consumer_fn};

/// Panics for as long as its oven is broken.
struct Baker {
    oven_works: Arc<AtomicBool>,
}

impl Consumer for Baker {
    type Payload = String;
    type Error = String;

    async fn handle(&mut self, _: Event<String>, _: &Context) -> Result<(), String> {
        assert!(self.oven_works.load(Ordering::Relaxed), "the oven is broken");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A panic is caught and logged; without this the program's own hook prints it as well.
    std::panic::set_hook(Box::new(|_| {}));
    let oven_works = Arc::new(AtomicBool::new(false));
    let oven = oven_works.clone();

    let bakers = Subscribe::group("orders", "bakers")
        .max_attempts(100)
        .backoff(Duration::from_millis(1));
    let few = Restarts::at_most(3, Duration::from_secs(60)).backoff(Duration::from_millis(10), Duration::from_secs(1));
    let gateway = Gateway::builder()
        .in_memory()
        .consumer(bakers.restarts(few), move || Baker {
            oven_works: oven.clone(),
        })
        .consumer(Subscribe::group("orders", "clumsy"), || {
            consumer_fn(|_: Event<String>, ctx: Context| async move {
                assert!(ctx.attempt() > 1, "dropped the tray");
                Ok::<(), String>(())
            })
        })
        .consumer(Subscribe::group("orders", "cashiers").concurrency(4), || {
            consumer_fn(|_: Event<String>, _: Context| async { Ok::<(), String>(()) })
        })
        .start()
        .await?;

    for cake in ["cheesecake", "strudel", "tart"] {
        gateway.publish("orders", Message::json(cake)).await?;
    }
    wait_for(&gateway, "cashiers").await?;
    wait_for(&gateway, "clumsy").await?;
    println!("cashiers and clumsy have handled everything");

    let why = loop {
        match &gateway.health().await.consumers[0].condition {
            Condition::Failed { why, .. } => break why.clone(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    println!("bakers were given up: {why}");
    while gateway.group("orders", "bakers").await?.paused.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    oven_works.store(true, Ordering::Relaxed);
    gateway.resume("orders", "bakers").await?;
    wait_for(&gateway, "bakers").await?;
    let health = gateway.health().await;
    println!(
        "after {} crashes and a resume all is well: {}",
        health.consumers[0].restarts,
        health.is_good()
    );
    gateway.stop().await?;
    Ok(())
}

/// Waits until a group has acked everything.
async fn wait_for(gateway: &Handle, group: &str) -> Result<(), Box<dyn Error>> {
    while gateway.group("orders", group).await?.lag > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
