//! Layers: which source wins, and how the text of variables and `--set` is understood.

use super::*;
use crate::config::{Bucket, Limit, PushLimit, StoreKind};

#[test]
fn without_anything_there_are_the_defaults() {
    let config = load(&set(&[])).unwrap().config;
    assert_eq!(config.gateway.listen, "127.0.0.1:8090".parse().unwrap());
    assert_eq!(config.replay.listen, "127.0.0.1:8083".parse().ok());
    assert_eq!(config.store.kind, StoreKind::Embedded);
    assert_eq!(config.store.path.to_str(), Some("tidegate-data"));
    assert_eq!(config.gateway.write_budget, 536_870_912);
    assert_eq!(config.limits.connection, bucket(200, 200.0));
    assert_eq!(config.limits.topic, bucket(1_000, 1_000.0));
    assert_eq!(config.limits.push, PushLimit::Shared);
    assert_eq!(config.limits.frame_bytes, 1_048_576);
    assert_eq!(config.tls, None);
    assert!(config.topics.is_empty());
}

#[test]
fn the_later_source_wins() {
    let (_folder, mut sources) =
        folder("[store]\nkind = \"mongodb\"\ndatabase = \"file\"\n[gateway]\ninsecure = false");
    let kind = |sources: &Sources| load(sources).unwrap().config.store.kind;
    assert_eq!(kind(&sources), StoreKind::Mongodb);
    sources.env = env(&[("TIDEGATE_STORE__KIND", "embedded")]).env;
    assert_eq!(kind(&sources), StoreKind::Embedded);
    sources.set = vec!["store.kind=mongodb".into(), "store.kind=memory".into()];
    assert_eq!(kind(&sources), StoreKind::Memory);
    sources.flags = vec![
        ("store.kind".into(), "embedded".into()),
        ("gateway.insecure".into(), "true".into()),
    ];
    assert_eq!(kind(&sources), StoreKind::Embedded);
    let config = load(&sources).unwrap().config;
    assert_eq!(config.store.database, "file", "what no later source names stays");
    assert!(config.gateway.insecure);
}

#[test]
fn a_named_file_replaces_the_folders_and_must_be_there() {
    let (folder, mut sources) = folder("[store]\nkind = \"memory\"");
    let other = folder.path().join("other.toml");
    sources.file = Some(other.clone());
    let problems = problems_of(&sources);
    assert!(
        problems.contains("other.toml") && problems.contains("cannot be read"),
        "{problems}"
    );
    std::fs::write(other, "[store]\ndatabase = \"other\"").unwrap();
    let config = load(&sources).unwrap().config;
    assert_eq!(
        (config.store.kind, config.store.database.as_str()),
        (StoreKind::Embedded, "other")
    );
}

#[test]
fn limits_come_as_tables_as_keys_and_as_off() {
    let connection = |sources: &Sources| load(sources).unwrap().config.limits.connection;
    assert_eq!(
        connection(&set(&["limits.connection={capacity=5,refill_per_sec=1}"])),
        bucket(5, 1.0)
    );
    assert_eq!(connection(&set(&["limits.connection.capacity=5"])), bucket(5, 200.0));
    assert_eq!(connection(&set(&["limits.connection=off"])), Limit::Off);
    assert_eq!(
        connection(&set(&[
            "limits.connection=off",
            "limits.connection={capacity=5,refill_per_sec=0.25}"
        ])),
        bucket(5, 0.25)
    );
    let variables = [
        ("TIDEGATE_LIMITS__CONNECTION__CAPACITY", "7"),
        ("TIDEGATE_LIMITS__CONNECTION", "{refill_per_sec=2}"),
    ];
    assert_eq!(connection(&env(&variables)), bucket(7, 2.0));
    let push = |entry: &str| load(&set(&[entry])).unwrap().config.limits.push;
    assert_eq!(push("limits.push=off"), PushLimit::Own(Limit::Off));
    assert_eq!(push("limits.push=shared"), PushLimit::Shared);
    assert_eq!(
        push("limits.push={capacity=1,refill_per_sec=2}"),
        PushLimit::Own(bucket(1, 2.0))
    );
}

#[test]
fn text_keys_take_a_variables_text_as_it_stands() {
    let sources = env(&[("TIDEGATE_AUTH__MODE", "token"), ("TIDEGATE_AUTH__TOKEN", "12345")]);
    let crate::config::Auth::Token { token } = load(&sources).unwrap().config.auth else {
        panic!("another mode");
    };
    assert_eq!(token.reveal(), "12345");
}

#[test]
fn topics_and_lists_come_from_variables_too() {
    let sources = env(&[
        ("TIDEGATE_TOPIC", "[{name = \"a.*\", partitions = 3}]"),
        ("TIDEGATE_GATEWAY__ALLOWED_ORIGINS", "[\"HTTPS://App.example\"]"),
    ]);
    let config = load(&sources).unwrap().config;
    assert_eq!(config.topics[0].settings.partitions, 3);
    assert_eq!(config.gateway.allowed_origins, ["https://app.example"]);
}

#[test]
fn variables_that_are_no_keys_are_left_alone() {
    let sources = env(&[
        ("TIDEGATE_TOKEN", "t"),
        ("TIDEGATE_URL", "ws://h/ws"),
        ("TIDEGATE_LOG", "debug"),
        ("TIDEGATE_PORT_8090_TCP_ADDR", "10.0.0.1"),
        ("PATH", "/bin"),
    ]);
    assert!(load(&sources).is_ok());
}

fn bucket(capacity: u32, refill_per_sec: f64) -> Limit {
    Limit::Bucket(Bucket {
        capacity,
        refill_per_sec,
    })
}
