//! New keys, secrets and certificates for a gateway that runs. Who is connected notices nothing, unless what let them in
//! is no longer there.

use std::sync::Arc;

use crate::actors::shared::Shared;
use crate::config::Config;
use crate::tls::Certificate;

/// Gives a running gateway what `[auth]` and `[tls]` of a configuration say now. All else needs a restart.
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
        problems
    }
}
