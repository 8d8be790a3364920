//! Nothing that a program's handlers do holds up the gateway's clients.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::{Blocking, BlockingConsumer, Consumer, Context, Event, Gateway, Message, Restarts, Subscribe};

use crate::connect;

/// Blocks the thread it runs on, where it must not.
struct Rude;

impl Consumer for Rude {
    type Payload = u32;
    type Error = String;

    async fn handle(&mut self, _: Event<u32>, _: &Context) -> Result<(), String> {
        std::thread::sleep(Duration::from_secs(10));
        Ok(())
    }
}

/// Blocks, on a thread for that.
struct Slow;

impl BlockingConsumer for Slow {
    type Payload = u32;
    type Error = String;

    fn handle(&mut self, _: Event<u32>, _: &Context) -> Result<(), String> {
        std::thread::sleep(Duration::from_secs(10));
        Ok(())
    }
}

struct Panicking;

impl Consumer for Panicking {
    type Payload = u32;
    type Error = String;

    async fn handle(&mut self, _: Event<u32>, _: &Context) -> Result<(), String> {
        panic!("every time");
    }
}

/// How long a publish and its delivery to a WebSocket client take, in the middle of 100.
async fn round_trip(address: std::net::SocketAddr) -> Duration {
    let mut client = connect(address).await;
    client.subscribe("pings", "pong", json!({})).await;
    let mut times = Vec::new();
    for number in 0..100 {
        let begin = Instant::now();
        client.publish("pings", json!(number)).await;
        let event = client.event().await;
        times.push(begin.elapsed());
        client.ack("pings", "pong", &event["event"]["id"]).await;
    }
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "pings", "group": "pong"}))
        .await;
    times.sort_unstable();
    times[50]
}

/// The client has a thread of its own, so that it measures the gateway and not the program beside it.
async fn measured(address: std::net::SocketAddr) -> Duration {
    let (sender, median) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _ = sender.send(runtime.block_on(round_trip(address)));
    });
    median.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_or_panic_leave_a_clients_latency_alone() {
    let forever = Restarts::at_most(u32::MAX, Duration::from_secs(60)).backoff(Duration::ZERO, Duration::ZERO);
    let panicking = Subscribe::group("work", "panicking")
        .max_attempts(1_000)
        .backoff(Duration::from_millis(1));
    let gateway = Gateway::builder()
        .in_memory()
        .listen(([127, 0, 0, 1], 0))
        .consumer(Subscribe::group("work", "rude"), || Rude)
        .consumer(Subscribe::group("work", "slow").concurrency(4), || Blocking::new(Slow))
        .consumer(panicking.restarts(forever), || Panicking)
        .start()
        .await
        .unwrap();
    let address = gateway.address().unwrap();
    let before = measured(address).await;
    for number in 0..8 {
        gateway.publish("work", Message::json(&number)).await.unwrap();
    }
    let handle = gateway.handle();
    // The blocked handlers hold their events, and the panicking one has crashed so often.
    let state = async || {
        let blocked = handle.groups("work").await.unwrap();
        let blocked = blocked.iter().filter(|group| group.group.as_str() != "panicking");
        let crashes = handle
            .health()
            .await
            .consumers
            .iter()
            .map(|consumer| consumer.restarts)
            .sum::<u64>();
        (
            blocked.clone().count() == 2 && blocked.clone().all(|group| group.inflight > 0),
            crashes,
        )
    };
    while !matches!(state().await, (true, 5..)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (_, crashes) = state().await;
    let during = measured(address).await;
    let (blocked, crashes_after) = state().await;
    assert!(
        blocked && crashes_after > crashes,
        "the handlers were at it all the time"
    );
    println!("the median of 100 round trips: {before:?} before, {during:?} during");
    // Within noise: a client that waited for any of them would wait for seconds.
    assert!(
        during < before * 20 + Duration::from_millis(200),
        "{before:?} before, {during:?} during"
    );
    drop(gateway);
}
