//! Publishes `N` events to `TOPIC` in this process and says how long that took. See `README.md` beside this file.

#![allow(missing_docs, reason = "a program of its own")]

mod support;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;

use support::{InProcess, Result, ended, variable};
use tidegate::domain::TopicName;

async fn run() -> Result<()> {
    let n: u64 = variable("N", "100000")?;
    let topic: TopicName = variable("TOPIC", "bench.topic")?;
    let window: usize = variable("WINDOW", "1")?;
    let store: String = variable("STORE", "memory")?;
    let gateway = InProcess::start(&store).await?;

    let began = Instant::now();
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
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let mps = n as f64 / ms * 1e3;
    println!("{{\"published\":{n},\"ms\":{ms:.1},\"mps\":{mps:.1}}}");
    gateway.end().await
}

fn main() -> ExitCode {
    ended(actix::System::new().block_on(run()))
}
