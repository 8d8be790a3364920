//! `/metrics`: the figures move by what was done, Prometheus's own tools find nothing wrong with them, and the dashboard's and
//! the alarms' queries get an answer from a real Prometheus.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{call, expect};
use crate::support::{Client, DEADLINE, TestGateway};

async fn scrape(address: SocketAddr) -> String {
    let (status, text) = call(address, "GET /metrics", "").await;
    assert_eq!(status, 200);
    text
}

/// The value of one series; 0 where there is none.
fn value(figures: &str, series: &str) -> f64 {
    let name = format!("tidegate_{series} ");
    let line = figures.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0.0, |number| number.trim().parse().unwrap())
}

#[actix::test]
async fn figures_move_by_what_was_done() {
    let gateway = TestGateway::start(&["topic=[{name=\"slow\",limit={capacity=1,refill_per_sec=0.001}}]"]);
    let address = gateway.address;
    let mut client = gateway.connect().await;
    client
        .subscribe("t", "g", json!({"maxAttempts": 2, "backoffMs": 0}))
        .await;
    client.subscribe("t", "away", json!({})).await;
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "away"}))
        .await;
    for n in 0..5 {
        client.publish("t", json!(n)).await;
    }
    let frames = client.events(5).await;
    let id = |at: usize| frames[at]["event"]["id"].clone();
    for at in 0..2 {
        client.ack("t", "g", &id(at)).await;
    }
    for _ in 0..2 {
        client
            .ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": id(2)}))
            .await;
        if value(&scrape(address).await, "events_nacked_total{topic=\"t\",group=\"g\"}") < 2.0 {
            assert_eq!(client.event().await["ctx"]["attempt"], 2);
        }
    }
    client.publish("slow", json!(1)).await;
    client
        .err(json!({"op": "PUBLISH", "topic": "slow", "payload": 1}), "rate_limited")
        .await;
    let mut figures = String::new();
    let reached = async {
        loop {
            figures = scrape(address).await;
            if value(&figures, "events_dead_lettered_total{topic=\"t\",group=\"g\"}") == 1.0 {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, reached)
        .await
        .expect("a dead letter in time");
    for (series, wanted) in [
        ("events_published_total{topic=\"t\"}", 5.0),
        ("events_published_total{topic=\"dlq.t\"}", 1.0),
        ("events_delivered_total{topic=\"t\",group=\"g\"}", 6.0),
        ("events_acked_total{topic=\"t\",group=\"g\"}", 2.0),
        ("events_nacked_total{topic=\"t\",group=\"g\"}", 2.0),
        ("events_redelivered_total{topic=\"t\",group=\"g\"}", 1.0),
        ("events_inflight{topic=\"t\",group=\"g\"}", 2.0),
        ("group_lag_events{topic=\"t\",group=\"g\"}", 2.0),
        ("group_lag_events{topic=\"t\",group=\"away\"}", 5.0),
        ("rate_limited_total{scope=\"topic\"}", 1.0),
        ("ws_connections", 1.0),
        ("publish_latency_seconds_count", 6.0),
        ("delivery_latency_seconds_count", 2.0),
    ] {
        assert_eq!(value(&figures, series), wanted, "{series} in\n{figures}");
    }
    assert!(value(&figures, "group_lag_seconds{topic=\"t\",group=\"away\"}") > 0.0);
    assert!(value(&figures, "store_commit_seconds_count") > 5.0);
    assert!(value(&figures, "store_batch_events_sum") >= 6.0);
    for actor in ["store", "topic", "subscription"] {
        assert!(
            figures.contains(&format!("tidegate_mailbox_depth{{actor=\"{actor}\"}} ")),
            "{actor}"
        );
    }
    // A group that nobody has looked at since the start has its lag too, and loses it with its end.
    expect(address, "DELETE /groups/t/away", "", 200).await;
    assert!(!scrape(address).await.contains("group=\"away\""));
}

/// A program of the package prometheus: unpacked by tests/run, or installed.
fn tool(name: &str) -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/prometheus/usr/bin")
        .join(name);
    if unpacked.exists() {
        return unpacked;
    }
    let found = Command::new(name)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(
        found.is_ok(),
        "{name} is missing: tests/run unpacks it, or install the Debian package prometheus"
    );
    name.into()
}

