//! `GET /export`: what comes out.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::client::{Answer, get, numbered, publish_many, request};
use crate::stores::{Kind, World, on_every_store};

on_every_store!(
    lines_array_and_gzip_hold_the_same,
    times_are_inclusive_and_may_be_out_of_order,
    an_export_goes_on_after_a_seq,
    nothing_is_an_empty_export,
    every_wrong_parameter_is_named,
    payloads_keep_their_text,
    large_events_pass,
);

async fn gzipped(world: &World, path: &str) -> Answer {
    let accept = [("Accept-Encoding", "gzip, deflate, br")];
    let mut answer = request(world.gateway.address, &format!("GET {path}"), &accept, b"").await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut plain = Vec::new();
    GzDecoder::new(answer.body.as_slice())
        .read_to_end(&mut plain)
        .expect("a whole gzip stream");
    answer.body = plain;
    answer
}

async fn lines_array_and_gzip_hold_the_same(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    // Several pieces' worth.
    let padding = "y".repeat(400);
    let events = (0..5_000).map(|n| json!({"payload": {"n": n, "padding": padding}}));
    publish_many(&mut client, "t", events).await;
    let lines = get(&world.gateway, "/export?topic=t").await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(lines.header("x-tidegate-last-seq"), Some("5000"));
    assert_eq!(lines.seqs(), (1..=5_000).collect::<Vec<_>>());
    assert!(lines.text().ends_with("}\n"));
    let array = get(&world.gateway, "/export?topic=t&ndjson=0").await;
    assert_eq!(array.header("content-type"), Some("application/json"));
    assert!(array.events() == lines.events());
    assert!(get(&world.gateway, "/export?topic=t&ndjson=1").await.body == lines.body);
    assert!(gzipped(&world, "/export?topic=t").await.body == lines.body);
    assert!(gzipped(&world, "/export?topic=t&ndjson=0").await.body == array.body);
    let refused = [("Accept-Encoding", "gzip;q=0")];
    let plain = request(world.gateway.address, "GET /export?topic=t", &refused, b"").await;
    assert!(plain.header("content-encoding").is_none() && plain.body == lines.body);
}

async fn times_are_inclusive_and_may_be_out_of_order(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    let times = [10, 40, 20, 30, 20];
    publish_many(
        &mut client,
        "t",
        times.iter().map(|ts| json!({"payload": 1, "opts": {"ts": ts}})),
    )
    .await;
    let seqs = async |query: &str| get(&world.gateway, &format!("/export?topic=t{query}")).await.seqs();
    assert_eq!(seqs("&fromTs=20").await, [2, 3, 4, 5]);
    assert_eq!(seqs("&fromTs=21").await, [2, 4]);
    assert_eq!(seqs("&toTs=20").await, [1, 3, 5]);
    assert_eq!(seqs("&toTs=19").await, [1]);
    assert_eq!(seqs("&fromTs=20&toTs=30").await, [3, 4, 5]);
    assert_eq!(seqs("&fromTs=40&toTs=40").await, [2]);
    assert_eq!(seqs("&fromTs=41").await, [0; 0]);
    assert_eq!(seqs("&fromTs=30&toTs=20").await, [0; 0]);
    assert_eq!(seqs("&fromTs=0&toTs=253402300799999").await, [1, 2, 3, 4, 5]);
}

async fn an_export_goes_on_after_a_seq(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", numbered(100)).await;
    let rest = get(&world.gateway, "/export?topic=t&afterSeq=97").await;
    assert_eq!(rest.seqs(), [98, 99, 100]);
    assert_eq!(rest.header("x-tidegate-first-seq"), Some("98"));
    assert_eq!(get(&world.gateway, "/export?topic=t&afterSeq=100").await.seqs(), [0; 0]);
    assert_eq!(
        get(&world.gateway, "/export?topic=t&afterSeq=9000").await.seqs(),
        [0; 0]
    );
}

async fn nothing_is_an_empty_export(kind: Kind) {
    let world = kind.start(&[]);
    let lines = get(&world.gateway, "/export?topic=none").await;
    assert!(lines.status == 200 && lines.complete && lines.body.is_empty());
    assert_eq!(get(&world.gateway, "/export?topic=none&ndjson=0").await.text(), "[]");
    assert!(gzipped(&world, "/export?topic=none").await.body.is_empty());
}

async fn every_wrong_parameter_is_named(kind: Kind) {
    let world = kind.start(&[]);
    for (query, code, message) in [
        ("", "bad_request", "topic: missing"),
        ("topic=A", "bad_topic", "topic: "),
        ("topic=a&fromTs=x", "bad_request", "fromTs: expected an integer"),
        ("topic=a&toTs=-1", "bad_request", "toTs: expected an integer"),
        ("topic=a&toTs=253402300800000", "bad_request", "toTs: expected"),
        ("topic=a&ndjson=yes", "bad_request", "ndjson: expected 1 or 0"),
        ("topic=a&afterSeq=", "bad_request", "afterSeq: expected"),
        ("topic=a&fromTs=1&fromTs=2", "bad_request", "fromTs: given twice"),
        (
            "topic=a&from_ts=1",
            "bad_request",
            "from_ts: unknown; did you mean `fromTs`?",
        ),
    ] {
        let answer = get(&world.gateway, &format!("/export?{query}")).await;
        let json = answer.json();
        assert_eq!(
            (answer.status, json["code"].as_str()),
            (400, Some(code)),
            "{query}: {json}"
        );
        let error = json["error"].as_str().unwrap();
        assert!(error.starts_with(message), "{query}: {error}");
    }
}

async fn payloads_keep_their_text(kind: Kind) {
    let world = kind.start(&[]);
    let ugly = r#"{"a":1.0,"b":1e400,"c":"\u00e9\/\n","d":12345678901234567890123,"a":-0,"e":[ ],"f":""}"#;
    let posted = crate::client::post(&world.gateway, "/publish/t", &format!("\n {ugly}\t\r\n")).await;
    assert_eq!(posted.status, 200, "{posted:?}");
    let kept = ugly.replace("[ ]", "[]");
    for path in ["/export?topic=t", "/export?topic=t&ndjson=0", "/replay?topic=t"] {
        let answer = get(&world.gateway, path).await;
        assert!(
            answer.text().contains(&format!("\"payload\":{kept}}}")),
            "{}",
            answer.text()
        );
    }
    assert_eq!(get(&world.gateway, "/export?topic=t").await.text().lines().count(), 1);
}

async fn large_events_pass(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    let large = "z".repeat(1_000_000);
    for _ in 0..5 {
        client.publish("t", json!(large)).await;
    }
    assert_eq!(get(&world.gateway, "/export?topic=t").await.seqs(), [1, 2, 3, 4, 5]);
}
