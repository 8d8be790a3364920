//! What an operator decides, from file, environment and command line: read in layers, checked in one place, and from
//! there on trusted. Nothing in here looks at the process's own environment: it is handed in, so that tests need no globals.

mod error;
mod exposure;
mod layers;
mod live;
mod model;
mod network;
mod origins;
mod reader;
mod schema;
mod secret;
#[cfg(test)]
mod tests;
mod topics;
mod validate;

pub use error::{ConfigError, Problem};
pub use exposure::{Exposure, exposure};
pub use layers::Sources;
pub use live::Live;
pub use model::{
    Auth, Bucket, Cluster, Config, Gateway, JwtConfig, JwtKey, Limit, Limits, Log, Migrate, PushLimit, Replay,
    StoreConfig, StoreKind, Tls, TopicRule,
};
pub use network::{BadIpRange, IpRange};
pub use origins::{Change, Origins};
pub use secret::Secret;

/// A configuration and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// Where each value came from.
    pub origins: Origins,
}

/// What is in force where nobody says anything. Nothing is read for it.
impl Default for Config {
    fn default() -> Config {
        // The defaults are good: a test loads them.
        validate::validate(&layers::defaults(schema::KEYS), &mut Vec::new()).0
    }
}

/// Reads and checks a configuration. The error lists all problems there are.
///
/// ```
/// use tidegate::config::{Sources, StoreKind, load};
/// let set = vec!["store.kind=memory".to_owned()];
/// let loaded = load(&Sources { set, directory: "no-such-folder".into(), ..Sources::default() })?;
/// assert_eq!(loaded.config.store.kind, StoreKind::Memory);
/// # Ok::<(), tidegate::config::ConfigError>(())
/// ```
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut problems = Vec::new();
    let values = layers::merge(sources, &mut problems);
    let (config, topics) = validate::validate(&values, &mut problems);
    if problems.is_empty() {
        let origins = Origins::new(&values, &topics);
        return Ok(Loaded { config, origins });
    }
    problems.sort_by(|one, other| one.key.cmp(&other.key));
    Err(ConfigError { problems })
}
