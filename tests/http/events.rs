//! `GET /events/{topic}`: server-sent events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;

use crate::client::{Reading, get, numbered, post, publish_many};
use crate::stores::{Kind, on_every_store};
use crate::support::{DEADLINE, TestGateway};

on_every_store!(
    events_come_as_they_are_published,
    a_stream_begins_where_it_is_asked_to,
    a_client_that_comes_back_misses_nothing,
    pushes_are_paced_and_none_is_lost,
    a_client_that_does_not_read_is_cut_off,
);

/// A stream of events, read like a browser does.
struct Stream {
    reading: Reading,
    taken: usize,
}

impl Stream {
    async fn open(gateway: &TestGateway, path: &str, headers: &[(&str, &str)]) -> Stream {
        let reading = Reading::begin(gateway.address, &format!("GET {path}"), headers, b"").await;
        let mut stream = Stream { reading, taken: 0 };
        // Sent at once: from here on nothing is missed.
        stream.reading.until("retry: 1000\n\n").await;
        stream
    }

    /// The content that came so far, without the marks of the chunks.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.reading.bytes).into_owned();
        let (_, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut content = String::new();
        for (at, part) in body.split("\r\n").enumerate() {
            if at % 2 == 1 {
                content.push_str(part);
            }
        }
        content
    }

    /// The next `n` events: their ids and data.
    async fn events(&mut self, n: usize) -> Vec<(String, Value)> {
        loop {
            let text = self.text();
            let complete = text.rsplit_once("\n\n").map_or("", |(complete, _)| complete);
            let events: Vec<_> = complete.split("\n\n").filter_map(event).collect();
            if events.len() >= self.taken + n {
                let taken = events[self.taken..self.taken + n].to_vec();
                self.taken += n;
                return taken;
            }
            assert!(self.reading.more().await, "ended after {text}");
        }
    }

    async fn seqs(&mut self, n: usize) -> Vec<u64> {
        let events = self.events(n).await;
        events.iter().map(|(_, event)| event["seq"].as_u64().unwrap()).collect()
    }
}

fn event(block: &str) -> Option<(String, Value)> {
    let (id, data) = block.strip_prefix("id: ")?.split_once("\ndata: ")?;
    Some((id.to_owned(), serde_json::from_str(data).expect("an event")))
}

async fn events_come_as_they_are_published(kind: Kind) {
    let world = kind.start(&[]);
    post(&world.gateway, "/publish/t", "0").await;
    let mut stream = Stream::open(&world.gateway, "/events/t", &[]).await;
    let text = String::from_utf8_lossy(&stream.reading.bytes).to_lowercase();
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    for (path, n) in [
        ("/publish/t", 1),
        ("/publish/t?id=a%0A%0Ab&key=k", 2),
        ("/publish/t", 3),
    ] {
        post(&world.gateway, path, &n.to_string()).await;
        let (id, event) = stream.events(1).await.remove(0);
        assert_eq!(event["payload"], n);
        assert_eq!(
            id,
            event["seq"].to_string(),
            "what an event's id may hold would break the stream"
        );
    }
    let open = get(&world.gateway, "/metrics").await;
    assert!(open.text().contains("tidegate_event_streams 1\n"));
}

async fn a_stream_begins_where_it_is_asked_to(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    let events = (1..=4).map(|n| json!({"payload": n, "opts": {"id": format!("e{n}"), "ts": n * 10}}));
    publish_many(&mut client, "t", events).await;
    for (query, expected) in [
        ("?from=earliest", vec![1, 2, 3, 4]),
        ("?from=ts&ts=20", vec![2, 3, 4]),
        ("?from=afterId&afterId=e2", vec![3, 4]),
        ("?from=afterSeq&afterSeq=3", vec![4]),
    ] {
        let mut stream = Stream::open(&world.gateway, &format!("/events/t{query}"), &[]).await;
        assert_eq!(stream.seqs(expected.len()).await, expected, "{query}");
    }
    for (path, status, message) in [
        ("/events/t?from=afterId&afterId=nobody", 404, "afterId: "),
        ("/events/T", 400, "topic: "),
        (
            "/events/t?from=yesterday",
            400,
            "from: expected one of latest, earliest",
        ),
        ("/events/t?group=g", 400, "group: unknown"),
    ] {
        let answer = get(&world.gateway, path).await;
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(answer.status == status && error.starts_with(message), "{path}: {error}");
    }
    let wrong = [("Last-Event-ID", "e2")];
    let answer = crate::client::request(world.gateway.address, "GET /events/t", &wrong, b"").await;
    assert_eq!(answer.status, 400);
}

