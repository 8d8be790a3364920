//! Publishes `N` events to `TOPIC` and consumes them in a group, in this process; says how long each was on its way.
//! See `README.md` beside this file.

#![allow(missing_docs, reason = "a program of its own")]

mod support;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;

use serde::Deserialize;
use support::bus::Consumer;
use support::{InProcess, Result, ended, latencies, variable};
use tidegate::domain::TopicName;

#[derive(Deserialize)]
struct Payload {
    i: u64,
    t0: u64,
}

/// Takes and acks all events; milliseconds from publishing to here.
async fn consume(mut consumer: Consumer, n: u64, began: Instant) -> Result<()> {
    let mut taken = latencies()?;
    let mut acks = VecDeque::new();
    let mut seen = vec![false; usize::try_from(n)?];
    while taken.len() < n {
        let events = consumer.next().await?;
        for event in &events {
            let now = u64::try_from(began.elapsed().as_nanos())?;
            let Payload { i, t0 } = serde_json::from_slice(event.payload())?;
            taken.record(now.saturating_sub(t0).max(1))?;
            let seen = seen
                .get_mut(usize::try_from(i)?)
                .ok_or("an event that was not published")?;
            if std::mem::replace(seen, true) {
                return Err(format!("event {i} came twice").into());
            }
        }
        acks.push_back(consumer.ack(&events)?);
        while acks.len() > 64
            && let Some(oldest) = acks.pop_front()
        {
            oldest.done().await?;
        }
    }
    for ack in acks {
        ack.done().await?;
    }
    let ms = |nanos: f64| nanos / 1e6;
    let at = |quantile| ms(taken.value_at_quantile(quantile) as f64);
    println!(
        "{{\"n\":{n},\"p50\":{:.3},\"p90\":{:.3},\"p99\":{:.3},\"max\":{:.3},\"avg\":{:.3}}}",
        at(0.5),
        at(0.9),
        at(0.99),
        ms(taken.max() as f64),
        ms(taken.mean()),
    );
    Ok(())
}

async fn run() -> Result<()> {
    let n: u64 = variable("N", "100000")?;
    let topic: TopicName = variable("TOPIC", "bench.topic")?;
    let window: usize = variable("WINDOW", "1")?;
    let store: String = variable("STORE", "memory")?;
    let gateway = InProcess::start(&store).await?;
    let consumer = gateway.subscribe(&topic, &"bench".parse()?).await?;

    let began = Instant::now();
    let consuming =
        tokio::task::spawn_local(async move { consume(consumer, n, began).await.map_err(|error| error.to_string()) });
    let mut waiting = VecDeque::new();
    for i in 0..n {
        let t0 = began.elapsed().as_nanos();
        waiting.push_back(gateway.publish(&topic, format!("{{\"i\":{i},\"t0\":{t0}}}"))?);
        if waiting.len() >= window
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.done().await?;
        }
    }
    for publishing in waiting {
        publishing.done().await?;
    }
    consuming.await??;
    gateway.end().await
}

fn main() -> ExitCode {
    ended(actix::System::new().block_on(run()))
}