#[actix::test]
async fn promtool_finds_nothing_wrong() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    busy(&mut client).await;
    let figures = scrape(gateway.address).await;
    let mut child = Command::new(tool("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), figures.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && said.trim().is_empty(),
        "promtool says\n{said}"
    );
    let alarms = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/prometheus-alerts.yml");
    let output = Command::new(tool("promtool"))
        .args(["check", "rules"])
        .arg(alarms)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A little of everything.
async fn busy(client: &mut Client) {
    let known = client
        .call(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"maxAttempts": 2, "backoffMs": 0}}))
        .await;
    assert!(known["op"] == "OK" || known["code"] == "already_subscribed", "{known}");
    for n in 0..5 {
        client.publish("t", json!(n)).await;
    }
    for frame in client.events(4).await {
        client.ack("t", "g", &frame["event"]["id"]).await;
    }
    let last = client.event().await;
    let nack = json!({"op": "NACK", "topic": "t", "group": "g", "id": last["event"]["id"]});
    client.ok(nack.clone()).await;
    client.event().await;
    client.ok(nack).await;
}

/// Ends its process, whatever happens to the test.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// One that scrapes the gateway, four times a second.
    fn start(folder: &Path, gateway: SocketAddr) -> Prometheus {
        let address = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}\nscrape_configs:\n  - job_name: tidegate\n    \
             static_configs: [{{targets: [\"{gateway}\"]}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new(tool("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Prometheus { child, address }
    }

    /// The answer of its API; Null while it is not there.
    async fn ask(&self, path: &str) -> Value {
        if tokio::net::TcpStream::connect(self.address).await.is_err() {
            return Value::Null;
        }
        let (_, text) = call(self.address, &format!("GET {path}"), "").await;
        // Its answers may be chunked: the JSON is in one line of them.
        let json = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(json).unwrap_or(Value::Null)
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// All queries of the dashboard and the alarms, with what the dashboard would put in the place of its variables.
fn queries() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("grafana-dashboard.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut queries: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    assert!(queries.len() > 15, "{queries:?}");
    let alarms = std::fs::read_to_string(root.join("prometheus-alerts.yml")).unwrap();
    let alarms = alarms.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    // An alarm that rings is one with an answer: its query without the threshold has one.
    queries.extend(alarms.map(|expr| {
        expr.replace(" > 60", " >= 0")
            .replace(" > 0", " >= 0")
            .replace(" > 1", " >= 0")
    }));
    queries
        .into_iter()
        .map(|query| {
            query
                .replace("$__rate_interval", "10s")
                .replace("[5m]", "[10s]")
                .replace("$topic", ".*")
                .replace("$group", ".*")
        })
        .collect()
}

#[actix::test]
async fn every_query_of_dashboard_and_alarms_has_an_answer_from_prometheus() {
    let gateway = TestGateway::start(&[]);
    let mut client = gateway.connect().await;
    busy(&mut client).await;
    let figures = scrape(gateway.address).await;
    let names: BTreeSet<&str> = figures
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    // What has not happened yet is not told: then the code must have it.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = std::fs::read_to_string(root.join("src/telemetry/metrics/mod.rs")).unwrap();
    let is_known = |name: &str| {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let registered = name
            .strip_prefix("tidegate_")
            .and_then(|name| name.strip_suffix("_total"));
        names.contains(name)
            || base.is_some_and(|base| names.contains(base))
            || registered.is_some_and(|name| code.contains(&format!("register(r, \"{name}\"")))
    };
    for query in queries() {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("tidegate_")) {
            assert!(is_known(name), "{query} asks for {name}, which is not told");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(folder.path(), gateway.address);
    let mut open: Vec<String> = queries();
    let mut last = Value::Null;
    let answered = async {
        while let Some(query) = open.last() {
            busy(&mut client).await;
            let found = prometheus.ask(&format!("/api/v1/query?query={}", escaped(query))).await;
            let results = found["data"]["result"].as_array();
            let is_number = |result: &Value| result["value"][1].as_str().is_some_and(|text| text != "NaN");
            if found["status"] == "success" && results.is_some_and(|results| results.iter().any(is_number)) {
                open.pop();
            } else {
                assert_ne!(found["status"], "error", "{query}: {found}");
                last = found;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        for (label, metric) in [
            ("topic", "tidegate_events_published_total"),
            ("group", "tidegate_group_lag_events"),
        ] {
            let found = prometheus
                .ask(&format!("/api/v1/label/{label}/values?match[]={metric}"))
                .await;
            assert!(
                found["data"].as_array().is_some_and(|values| !values.is_empty()),
                "{label}: {found}"
            );
        }
    };
    let in_time = tokio::time::timeout(3 * DEADLINE, answered).await;
    assert!(in_time.is_ok(), "no answer to {:?}: {last}", open.last());
}