async fn a_client_that_comes_back_misses_nothing(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", numbered(10)).await;
    let mut stream = Stream::open(&world.gateway, "/events/t?from=earliest", &[]).await;
    let (last, _) = stream.events(7).await.pop().unwrap();
    drop(stream);
    publish_many(&mut client, "t", numbered(5)).await;
    // The address is the same as before: what the browser remembers goes first.
    let headers = [("Last-Event-ID", last.as_str())];
    let mut again = Stream::open(&world.gateway, "/events/t?from=earliest", &headers).await;
    assert_eq!(again.seqs(8).await, (8..=15).collect::<Vec<_>>());
    // A topic that was made anew does not know the number: all of it is new.
    post(&world.gateway, "/publish/young", "1").await;
    let mut young = Stream::open(&world.gateway, "/events/young", &[("Last-Event-ID", "99")]).await;
    assert_eq!(young.seqs(1).await, [1]);
}

async fn pushes_are_paced_and_none_is_lost(kind: Kind) {
    let world = kind.start(&["limits.push={capacity=50,refill_per_sec=500}"]);
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", numbered(300)).await;
    let began = std::time::Instant::now();
    let mut stream = Stream::open(&world.gateway, "/events/t?from=earliest", &[]).await;
    assert_eq!(stream.seqs(300).await, (1..=300).collect::<Vec<_>>());
    assert!(
        began.elapsed() >= Duration::from_millis(499),
        "250 tokens take half a second"
    );
}

async fn a_client_that_does_not_read_is_cut_off(kind: Kind) {
    let world = kind.start(&["gateway.write_timeout=300ms"]);
    let mut client = world.gateway.connect().await;
    let padding = "p".repeat(900);
    publish_many(&mut client, "t", (0..20_000).map(|_| json!({"payload": padding}))).await;
    let stalled = Stream::open(&world.gateway, "/events/t?from=earliest", &[]).await;
    let mut reader = Stream::open(&world.gateway, "/events/t", &[]).await;
    let cut = "tidegate_connections_cut_total{reason=\"write_timeout\"} 1";
    let until_cut = async {
        while !get(&world.gateway, "/metrics").await.text().contains(cut) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, until_cut).await.expect("it is cut off");
    drop(stalled);
    post(&world.gateway, "/publish/t", "1").await;
    assert_eq!(reader.seqs(1).await, [20_001], "the others go on");
}

/// The topic's actor dies, again and again: who follows the topic notices nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_outlives_its_topics_actor() {
    let left = Arc::new(AtomicI64::new(0));
    let armed = left.clone();
    let faults = Faults::new(move |place| {
        if place == "topic.appended" && armed.fetch_sub(1, Ordering::SeqCst) == 1 {
            panic!("a fault at {place}");
        }
    });
    let gateway = TestGateway::start_with(&[], Timing::default(), faults);
    let mut stream = Stream::open(&gateway, "/events/t?from=earliest", &[]).await;
    for n in 1..=30_u64 {
        if n % 10 == 0 {
            left.store(1, Ordering::SeqCst);
        }
        let path = format!("/publish/t?id=e{n}");
        while post(&gateway, &path, &n.to_string()).await.status != 200 {}
    }
    let payloads: Vec<u64> = stream
        .events(30)
        .await
        .iter()
        .map(|(_, event)| event["payload"].as_u64().unwrap())
        .collect();
    assert_eq!(payloads, (1..=30).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_stream_has_heartbeats_and_ends_with_the_gateway() {
    let timing = Timing {
        ping: Duration::from_millis(50),
        ..Timing::default()
    };
    let gateway = TestGateway::start_with(&[], timing, Faults::default());
    let mut stream = Stream::open(&gateway, "/events/t", &[]).await;
    stream.reading.until(":\n\n").await;
    let ended = tokio::task::spawn_blocking(move || drop(gateway));
    while stream.reading.more().await {}
    ended.await.unwrap();
}
