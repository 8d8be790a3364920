//! A gateway inside a program: an event is published, and a consumer gets it.
//!
//! `cargo run --example hello` needs nothing else and ends by itself.

use tidegate::{Context, Event, Gateway, Message, Subscribe, consumer_fn};
use tokio::sync::mpsc;

#[derive(serde::Serialize, serde::Deserialize)]
struct Greeting {
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (greeted, mut greetings) = mpsc::unbounded_channel();

    // `in_folder("data")` instead of `in_memory()` keeps events and groups over restarts.
    let gateway = Gateway::builder()
        .in_memory()
        .consumer(Subscribe::group("greetings", "printer"), move || {
            let greeted = greeted.clone();
            consumer_fn(move |event: Event<Greeting>, ctx: Context| {
                let greeted = greeted.clone();
                async move {
                    println!("event {}, attempt {}", event.seq, ctx.attempt());
                    // `Ok` acks the event; an error would bring it again.
                    greeted.send(event.payload.name)
                }
            })
        })
        .start()
        .await?;

    let name = "world".to_owned();
    // When this is done the event is durable.
    let published = gateway.publish("greetings", Message::json(&Greeting { name })).await?;
    println!("published {} as seq {}", published.id, published.seq);

    let name = greetings.recv().await.ok_or("the consumer ended")?;
    gateway.stop().await?;
    println!("hello, {name}");
    Ok(())
}
