//! From values to what they mean: the only place that knows which values are allowed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::ValueKind;

use super::error::Problem;
use super::layers::defaults;
use super::model::{
    Auth, Cluster, Config, Gateway, JwtConfig, JwtKey, Limit, Limits, Log, Migrate, PushLimit, Replay, StoreConfig,
    StoreKind, Tls, TopicRule,
};
use super::network::{is_host, is_origin, parse_listen};
use super::reader::Reader;
use super::schema::{Flat, KEYS, TOPIC_KEYS, flatten};
use super::secret::Secret;
use crate::domain::{Durability, Retention, TopicPattern, TopicSettings, WriteConcern};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// More than any disk holds, and exact in every format that has only floating-point numbers.
const RETAINED_MAX: u64 = 1 << 53;
/// The longest name MongoDB takes for a database.
const DATABASE_NAME_MAX: usize = 63;

/// Everything the values mean, and the values of each topic's rule. Worth nothing where there are problems.
pub(super) fn validate(values: &Flat, problems: &mut Vec<Problem>) -> (Config, Vec<Flat>) {
    let rules = topic_values(values, problems);
    let topics = rules
        .iter()
        .enumerate()
        .filter_map(|(at, rule)| topic_rule(at, rule, problems))
        .collect();
    let mut reader = Reader {
        keys: KEYS,
        prefix: String::new(),
        values,
        problems,
    };
    let config = Config {
        gateway: gateway(&mut reader),
        tls: tls(&mut reader),
        replay: replay(&mut reader),
        store: store(&mut reader),
        cluster: Cluster {
            lease: reader.duration("cluster.lease", SECOND..=HOUR),
        },
        auth: auth(&mut reader),
        limits: limits(&mut reader),
        log: log(&mut reader),
        topics,
    };
    if config.replay.listen == Some(config.gateway.listen) && config.gateway.listen.port() != 0 {
        reader.problem(
            "replay.listen",
            "expected another address than gateway.listen's, or \"off\"",
        );
    }
    (config, rules)
}

fn gateway(reader: &mut Reader<'_>) -> Gateway {
    let timeout = 100 * MILLISECOND..=HOUR;
    Gateway {
        listen: reader.listen("gateway.listen"),
        max_connections: reader.size("gateway.max_connections", 1..=1_000_000),
        max_topics: reader.size("gateway.max_topics", 1..=10_000_000),
        max_groups_per_topic: reader.size("gateway.max_groups_per_topic", 1..=100_000),
        auth_timeout: reader.duration("gateway.auth_timeout", timeout.clone()),
        write_timeout: reader.duration("gateway.write_timeout", timeout),
        write_buffer: reader.size("gateway.write_buffer", 4 * KIB..=GIB),
        write_budget: reader.size("gateway.write_budget", 4 * KIB..=1_024 * GIB),
        shutdown_grace: reader.duration("gateway.shutdown_grace", Duration::ZERO..=HOUR),
        allowed_origins: reader.list(
            "gateway.allowed_origins",
            "an origin such as \"https://app.example\"",
            |text| is_origin(text).then(|| text.to_ascii_lowercase()),
        ),
        allowed_hosts: reader.list(
            "gateway.allowed_hosts",
            "a host such as \"app.example\", without a port",
            |text| is_host(text).then(|| text.to_ascii_lowercase()),
        ),
        trusted_proxies: reader.list(
            "gateway.trusted_proxies",
            "an IP address or a range such as \"10.0.0.0/8\"",
            |text| text.parse().ok(),
        ),
        insecure: reader.flag("gateway.insecure"),
    }
}

fn tls(reader: &mut Reader<'_>) -> Option<Tls> {
    let cert = reader.optional_text("tls.cert", "the path of a PEM file");
    let key = reader.optional_text("tls.key", "the path of a PEM file");
    match (cert, key) {
        (Some(cert), Some(key)) => Some(Tls {
            cert: cert.into(),
            key: key.into(),
        }),
        (Some(_), None) => {
            reader.problem("tls.cert", "expected tls.key with it: both or none");
            None
        }
        (None, Some(_)) => {
            reader.problem("tls.key", "expected tls.cert with it: both or none");
            None
        }
        (None, None) => None,
    }
}

fn replay(reader: &mut Reader<'_>) -> Replay {
    let expected = "an address and a port such as \"127.0.0.1:8083\", or \"off\"";
    let listen = reader.required("replay.listen", expected, None, |kind| match kind {
        ValueKind::String(text) if text == "off" => Some(None),
        ValueKind::String(text) => parse_listen(text).map(Some),
        _ => None,
    });
    Replay { listen }
}

