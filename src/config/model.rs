//! The configuration as it means: checked, in the types the rest of the gateway works with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::network::IpRange;
use super::secret::{Secret, hide_in_url};
use crate::domain::{TopicPattern, TopicSettings};

/// Everything an operator can decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The WebSocket and HTTP listener, and what its clients may take.
    pub gateway: Gateway,
    /// Set where the listeners speak TLS.
    pub tls: Option<Tls>,
    /// The listener for history alone.
    pub replay: Replay,
    /// Where events are kept.
    pub store: StoreConfig,
    /// Several gateways on one store.
    pub cluster: Cluster,
    /// Who gets in.
    pub auth: Auth,
    /// How much at a time.
    pub limits: Limits,
    /// What is logged.
    pub log: Log,
    /// In the order of the configuration: the first whose pattern matches gives a topic its settings.
    pub topics: Vec<TopicRule>,
}

/// `[gateway]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Port 0: any free one.
    pub listen: SocketAddr,
    /// The most WebSockets at a time.
    pub max_connections: usize,
    /// The most topics.
    pub max_topics: usize,
    /// The most groups of one topic.
    pub max_groups_per_topic: usize,
    /// How long a connection may take to authenticate.
    pub auth_timeout: Duration,
    /// How long nothing may be written to a client for which something waits.
    pub write_timeout: Duration,
    /// The most bytes that wait to be written to one client.
    pub write_buffer: usize,
    /// The most bytes that wait to be written to all clients together.
    pub write_budget: usize,
    /// How long a shutdown may take.
    pub shutdown_grace: Duration,
    /// In lower case: scheme, host and port of pages of other origins that may talk to the gateway.
    pub allowed_origins: Vec<String>,
    /// In lower case, without ports: what a `Host` header may say besides the obvious.
    pub allowed_hosts: Vec<String>,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpRange>,
    /// Whether others may reach a listener without authentication.
    pub insecure: bool,
}

/// `[tls]`: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// `[replay]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// `None`: history is only on the gateway's port.
    pub listen: Option<SocketAddr>,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Gone with the process.
    Memory,
    /// A folder.
    Embedded,
    /// A replica set.
    Mongodb,
}

/// Who brings the database's indexes to what the configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrate {
    /// `tidegate migrate`.
    Manual,
    /// The gateway, when it starts.
    Auto,
}

/// `[store]`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Which store.
    pub kind: StoreKind,
    /// The embedded store's folder.
    pub path: PathBuf,
    /// Where MongoDB is; may have a password in it.
    pub url: String,
    /// The database's name in MongoDB.
    pub database: String,
    /// Who migrates MongoDB.
    pub migrate: Migrate,
    /// How often retention and compaction run.
    pub sweep_interval: Duration,
}

impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig")
            .field("kind", &self.kind)
            .field("path", &self.path)
            .field("url", &hide_in_url(&self.url))
            .field("database", &self.database)
            .field("migrate", &self.migrate)
            .field("sweep_interval", &self.sweep_interval)
            .finish()
    }
}

/// `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// How long a gateway that is silent keeps what it owns.
    pub lease: Duration,
}

/// `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Everybody may do everything.
    None,
    /// Whoever has the token may do everything.
    Token {
        /// The one token.
        token: Secret,
    },
    /// What a signed token says.
    Jwt(JwtConfig),
}

/// `[auth.jwt]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// What tokens are checked with.
    pub key: JwtKey,
    /// What `aud` must have, where given.
    pub audience: Option<String>,
    /// What `iss` must be, where given.
    pub issuer: Option<String>,
}

/// What a token's signature is checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtKey {
    /// HS256.
    Secret(Secret),
    /// A file with a set of public keys.
    JwksFile(PathBuf),
    /// An address of a set of public keys.
    JwksUrl(String),
    /// A PEM file with one public key.
    PublicKeyFile(PathBuf),
}

/// `[log]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// What is logged, such as `info` or `tidegate=debug`; `TIDEGATE_LOG` comes before it.
    pub level: Option<String>,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// For each connection.
    pub connection: Limit,
    /// For each topic whose rule has none of its own.
    pub topic: Limit,
    /// For the events pushed to a connection.
    pub push: PushLimit,
    /// The largest frame a client may send.
    pub frame_bytes: usize,
}

/// A rate, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// As fast as it goes.
    Off,
    /// A token bucket.
    Bucket(Bucket),
}

/// A token bucket, full at first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// The most tokens it holds.
    pub capacity: u32,
    /// How many come back in a second: above 0 and finite.
    pub refill_per_sec: f64,
}

/// What the events pushed to a connection take from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PushLimit {
    /// The connection's bucket, together with its publishes.
    Shared,
    /// A limit of their own.
    Own(Limit),
}

/// One `[[topic]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicRule {
    /// Which topics.
    pub pattern: TopicPattern,
    /// Instead of `limits.topic`.
    pub limit: Option<Limit>,
    /// What the rule does not give is as by default.
    pub settings: TopicSettings,
}
