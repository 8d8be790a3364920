//! `tidegate bench` against a gateway of its own.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::running::{Running, stdout};

const SHORT: [&str; 5] = ["bench", "--duration", "500ms", "--warm-up", "100ms"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn closed_and_open_loops_arrive_whole_and_are_reported_and_drawn() {
    let folder = tempdir().unwrap();
    let off = ["limits.connection=off", "limits.topic=off", "store.kind=memory"];
    let gateway = Running::start(folder.path(), &off);
    for kind in [&["--window", "16"][..], &["--rate", "300"]] {
        let load = [
            "--publishers",
            "2",
            "--groups",
            "2",
            "--consumers",
            "2",
            "--payload",
            "500",
        ];
        let output = ["--json", "--plot", "run.svg"];
        let args = with(&[kind, &load, &output].concat());
        let report: Value = serde_json::from_str(&stdout(&gateway.client(folder.path(), &args))).unwrap();
        let checks = &report["checks"];
        for check in ["missing", "doubled", "out_of_order", "unsure", "acks_refused"] {
            assert_eq!(checks[check], 0, "{report}");
        }
        assert!(checks["confirmed"].as_u64() > Some(10), "{report}");
        assert!(
            report["delivered"]["latency_ms"]["p99"].as_f64() > Some(0.0),
            "{report}"
        );
        let picture = std::fs::read_to_string(folder.path().join("run.svg")).unwrap();
        assert!(
            picture.starts_with("<svg") && picture.contains("until delivered"),
            "{picture}"
        );
    }
    let people = stdout(&gateway.client(folder.path(), &with(&["--groups", "0"])));
    assert!(people.contains("0 missing, 0 doubled, 0 out of order"), "{people}");
    assert!(
        people.contains("confirmed ") && !people.contains("delivered "),
        "{people}"
    );
}

#[test]
fn where_the_gateways_limits_are_measured_it_says_so() {
    let folder = tempdir().unwrap();
    let gateway = Running::start(folder.path(), &["store.kind=memory"]);
    let report: Value = serde_json::from_str(&stdout(&gateway.client(folder.path(), &with(&["--json"])))).unwrap();
    assert_eq!(report["refused"][0]["code"], json!("rate_limited"), "{report}");
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.contains("limits.connection=off"), "{note}");
}
