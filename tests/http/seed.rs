//! What the first draft of this gateway got wrong, as it must not come back.

use serde_json::json;

use crate::client::{get, publish_many};
use crate::stores::{Kind, on_every_store};

on_every_store!(
    events_of_one_millisecond_come_out_once_each,
    a_later_ack_does_not_hide_an_earlier_event,
);

async fn events_of_one_millisecond_come_out_once_each(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    let events = (0..20_000).map(|n| json!({"payload": n, "opts": {"ts": 1_700_000_000_000_u64}}));
    publish_many(&mut client, "t", events).await;
    let all: Vec<u64> = (1..=20_000).collect();
    let bounded = "/export?topic=t&fromTs=1700000000000&toTs=1700000000000";
    for path in ["/export?topic=t", bounded, "/export?topic=t&ndjson=0"] {
        let export = get(&world.gateway, path).await;
        assert!(export.seqs() == all, "{path}");
    }
    let mut path = "/replay?topic=t&from=ts&ts=1700000000000&limit=999".to_owned();
    let mut seqs = Vec::new();
    loop {
        let page = get(&world.gateway, &path).await;
        seqs.extend(page.seqs());
        match page.json()["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    assert!(seqs == all);
}

async fn a_later_ack_does_not_hide_an_earlier_event(kind: Kind) {
    let world = kind.start(&[]);
    let mut client = world.gateway.connect().await;
    // One key, so one partition: there the cursor could step over them.
    let events = (1..=3).map(|n| json!({"payload": n, "opts": {"key": "k"}}));
    publish_many(&mut client, "t", events).await;
    client.subscribe("t", "g", json!({"from": "earliest"})).await;
    let events = client.events(3).await;
    client.ack("t", "g", &events[2]["event"]["id"]).await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}))
        .await;
    let mut next = world.gateway.connect().await;
    next.subscribe("t", "g", json!({})).await;
    let again: Vec<_> = next
        .events(2)
        .await
        .iter()
        .map(|frame| frame["event"]["seq"].clone())
        .collect();
    assert_eq!(again, [1, 2]);
    assert!(next.events_so_far().await.is_empty());
}