fn store(reader: &mut Reader<'_>) -> StoreConfig {
    let kinds = [("embedded", StoreKind::Embedded), ("mongodb", StoreKind::Mongodb)];
    let config = StoreConfig {
        kind: reader.choice("store.kind", ("memory", StoreKind::Memory), &kinds),
        path: reader.text("store.path", "the path of a folder").into(),
        url: reader.text(
            "store.url",
            "a MongoDB address such as \"mongodb://127.0.0.1:27017/?replicaSet=rs0\"",
        ),
        database: reader.text("store.database", "a database's name"),
        migrate: reader.choice("store.migrate", ("manual", Migrate::Manual), &[("auto", Migrate::Auto)]),
        sweep_interval: reader.duration("store.sweep_interval", 10 * MILLISECOND..=DAY),
    };
    if !config.url.is_empty()
        && !["mongodb://", "mongodb+srv://"]
            .iter()
            .any(|scheme| config.url.starts_with(scheme))
    {
        reader.problem(
            "store.url",
            "expected an address that begins with mongodb:// or mongodb+srv://",
        );
    }
    let forbidden = |c: char| c.is_control() || "/\\. \"$*<>:|?".contains(c);
    if config.database.len() > DATABASE_NAME_MAX || config.database.contains(forbidden) {
        let message = format!("expected at most {DATABASE_NAME_MAX} bytes without blanks and any of /\\.\"$*<>:|?");
        reader.problem("store.database", message);
    }
    config
}

#[derive(Clone, Copy)]
enum Mode {
    None,
    Token,
    Jwt,
}

fn auth(reader: &mut Reader<'_>) -> Auth {
    let mode = reader.choice(
        "auth.mode",
        ("none", Mode::None),
        &[("token", Mode::Token), ("jwt", Mode::Jwt)],
    );
    let token = reader.optional_text("auth.token", "a text");
    let token_file = reader
        .optional_text("auth.token_file", "the path of a file")
        .map(PathBuf::from);
    let jwt_keys = jwt_keys(reader);
    let audience = reader.optional_text("auth.jwt.audience", "a text");
    let issuer = reader.optional_text("auth.jwt.issuer", "a text");
    match mode {
        Mode::None => Auth::None,
        Mode::Token => token_auth(reader, token, token_file),
        Mode::Jwt => match <[JwtKey; 1]>::try_from(jwt_keys) {
            Ok([key]) => Auth::Jwt(JwtConfig { key, audience, issuer }),
            Err(_) => {
                let keys = "auth.jwt.secret, secret_file, jwks_file, jwks_url and public_key_file";
                reader.problem("auth.mode", format!("mode jwt needs exactly one of {keys}"));
                Auth::None
            }
        },
    }
}

fn jwt_keys(reader: &mut Reader<'_>) -> Vec<JwtKey> {
    let secret = reader
        .optional_text("auth.jwt.secret", "a text")
        .map(|text| JwtKey::Secret(Secret::new(text)));
    let secret_file = secret_file(reader);
    let mut file = |path| reader.optional_text(path, "the path of a file").map(PathBuf::from);
    let jwks_file = file("auth.jwt.jwks_file").map(JwtKey::JwksFile);
    let public_key_file = file("auth.jwt.public_key_file").map(JwtKey::PublicKeyFile);
    let expected = "an address that begins with https:// or http://";
    let jwks_url = reader.optional("auth.jwt.jwks_url", expected, |kind| match kind {
        ValueKind::String(url) if url.starts_with("https://") || url.starts_with("http://") => {
            Some(JwtKey::JwksUrl(url.clone()))
        }
        _ => None,
    });
    [secret, secret_file, jwks_file, jwks_url, public_key_file]
        .into_iter()
        .flatten()
        .collect()
}

fn secret_file(reader: &mut Reader<'_>) -> Option<JwtKey> {
    let key = "auth.jwt.secret_file";
    let file = PathBuf::from(reader.optional_text(key, "the path of a file")?);
    let secret = read_secret(&file).unwrap_or_else(|error| {
        reader.problem(key, format!("{} cannot be read: {error}", file.display()));
        "a stand-in".to_owned()
    });
    if secret.is_empty() {
        reader.problem(key, format!("{} is empty", file.display()));
    }
    Some(JwtKey::Secret(Secret::new(secret)))
}

