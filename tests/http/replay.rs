//! `GET /replay`.

use serde_json::{Value, json};

use crate::client::{get, numbered, publish_many};
use crate::stores::{Kind, on_every_store};

on_every_store!(
    pages_follow_each_other_to_the_end,
    next_is_walked_to_the_end_while_publishing_goes_on,
    every_start_works,
    every_wrong_parameter_is_named,
    a_page_is_bounded_in_bytes,
    next_goes_on_where_retention_took_the_last_event,
);

async fn pages_follow_each_other_to_the_end(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", numbered(2_500)).await;
    let (mut path, mut counts, mut seqs) = ("/replay?topic=t".to_owned(), Vec::new(), Vec::new());
    loop {
        let page = get(&world.gateway, &path).await;
        let json = page.json();
        assert_eq!(json["topic"], "t");
        counts.push(json["count"].as_u64().unwrap());
        seqs.extend(page.seqs());
        match json.get("next") {
            Some(next) => path = next.as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(counts, [1_000, 1_000, 500]);
    assert_eq!(seqs, (1..=2_500).collect::<Vec<_>>());
    let exact = get(&world.gateway, "/replay?topic=t&from=afterSeq&afterSeq=1500&limit=1000").await;
    assert_eq!(
        exact.json().get("next"),
        None,
        "a page that ends with the last event has no next"
    );
    let one = get(&world.gateway, "/replay?topic=t&limit=1").await;
    assert_eq!((one.seqs(), one.json()["count"].as_u64()), (vec![1], Some(1)));
    let most = get(&world.gateway, "/replay?topic=t&limit=10000").await;
    assert_eq!(most.seqs().len(), 2_500);
}

async fn next_is_walked_to_the_end_while_publishing_goes_on(kind: Kind) {
    let world = kind.start(&[]);
    let mut publisher = world.gateway.connect().await;
    publish_many(&mut publisher, "t", numbered(3_000)).await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let publishing = tokio::spawn(async move {
        let mut published = 3_000;
        while stopped.try_recv().is_err() {
            publish_many(&mut publisher, "t", numbered(10)).await;
            published += 10;
            // Not faster than the pages are read: the end would move away for ever.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        published
    });
    let (mut path, mut seqs) = ("/replay?topic=t&limit=500".to_owned(), Vec::new());
    loop {
        let page = get(&world.gateway, &path).await;
        seqs.extend(page.seqs());
        let json = page.json();
        let Some(next) = json.get("next") else { break };
        path = next.as_str().unwrap().to_owned();
    }
    stop.send(()).unwrap();
    let published: u64 = publishing.await.unwrap();
    let last = *seqs.last().unwrap();
    assert!((3_000..=published).contains(&last), "{last} of {published}");
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "none is missing, none came twice");
}

async fn every_start_works(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    // Out of order: a publisher's clock is its own.
    let times = [10, 30, 20, 30, 40];
    let events = times.iter().enumerate();
    let events = events.map(|(at, ts)| json!({"payload": at, "opts": {"ts": ts, "id": format!("id {at}/é")}}));
    publish_many(&mut client, "t", events).await;
    let seqs = async |query: &str| get(&world.gateway, &format!("/replay?topic=t{query}")).await.seqs();
    assert_eq!(seqs("").await, [1, 2, 3, 4, 5]);
    assert_eq!(seqs("&from=earliest").await, [1, 2, 3, 4, 5]);
    assert_eq!(seqs("&from=ts&ts=0").await, [1, 2, 3, 4, 5]);
    assert_eq!(
        seqs("&from=ts&ts=11").await,
        [2, 3, 4, 5],
        "the first whose ts is at least that, and all after it"
    );
    assert_eq!(seqs("&from=ts&ts=30").await, [2, 3, 4, 5]);
    assert_eq!(seqs("&from=ts&ts=31").await, [5]);
    assert_eq!(seqs("&from=ts&ts=41").await, [0; 0]);
    assert_eq!(seqs("&from=ts&ts=253402300799999").await, [0; 0]);
    assert_eq!(seqs("&from=afterId&afterId=id%202%2F%C3%A9").await, [4, 5]);
    assert_eq!(seqs("&from=afterId&afterId=id+4/%C3%A9").await, [0; 0]);
    assert_eq!(seqs("&from=afterSeq&afterSeq=0").await, [1, 2, 3, 4, 5]);
    assert_eq!(seqs("&from=afterSeq&afterSeq=4").await, [5]);
    assert_eq!(seqs("&from=afterSeq&afterSeq=9223372036854775807").await, [0; 0]);
    let unknown = get(&world.gateway, "/replay?topic=t&from=afterId&afterId=nobody").await;
    assert_eq!(
        (unknown.status, unknown.json()["code"].as_str()),
        (404, Some("unknown_id"))
    );
    let absent = get(&world.gateway, "/replay?topic=none").await.json();
    assert_eq!(absent, json!({"topic": "none", "count": 0, "events": []}));
}

async fn every_wrong_parameter_is_named(kind: Kind) {
    let world = kind.start(&[]);
    let cases: [(&str, &str, &str); 20] = [
        ("", "bad_request", "topic: missing"),
        ("topic=", "bad_topic", "topic: "),
        ("topic=Orders", "bad_topic", "topic: "),
        ("topic=a..b", "bad_topic", "topic: "),
        ("topic=a&topic=b", "bad_request", "topic: given twice"),
        (
            "topic=a&limit=0",
            "bad_request",
            "limit: expected an integer from 1 to 10,000",
        ),
        ("topic=a&limit=10001", "bad_request", "limit: expected"),
        ("topic=a&limit=ten", "bad_request", "limit: expected"),
        ("topic=a&limit=1.5", "bad_request", "limit: expected"),
        ("topic=a&limit=-1", "bad_request", "limit: expected"),
        (
            "topic=a&from=latest",
            "bad_request",
            "from: expected one of earliest, ts, afterId, afterSeq",
        ),
        ("topic=a&from=ts", "bad_request", "ts: missing"),
        ("topic=a&from=ts&ts=now", "bad_request", "ts: expected an integer"),
        ("topic=a&from=ts&ts=253402300800000", "bad_request", "ts: expected"),
        ("topic=a&ts=5", "bad_request", "ts: only goes with from=ts"),
        (
            "topic=a&from=afterId&afterId=",
            "bad_request",
            "afterId: expected a string of 1 to 128 bytes",
        ),
        ("topic=a&afterSeq=1", "bad_request", "afterSeq: only goes with"),
        (
            "topic=a&from=afterSeq&afterSeq=99999999999999999999",
            "bad_request",
            "afterSeq: expected",
        ),
        ("topc=a", "bad_request", "topc: unknown; did you mean `topic`?"),
        ("topic=%ff", "bad_request", "query: expected UTF-8"),
    ];
    for (query, code, message) in cases {
        let answer = get(&world.gateway, &format!("/replay?{query}")).await;
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

async fn a_page_is_bounded_in_bytes(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    let large = "x".repeat(900_000);
    for _ in 0..7 {
        client.publish("t", json!(large)).await;
    }
    let first = get(&world.gateway, "/replay?topic=t").await;
    assert_eq!(first.seqs(), [1, 2, 3, 4, 5], "a page ends once it has 4 MiB");
    let next = first.json()["next"].as_str().unwrap().to_owned();
    assert_eq!(get(&world.gateway, &next).await.seqs(), [6, 7]);
}

async fn next_goes_on_where_retention_took_the_last_event(kind: Kind) {
    let rules = "topic=[{name=\"t\",retention={count=10}}]";
    let world = kind.start(&[rules, "store.sweep_interval=100ms"]);
    let mut client = world.gateway.connect().await;
    publish_many(&mut client, "t", numbered(10)).await;
    let page = get(&world.gateway, "/replay?topic=t&limit=5").await;
    assert_eq!(page.seqs(), [1, 2, 3, 4, 5]);
    publish_many(&mut client, "t", numbered(20)).await;
    while get(&world.gateway, "/replay?topic=t&limit=1").await.seqs() != [21] {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let json: Value = page.json();
    let next = get(&world.gateway, json["next"].as_str().unwrap()).await;
    assert_eq!(next.seqs(), [21, 22, 23, 24, 25]);
}
