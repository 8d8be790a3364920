//! A subscription against a gateway that follows a script.

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::cli::scripted_gateway::Gateway;

#[test]
fn a_start_is_one_of_four() {
    assert_eq!(parse_from("earliest"), Ok(StartFrom::Earliest));
    assert_eq!(parse_from("latest"), Ok(StartFrom::Latest));
    assert_eq!(parse_from("ts:17"), Ok(StartFrom::Ts(17)));
    assert_eq!(parse_from("after:a:b"), Ok(StartFrom::AfterId("a:b".into())));
    for wrong in ["", "now", "ts:", "ts:-1", "ts:x", "after:", "after", "earliest:1"] {
        assert!(parse_from(wrong).is_err(), "{wrong}");
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: SubscribeArgs,
}

async fn subscribe(url: &str, words: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let words = ["subscribe", "t", "--url", url].into_iter().chain(words.split(' '));
    let line = Line::try_parse_from(words).unwrap();
    run(&line.args, out).await
}

/// Takes the subscription and hands out these events.
async fn deliver(gateway: &mut Gateway, ids: &[&str]) -> Value {
    let subscribe = gateway.expect("SUBSCRIBE").await;
    gateway.ok(&subscribe, json!({})).await;
    for id in ids {
        gateway.event(id).await;
    }
    subscribe
}

/// Takes acks until these events are acked.
async fn take_acks(gateway: &mut Gateway, wanted: &[&str]) {
    let mut acked = Vec::new();
    while acked.len() < wanted.len() {
        let ack = gateway.expect("ACK").await;
        acked.extend(
            ack["ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_str().unwrap().to_owned()),
        );
        gateway.ok(&ack, json!({})).await;
    }
    assert_eq!(acked, wanted);
}

async fn leave(mut gateway: Gateway) {
    let unsubscribe = gateway.expect("UNSUBSCRIBE").await;
    gateway.ok(&unsubscribe, json!({})).await;
    assert_eq!(gateway.next().await, None);
}

#[tokio::test]
async fn it_acks_what_it_printed_and_leaves_after_the_count() {
    let (url, script) = Gateway::start(|mut gateway| async move {
        let subscribe = deliver(&mut gateway, &["a", "b", "c"]).await;
        assert_eq!(subscribe["opts"], json!({"from": "earliest", "maxInFlight": 2}));
        take_acks(&mut gateway, &["a", "b"]).await;
        leave(gateway).await;
    })
    .await;
    let mut out = Vec::new();
    subscribe(&url, "--group g --from earliest --count 2", &mut out)
        .await
        .unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    script.await.unwrap();
}

#[tokio::test]
async fn an_ack_that_must_wait_is_sent_again() {
    let (url, script) = Gateway::start(|mut gateway| async move {
        deliver(&mut gateway, &["a"]).await;
        let ack = gateway.expect("ACK").await;
        gateway.err(&ack, "overloaded", "").await;
        take_acks(&mut gateway, &["a"]).await;
        leave(gateway).await;
    })
    .await;
    subscribe(&url, "--group g --count 1", &mut Vec::new()).await.unwrap();
    script.await.unwrap();
}

#[tokio::test]
async fn without_a_group_or_with_no_ack_nothing_is_acked() {
    for words in ["--count 1", "--group g --no-ack --count 1"] {
        let (url, script) = Gateway::start(|mut gateway| async move {
            deliver(&mut gateway, &["a"]).await;
            leave(gateway).await;
        })
        .await;
        subscribe(&url, words, &mut Vec::new()).await.unwrap();
        script.await.unwrap();
    }
}

/// An output that nobody reads any more.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_output_ends_it_quietly_and_gives_the_events_back() {
    let (url, script) = Gateway::start(|mut gateway| async move {
        deliver(&mut gateway, &["a"]).await;
        leave(gateway).await;
    })
    .await;
    let failure = subscribe(&url, "--group g", &mut Closed).await.unwrap_err();
    assert!(matches!(failure, Failure::OutputClosed) && failure.message().is_none());
    script.await.unwrap();
}

#[tokio::test]
async fn the_gateways_reason_to_close_is_shown() {
    let (url, _script) = Gateway::start(|mut gateway| async move {
        deliver(&mut gateway, &[]).await;
        gateway.close(4401, "token expired").await;
    })
    .await;
    let message = subscribe(&url, "--group g", &mut Vec::new())
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("4401 token expired"), "{message}");
}

#[tokio::test]
async fn a_refused_subscription_is_an_error() {
    let (url, _script) = Gateway::start(|mut gateway| async move {
        let subscribe = gateway.expect("SUBSCRIBE").await;
        gateway.err(&subscribe, "unknown_id", "afterId").await;
        while gateway.next().await.is_some() {}
    })
    .await;
    let failure = subscribe(&url, "--from after:x", &mut Vec::new()).await.unwrap_err();
    assert_eq!(failure.to_string(), "unknown_id: afterId");
}