fn token_auth(reader: &mut Reader<'_>, token: Option<String>, file: Option<PathBuf>) -> Auth {
    let (path, token) = match (token, file) {
        (Some(token), None) => ("auth.token", token),
        (None, Some(file)) => match read_secret(&file) {
            Ok(token) => ("auth.token_file", token),
            Err(error) => {
                reader.problem("auth.token_file", format!("{} cannot be read: {error}", file.display()));
                return Auth::None;
            }
        },
        (Some(_), Some(_)) => {
            reader.problem("auth.token_file", "expected auth.token or auth.token_file, not both");
            return Auth::None;
        }
        (None, None) => {
            reader.problem("auth.mode", "mode token needs auth.token or auth.token_file");
            return Auth::None;
        }
    };
    if token.is_empty() || token.chars().any(char::is_control) {
        reader.problem(path, "expected a token of one line that is not empty");
    }
    Auth::Token {
        token: Secret::new(token),
    }
}

fn read_secret(file: &Path) -> std::io::Result<String> {
    let mut token = std::fs::read_to_string(file)?;
    token.truncate(token.trim_end_matches(['\n', '\r']).len());
    Ok(token)
}

fn log(reader: &mut Reader<'_>) -> Log {
    let level = reader.optional_text("log.level", "a level or filter such as \"info\" or \"tidegate=debug\"");
    if let Some(Err(error)) = level.as_deref().map(crate::telemetry::check_filter) {
        reader.problem("log.level", error.to_string());
    }
    Log { level }
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    let push_shared = matches!(reader.values.get("limits.push").map(|value| &value.kind),
        Some(ValueKind::String(text)) if text == "shared");
    Limits {
        connection: reader.limit("limits.connection", "\"off\"").unwrap_or(Limit::Off),
        topic: reader.limit("limits.topic", "\"off\"").unwrap_or(Limit::Off),
        push: if push_shared {
            PushLimit::Shared
        } else {
            PushLimit::Own(reader.limit("limits.push", "\"shared\", \"off\"").unwrap_or(Limit::Off))
        },
        frame_bytes: reader.size("limits.frame_bytes", KIB..=16 * MIB),
    }
}

/// The values of each `[[topic]]`, with its defaults.
fn topic_values(values: &Flat, problems: &mut Vec<Problem>) -> Vec<Flat> {
    let mut reader = Reader {
        keys: KEYS,
        prefix: String::new(),
        values,
        problems,
    };
    let expected = "a list of tables: [[topic]], or topic=[{name=\"orders.*\"}]";
    let tables = reader.optional("topic", expected, |kind| match kind {
        ValueKind::Array(items) => {
            let table = |item: &config::Value| match &item.kind {
                ValueKind::Table(table) => Some(table.clone()),
                _ => None,
            };
            items.iter().map(table).collect::<Option<Vec<_>>>()
        }
        _ => None,
    });
    let with_defaults = |(at, table)| {
        let mut rule = defaults(TOPIC_KEYS);
        rule.append(&mut flatten(TOPIC_KEYS, &topic_prefix(at), table, problems));
        rule
    };
    tables
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(with_defaults)
        .collect()
}

fn topic_prefix(at: usize) -> String {
    format!("topic[{at}].")
}

fn topic_rule(at: usize, values: &Flat, problems: &mut Vec<Problem>) -> Option<TopicRule> {
    let mut reader = Reader {
        keys: TOPIC_KEYS,
        prefix: topic_prefix(at),
        values,
        problems,
    };
    let expected = "a pattern of topic names: segments, * (one segment) and ** (any number), joined by dots";
    let pattern = reader.required("name", expected, None, |kind| match kind {
        ValueKind::String(text) => text.parse::<TopicPattern>().ok().map(Some),
        _ => None,
    });
    let durabilities = [("os", Durability::Os), ("memory", Durability::Memory)];
    let age = reader.optional_duration("retention.age", MILLISECOND..=36_525 * DAY);
    let settings = TopicSettings {
        partitions: u32::try_from(reader.integer("partitions", 1..=1_024)).unwrap_or(u32::MAX),
        durability: reader.choice("durability", ("fsync", Durability::Fsync), &durabilities),
        write_concern: reader.choice(
            "write_concern",
            ("majority", WriteConcern::Majority),
            &[("1", WriteConcern::One)],
        ),
        retention: Retention {
            age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            count: reader.optional_integer("retention.count", 1..=RETAINED_MAX),
            bytes: reader.optional_integer("retention.bytes", 1..=RETAINED_MAX),
        },
        compact: reader.flag("compact"),
    };
    let limit = reader.limit("limit", "\"off\"");
    Some(TopicRule {
        pattern: pattern?,
        limit,
        settings,
    })
}
