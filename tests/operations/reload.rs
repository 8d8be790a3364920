//! SIGHUP: what can change does, and the log says what changed and what needs a restart.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::get;
use crate::running::tidegate;
use crate::support::Client;

/// A gateway whose log can be read.
struct Gateway {
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
}

impl Gateway {
    fn start(folder: &std::path::Path) -> Gateway {
        let mut command = tidegate(folder);
        command
            .args(["--log-format", "json", "serve"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Gateway {
            child,
            log,
            seen: Vec::new(),
        }
    }

    /// The first line of the log from here on with all these words in it.
    fn says(&mut self, words: &[&str]) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                panic!("no line with {words:?} in {:#?}", self.seen);
            };
            if words.iter().all(|word| line.contains(word)) {
                return serde_json::from_str(&line).unwrap();
            }
            self.seen.push(line);
        }
    }

    fn hang_up(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[actix::test]
async fn limits_retention_and_the_log_level_change_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("tidegate.toml"), text).unwrap();
    let config = |changing: &str, sweep: &str| {
        format!(
            "gateway.listen = \"127.0.0.1:0\"\nreplay.listen = \"off\"\nstore.kind = \"memory\"\n\
             store.sweep_interval = \"{sweep}\"\n{changing}"
        )
    };
    write(&config(
        "limits.connection = { capacity = 3, refill_per_sec = 0.001 }\nlimits.topic = \"off\"",
        "50ms",
    ));
    let mut gateway = Gateway::start(folder.path());
    let line = gateway.says(&["listening on"]);
    let address = line["message"]
        .as_str()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/ws"))
        .await
        .unwrap();
    let mut client = Client::over(socket);
    for n in 0..3 {
        client.publish("t", json!(n)).await;
    }
    let publish = json!({"op": "PUBLISH", "topic": "t", "payload": 4});
    client.err(publish.clone(), "rate_limited").await;

    let changing = "limits.connection = \"off\"\nlimits.topic = { capacity = 10, refill_per_sec = 0.001 }\n\
                    log.level = \"debug\"\n[[topic]]\nname = \"t\"\nretention = { count = 2 }\npartitions = 8";
    write(&config(changing, "60ms"));
    gateway.hang_up();
    let told = gateway.says(&["\"key\":\"limits.connection\"", "changed"]);
    assert_eq!((&told["to"], &told["level"]), (&json!("\"off\""), &json!("INFO")));
    gateway.says(&["log.level", "changed"]);
    let told = gateway.says(&["store.sweep_interval", "needs a restart"]);
    assert_eq!(
        (&told["from"], &told["to"], &told["level"]),
        (&json!("\"50ms\""), &json!("\"60ms\""), &json!("WARN"))
    );
    gateway.says(&["retention.count", "changed"]);
    // The connection that is open and the topic that runs follow.
    for _ in 0..10 {
        client.ok(publish.clone()).await;
    }
    let refused = client.err(publish.clone(), "rate_limited").await;
    assert_eq!(refused["msg"], "topic publish rate exceeded");
    crate::http::becomes(address, "/topics", |found| found["topics"][0]["events"] == 2).await;
    assert_eq!(
        get(address, "/topics").await["topics"][0]["retention"],
        json!({"count": 2})
    );
    gateway.says(&["DEBUG", "retention removed events"]);

    write("limits.conection = 1");
    gateway.hang_up();
    gateway.says(&["ERROR", "what was in force stays", "limits.conection"]);
    client.err(publish, "rate_limited").await;
}
