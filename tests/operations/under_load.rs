//! A group that is put somewhere else again and again while it works, and one that is paused when its gateway is killed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::http::{becomes, call, expect, get};
use crate::running::{Running, stdout};
use crate::support::{Client, DEADLINE, TestGateway};

/// What a member was given: its own number, the seq, the attempt.
type Given = (usize, u64, u64);

/// Acks whatever it is given, and tells.
async fn work(number: usize, mut client: Client, given: mpsc::UnboundedSender<Given>) {
    loop {
        let frame = client.event().await;
        let event = &frame["event"];
        let seq = event["seq"].as_u64().unwrap();
        let told = given.send((number, seq, frame["ctx"]["attempt"].as_u64().unwrap()));
        if told.is_err() {
            return;
        }
        client.ack("t", "g", &event["id"]).await;
    }
}

/// Waits until everything is acked and the members have read all that was delivered; the answer is what came since.
async fn all_given(address: SocketAddr, given: &mut mpsc::UnboundedReceiver<Given>, before: usize) -> Vec<Given> {
    becomes(address, "/lag?topic=t&group=g", |lag| lag["lag"] == 0).await;
    let (_, figures) = call(address, "GET /metrics", "").await;
    let name = "tidegate_events_delivered_total{topic=\"t\",group=\"g\"} ";
    let delivered = figures.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let delivered: usize = delivered.trim().parse().unwrap();
    let mut came = Vec::new();
    while before + came.len() < delivered {
        let next = tokio::time::timeout(DEADLINE, given.recv()).await;
        came.push(next.expect("all that was delivered").unwrap());
    }
    came
}

#[actix::test]
async fn seeks_back_and_forth_lose_nothing_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("store.path={}", folder.path().display());
    let gateway = TestGateway::start(&["store.kind=embedded", &path, "topic=[{name=\"t\",durability=\"os\"}]"]);
    let address = gateway.address;
    let mut publisher = gateway.connect().await;
    let (sender, mut given) = mpsc::unbounded_channel();
    let mut workers = Vec::new();
    for number in 0..3 {
        let mut client = gateway.connect().await;
        client
            .subscribe("t", "g", json!({"from": "earliest", "maxInFlight": 7}))
            .await;
        workers.push(actix::spawn(work(number, client, sender.clone())));
    }
    let seek = "POST /groups/t/g/seek";
    let mut ids: Vec<Value> = Vec::new();
    for round in 0..30_usize {
        for n in 0..20 {
            let key = format!("k{}", n % 5);
            let publish = json!({"op": "PUBLISH", "topic": "t", "payload": n, "opts": {"key": key}});
            ids.push(publisher.ok(publish).await["id"].clone());
        }
        let body = match round % 4 {
            0 => json!({"from": "earliest"}),
            1 => json!({"from": "latest"}),
            2 => json!({"from": "afterId", "afterId": ids[ids.len() * (round % 7) / 7]}),
            _ => json!({"from": "ts", "ts": 0}),
        };
        expect(address, seek, &body.to_string(), 200).await;
    }
    // From the middle: after it, all that follow come, and none before.
    let before = all_given(address, &mut given, 0).await.len();
    let (tail, middle) = (ids.len() as u64, ids.len() as u64 / 2);
    let body = json!({"from": "afterId", "afterId": ids[middle as usize - 1]}).to_string();
    expect(address, seek, &body, 200).await;
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, seq, attempt) in all_given(address, &mut given, before).await {
        assert_eq!(attempt, 1, "{seq}: a seek forgets attempts");
        *times.entry(seq).or_default() += 1;
    }
    let wanted: BTreeMap<u64, usize> = (middle + 1..=tail).map(|seq| (seq, 1)).collect();
    assert_eq!(times, wanted, "each once, and to one member");
    let lag = get(address, "/lag?topic=t&group=g").await;
    assert_eq!((&lag["floor"], &lag["inflight"]), (&json!(tail), &json!(0)));
    workers.iter().for_each(|worker| worker.abort());
}

#[actix::test]
async fn a_pause_and_a_seek_are_kept_over_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let cli = |gateway: &Running, args: &[&str]| stdout(&gateway.client(folder.path(), args));
    {
        let gateway = Running::start(folder.path(), &[]);
        for n in ["1", "2", "3"] {
            cli(&gateway, &["publish", "t", n]);
        }
        cli(
            &gateway,
            &["subscribe", "t", "--group", "g", "--from", "earliest", "--count", "3"],
        );
        cli(&gateway, &["groups", "pause", "t", "g"]);
        cli(&gateway, &["groups", "seek", "t", "g", "--from", "earliest"]);
        // Dropped: SIGKILL.
    }
    let gateway = Running::start(folder.path(), &[]);
    let lag: Value = serde_json::from_str(&cli(&gateway, &["groups", "lag", "t", "g", "--json"])).unwrap();
    assert_eq!((&lag["paused"], &lag["lag"]), (&json!(true), &json!(3)));
    let explained: Value = serde_json::from_str(&cli(&gateway, &["groups", "explain", "t", "g", "--json"])).unwrap();
    assert_eq!(
        (&explained["state"], &explained["paused"]["by"]),
        (&json!("paused"), &json!("an operator"))
    );
    let (socket, _) = tokio_tungstenite::connect_async(gateway.url.as_str()).await.unwrap();
    let mut member = Client::over(socket);
    member.subscribe("t", "g", json!({})).await;
    member.publish("t", json!(4)).await;
    assert!(member.events_so_far().await.is_empty(), "it is paused, whoever comes");
    cli(&gateway, &["groups", "resume", "t", "g"]);
    let mut seqs = Vec::new();
    for frame in member.events(4).await {
        seqs.push(frame["event"]["seq"].as_u64().unwrap());
    }
    seqs.sort_unstable();
    assert_eq!(seqs, [1, 2, 3, 4]);
}
