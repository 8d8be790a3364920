//! Configurations as operators write them, right and wrong.

mod loading;
mod meaning;
mod printing;
mod problems;

use super::{Loaded, Sources, load};

/// A folder with this `tidegate.toml` in it. The folder goes when the first part is dropped.
fn folder(toml: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tidegate.toml"), toml).unwrap();
    let directory = folder.path().to_owned();
    (
        folder,
        Sources {
            directory,
            ..Sources::default()
        },
    )
}

/// What a file alone means.
fn loaded(toml: &str) -> Loaded {
    let (_folder, sources) = folder(toml);
    load(&sources).unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with a file alone, a line each.
fn refused(toml: &str) -> String {
    let (_folder, sources) = folder(toml);
    problems_of(&sources)
}

fn problems_of(sources: &Sources) -> String {
    match load(sources) {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    }
}

fn set(entries: &[&str]) -> Sources {
    Sources {
        set: entries.iter().map(|&entry| entry.to_owned()).collect(),
        directory: "no-such-folder".into(),
        ..Sources::default()
    }
}

fn env(variables: &[(&str, &str)]) -> Sources {
    Sources {
        env: variables
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
        directory: "no-such-folder".into(),
        ..Sources::default()
    }
}

/// The contract's own example, every key in it.
const EVERYTHING: &str = r#"
[gateway]
listen = "127.0.0.1:8090"
max_connections = 10000
max_topics = 100000
max_groups_per_topic = 1000
auth_timeout = "10s"
write_timeout = "10s"
write_buffer = 8388608
write_budget = 536870912
shutdown_grace = "10s"
allowed_origins = ["https://app.example"]
allowed_hosts = ["gateway.example"]
trusted_proxies = ["10.0.0.0/8"]
insecure = false

[tls]
cert = "cert.pem"
key = "key.pem"

[replay]
listen = "off"

[store]
kind = "mongodb"
path = "tidegate-data"
url = "mongodb://user:hunter2@127.0.0.1:27017/?replicaSet=rs0"
database = "tidegate"
migrate = "auto"
sweep_interval = "10s"

[cluster]
lease = "10s"

[auth]
mode = "jwt"
token = "hunter2"
[auth.jwt]
secret = "hunter2"
audience = "tidegate"
issuer = "https://issuer.example"

[limits]
connection = { capacity = 200, refill_per_sec = 0.5 }
topic = "off"
push = { capacity = 3, refill_per_sec = 4 }
frame_bytes = 1048576

[[topic]]
name = "heartbeat.*"
limit = { capacity = 5000, refill_per_sec = 5000 }
retention = { age = "3d", count = 10, bytes = 20 }
durability = "os"
write_concern = "1"
partitions = 16
compact = true

[[topic]]
name = "**"
limit = "off"
"#;
