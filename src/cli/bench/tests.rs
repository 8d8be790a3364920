//! The benchmark against a gateway that makes mistakes: it must see them.

use std::collections::VecDeque;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use super::super::scripted_gateway::Gateway;
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: BenchArgs,
}

/// What the gateway does wrong with its tenth event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Lost,
    Doubled,
    /// It comes after the one that follows it.
    Late,
    AnsweredLate,
    NotPublished,
}

/// Serves one publisher and one consumer.
async fn gateway(listener: TcpListener, fault: Fault) {
    let mut publisher = Gateway::accept(&listener).await;
    let mut consumer = Gateway::accept(&listener).await;
    let subscribe = consumer.expect("SUBSCRIBE").await;
    consumer.ok(&subscribe, json!({})).await;
    let mut held: VecDeque<(bool, Value)> = VecDeque::new();
    let mut seq = 0;
    loop {
        tokio::select! {
            Some(publish) = publisher.next() => {
                seq += 1;
                let is_bad = seq == 10;
                if is_bad && fault == Fault::NotPublished {
                    publisher.err(&publish, "store_unavailable", "no").await;
                    continue;
                }
                let ok = json!({"op": "OK", "corr": publish["corr"], "id": seq.to_string(), "seq": seq});
                let event = json!({"id": seq.to_string(), "seq": seq, "partition": 0, "payload": publish["payload"]});
                let event = json!({"op": "EVENT", "event": event, "ctx": {"attempt": 1}});
                if is_bad && fault == Fault::AnsweredLate {
                    held.push_back((true, ok));
                } else {
                    publisher.send(ok).await;
                }
                if is_bad && fault == Fault::Late {
                    held.push_back((false, event));
                    continue;
                }
                if is_bad && fault == Fault::Doubled {
                    consumer.send(event.clone()).await;
                }
                if !(is_bad && fault == Fault::Lost) {
                    consumer.send(event).await;
                }
                while !is_bad && let Some((to_publisher, frame)) = held.pop_front() {
                    if to_publisher { publisher.send(frame).await } else { consumer.send(frame).await }
                }
            }
            Some(request) = consumer.next() => {
                if request["op"] == "ACK" {
                    consumer.ok(&request, json!({})).await;
                }
            }
            else => return,
        }
    }
}

/// A short run against it: the report for programs, and whether it is sound.
async fn bench(fault: Fault) -> (Value, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    tokio::spawn(gateway(listener, fault));
    let words = [
        "bench",
        "--window",
        "8",
        "--duration",
        "100ms",
        "--warm-up",
        "0s",
        "--url",
        &url,
    ];
    let args = Line::try_parse_from(words)
        .map_err(|error| error.to_string())
        .unwrap()
        .args;
    let mut plan = Plan::new(&args).unwrap();
    plan.stall = Duration::from_millis(200);
    let (run, _) = LocalSet::new().run_until(drive(&args, plan)).await.unwrap();
    // Other tests of this process take processor time too: what is noted of the benchmark's own share is not looked at.
    let report = report::Report::new(&run, 0.5);
    (serde_json::from_str(&report.to_json()).unwrap(), report.is_sound())
}

#[tokio::test]
async fn what_the_gateway_does_wrong_is_counted() {
    for (fault, counted) in [
        (Fault::Lost, "missing"),
        (Fault::Doubled, "doubled"),
        (Fault::Late, "out_of_order"),
        (Fault::AnsweredLate, "out_of_order"),
        (Fault::NotPublished, "unsure"),
    ] {
        let (report, sound) = bench(fault).await;
        assert!(!sound, "{fault:?}: {report}");
        assert!(report["checks"][counted].as_u64() >= Some(1), "{fault:?}: {report}");
    }
}

#[tokio::test]
async fn a_gateway_without_faults_is_sound() {
    let (report, sound) = bench(Fault::None).await;
    assert!(sound, "{report}");
    assert!(report["checks"]["confirmed"].as_u64() > Some(10), "{report}");
    assert_eq!(report["notes"], json!([]), "{report}");
}

#[test]
fn a_payload_has_the_size_that_was_asked_for() {
    for size in [100, 256, 5_000] {
        let words = ["bench".to_owned(), "--payload".to_owned(), size.to_string()];
        let args = Line::try_parse_from(words)
            .map_err(|error| error.to_string())
            .unwrap()
            .args;
        let plan = Plan::new(&args).unwrap();
        let (run, p, n, t) = (plan.name.as_str(), 999, u64::from(u32::MAX), 3_600_000_000_000);
        let stamp = wire::Stamp { run, p, n, t };
        let frame: Value = serde_json::from_str(&wire::publish_frame(&plan, 1, &stamp)).unwrap();
        assert_eq!(frame["payload"].to_string().len(), size);
        assert_eq!(frame["payload"]["n"], n);
    }
}
