//! The keys there are, with their defaults: the one list that layers, unknown keys and `config print` go by.

use std::collections::BTreeMap;

use config::{Value, ValueKind};

use super::error::Problem;

/// What stands for a value that nobody gave.
pub(super) const DEFAULT_ORIGIN: &str = "default";

/// Values by their full key. A table is never a value here: its keys are.
pub(super) type Flat = BTreeMap<String, Value>;

/// How a key's value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Plain,
    /// Without the password in it.
    Url,
    Never,
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub path: &'static str,
    /// Whether its value is text, so that a variable's text is taken as it stands; else it is read as TOML.
    pub is_text: bool,
    /// As in a variable.
    pub default: Option<&'static str>,
    pub shown: Shown,
}

const fn text(path: &'static str, default: &'static str) -> Key {
    let default = Some(default);
    Key {
        path,
        is_text: true,
        default,
        shown: Shown::Plain,
    }
}

const fn optional_text(path: &'static str, shown: Shown) -> Key {
    Key {
        path,
        is_text: true,
        default: None,
        shown,
    }
}

const fn toml(path: &'static str, default: &'static str) -> Key {
    let default = Some(default);
    Key {
        path,
        is_text: false,
        default,
        shown: Shown::Plain,
    }
}

const fn optional_toml(path: &'static str) -> Key {
    Key {
        path,
        is_text: false,
        default: None,
        shown: Shown::Plain,
    }
}

/// All keys but those of topics. Those of a sub-section come after their section's own, as TOML asks for.
pub(super) const KEYS: &[Key] = &[
    text("gateway.listen", "127.0.0.1:8090"),
    toml("gateway.max_connections", "10000"),
    toml("gateway.max_topics", "100000"),
    toml("gateway.max_groups_per_topic", "1000"),
    text("gateway.auth_timeout", "10s"),
    text("gateway.write_timeout", "10s"),
    toml("gateway.write_buffer", "8388608"),
    toml("gateway.write_budget", "536870912"),
    text("gateway.shutdown_grace", "10s"),
    toml("gateway.allowed_origins", "[]"),
    toml("gateway.allowed_hosts", "[]"),
    toml("gateway.trusted_proxies", "[]"),
    toml("gateway.insecure", "false"),
    optional_text("tls.cert", Shown::Plain),
    optional_text("tls.key", Shown::Plain),
    text("replay.listen", "127.0.0.1:8083"),
    text("store.kind", "embedded"),
    text("store.path", "tidegate-data"),
    Key {
        path: "store.url",
        is_text: true,
        default: Some("mongodb://127.0.0.1:27017/?replicaSet=rs0"),
        shown: Shown::Url,
    },
    text("store.database", "tidegate"),
    text("store.migrate", "manual"),
    text("store.sweep_interval", "10s"),
    text("cluster.lease", "10s"),
    text("auth.mode", "none"),
    optional_text("auth.token", Shown::Never),
    optional_text("auth.token_file", Shown::Plain),
    optional_text("auth.jwt.secret", Shown::Never),
    optional_text("auth.jwt.secret_file", Shown::Plain),
    optional_text("auth.jwt.jwks_file", Shown::Plain),
    optional_text("auth.jwt.jwks_url", Shown::Url),
    optional_text("auth.jwt.public_key_file", Shown::Plain),
    optional_text("auth.jwt.audience", Shown::Plain),
    optional_text("auth.jwt.issuer", Shown::Plain),
    optional_text("log.level", Shown::Plain),
    optional_toml("limits.connection"),
    optional_toml("limits.topic"),
    toml("limits.push", "\"shared\""),
    toml("limits.frame_bytes", "1048576"),
    toml("limits.connection.capacity", "200"),
    toml("limits.connection.refill_per_sec", "200"),
    toml("limits.topic.capacity", "1000"),
    toml("limits.topic.refill_per_sec", "1000"),
    optional_toml("limits.push.capacity"),
    optional_toml("limits.push.refill_per_sec"),
    optional_toml("topic"),
];

/// The keys of one `[[topic]]`.
pub(super) const TOPIC_KEYS: &[Key] = &[
    optional_text("name", Shown::Plain),
    optional_toml("limit"),
    optional_toml("limit.capacity"),
    optional_toml("limit.refill_per_sec"),
    optional_text("retention.age", Shown::Plain),
    optional_toml("retention.count"),
    optional_toml("retention.bytes"),
    text("durability", "fsync"),
    text("write_concern", "majority"),
    toml("partitions", "8"),
    toml("compact", "false"),
];

/// The key with this path.
pub(super) fn find(keys: &'static [Key], path: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.path == path)
}

/// Whether there are keys below this path.
pub(super) fn is_section(keys: &[Key], path: &str) -> bool {
    keys.iter().any(|key| sub_path(key.path, path).is_some())
}

fn sub_path<'a>(path: &'a str, section: &str) -> Option<&'a str> {
    path.strip_prefix(section)?.strip_prefix('.')
}

/// Takes a table apart into its keys' values; what is no key is a problem. `prefix` is what stands before the table's
/// keys when they are named to a person.
pub(super) fn flatten(
    keys: &'static [Key],
    prefix: &str,
    table: config::Map<String, Value>,
    problems: &mut Vec<Problem>,
) -> Flat {
    let mut flat = Flat::new();
    let mut open: Vec<(String, Value)> = table.into_iter().collect();
    while let Some((path, value)) = open.pop() {
        let origin = origin_of(&value);
        match value.kind {
            ValueKind::Table(inner) if is_section(keys, &path) => {
                open.extend(inner.into_iter().map(|(name, value)| (format!("{path}.{name}"), value)));
            }
            // Said here, because a table does not keep its origin when it is merged.
            ValueKind::Table(_) if find(keys, &path).is_some() => problems.push(Problem {
                key: format!("{prefix}{path}"),
                origin,
                message: "expected a value, got a table".to_owned(),
            }),
            _ if find(keys, &path).is_some() => {
                flat.insert(path, value);
            }
            _ if is_section(keys, &path) => problems.push(Problem {
                key: format!("{prefix}{path}"),
                origin,
                message: "expected a table".to_owned(),
            }),
            _ => problems.push(Problem {
                message: format!("no such key; the nearest is {prefix}{}", nearest(keys, &path)),
                key: format!("{prefix}{path}"),
                origin,
            }),
        }
    }
    flat
}

/// Where a value came from.
pub(super) fn origin_of(value: &Value) -> String {
    value.origin().unwrap_or(DEFAULT_ORIGIN).to_owned()
}

/// The known key, or section, that a wrong one is most like.
pub(super) fn nearest<'a>(keys: &'a [Key], path: &str) -> &'a str {
    let sections = keys
        .iter()
        .filter_map(|key| key.path.rsplit_once('.').map(|(section, _)| section));
    let known = keys.iter().map(|key| key.path).chain(sections);
    known
        .min_by_key(|known| strsim::damerau_levenshtein(known, path))
        .unwrap_or_default()
}
