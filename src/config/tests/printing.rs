//! `config print`: everything, from where, without secrets, and loadable again.

use super::*;

#[test]
fn what_is_printed_loads_to_the_same() {
    for toml in [
        "",
        EVERYTHING,
        "[limits]\nconnection = \"off\"\n[gateway]\nallowed_hosts = [\"a\", \"b\"]",
    ] {
        let first = loaded(toml);
        let again = loaded(&first.origins.to_toml());
        let visible = |text: String| text.replace("hunter2", "***");
        assert_eq!(
            visible(format!("{:?}", again.config)),
            visible(format!("{:?}", first.config))
        );
        assert_eq!(loaded(&again.origins.to_toml()).config, again.config);
    }
}

#[test]
fn every_value_says_where_it_came_from() {
    let (folder, mut sources) = folder("[store]\ndatabase = \"d\"\n[[topic]]\nname = \"a\"");
    sources.env = env(&[("TIDEGATE_STORE__KIND", "memory")]).env;
    sources.set = vec!["gateway.max_topics=5".into()];
    sources.flags = vec![("gateway.insecure".into(), "true".into())];
    let origins = load(&sources).unwrap().origins;
    let printed = origins.to_toml();
    let file = folder.path().join("tidegate.toml").display().to_string();
    for (setting, origin) in [
        ("database = \"d\"", file.as_str()),
        ("name = \"a\"", &file),
        ("partitions = 8", "default"),
        ("kind = \"memory\"", "TIDEGATE_STORE__KIND"),
        ("max_topics = 5", "--set"),
        ("insecure = true", "flag"),
        ("listen = \"127.0.0.1:8090\"", "default"),
    ] {
        let line = printed
            .lines()
            .find(|line| line.starts_with(setting))
            .unwrap_or_else(|| panic!("{setting}"));
        assert!(line.ends_with(&format!("# {origin}")), "{line}");
    }
    let json = origins.to_json();
    assert_eq!(
        json["store.kind"],
        serde_json::json!({"value": "memory", "from": "TIDEGATE_STORE__KIND"})
    );
    assert_eq!(json["topic"][0]["name"]["from"], file);
}

#[test]
fn secrets_are_never_printed() {
    let loaded = loaded(EVERYTHING);
    let texts = [
        loaded.origins.to_toml(),
        loaded.origins.to_json().to_string(),
        format!("{loaded:?} {:#?}", loaded.config),
    ];
    for text in texts {
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("***"));
    }
}

#[test]
fn a_files_strange_name_keeps_the_listing_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a\nb = 1.toml");
    std::fs::write(&file, "[store]\nkind = \"memory\"").unwrap();
    let mut sources = set(&[]);
    sources.file = Some(file);
    let printed = load(&sources).unwrap().origins.to_toml();
    assert!(toml::from_str::<toml::Table>(&printed).is_ok(), "{printed}");
}

#[test]
fn what_changed_is_told_with_what_needs_a_restart() {
    let before = loaded(
        r#"
        limits.connection = { capacity = 5, refill_per_sec = 1 }
        auth = { mode = "token", token = "one" }
        [[topic]]
        name = "a"
        retention = { count = 5 }
        durability = "os"
        "#,
    );
    let after = loaded(
        r#"
        limits.connection = { capacity = 6, refill_per_sec = 1 }
        auth = { mode = "token", token = "two" }
        store.sweep_interval = "20s"
        log.level = "debug"
        [[topic]]
        name = "b"
        limit = "off"
        [[topic]]
        name = "a"
        retention = { count = 7 }
        durability = "fsync"
        "#,
    );
    let changes = before.origins.changes_to(&after.origins);
    let told: Vec<String> = changes
        .iter()
        .map(|change| {
            let text = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
            let how = if change.needs_restart { "restart" } else { "now" };
            format!("{} {} {} {how}", change.key, text(&change.from), text(&change.to))
        })
        .collect();
    assert_eq!(
        told,
        [
            "limits.connection.capacity 5 6 now",
            "log.level - \"debug\" now",
            "store.sweep_interval \"10s\" \"20s\" restart",
            "topic[\"a\"].durability \"os\" \"fsync\" restart",
            "topic[\"a\"].retention.count 5 7 now",
            "topic[\"b\"].limit - \"off\" now",
            "topic[\"b\"].name - \"b\" now",
        ],
        "and no secret"
    );
    assert!(after.origins.changes_to(&after.origins).is_empty());
}
