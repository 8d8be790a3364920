//! What can change while a gateway runs: limits, retention, keys, secrets and certificates. Who is connected notices
//! nothing but a limit, unless what let them in is no longer there.

use std::sync::Arc;

use crate::actors::shared::Shared;
use crate::config::Config;
use crate::tls::Certificate;

/// Gives a running gateway what `[limits]`, `[auth]` and `[tls]` of a configuration say now, and the `limit` and `retention`
/// of its topics. All else needs a restart.
#[derive(Clone)]
pub struct Reloader {
    shared: Arc<Shared>,
    certificate: Option<Arc<Certificate>>,
}

impl Reloader {
    pub(super) fn new(shared: Arc<Shared>, certificate: Option<Arc<Certificate>>) -> Reloader {
        Reloader { shared, certificate }
    }

    /// Takes what is new. What cannot be used is told, and what was in force before stays.
    ///
    /// It reads files: call it where that may take a moment.
    pub fn reload(&self, config: &Config) -> Vec<String> {
        let mut problems = Vec::new();
        match self.shared.auth.reload(&config.auth) {
            Ok(()) => {
                let connections = self.shared.connections.all();
                connections.iter().for_each(|connection| connection.check_rights());
            }
            Err(problem) => problems.push(problem),
        }
        match (&self.certificate, &config.tls) {
            (Some(certificate), Some(tls)) => problems.extend(certificate.reload(tls).err()),
            (None, None) => {}
            _ => problems.push("tls: TLS cannot be switched on or off without a restart".to_owned()),
        }
        self.shared.live.replace(config.clone());
        problems
    }
}
