//! Whether a configuration lets others in without asking who they are.

use super::model::{Auth, Config};
use super::network::is_local;

/// Who can reach the gateway, and what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine.
    Local,
    /// Others, who must authenticate.
    OpenWithAuth,
    /// Others, without authentication, on the operator's word.
    OpenInsecure,
    /// Others, without authentication: not without the operator's word. The text says how to put it right.
    Refused(String),
}

/// Judges the listeners: none may leave loopback without authentication, unless the operator insists.
pub fn exposure(config: &Config) -> Exposure {
    let listeners = [
        ("gateway.listen", Some(config.gateway.listen)),
        ("replay.listen", config.replay.listen),
    ];
    let open: Vec<String> = listeners
        .iter()
        .filter_map(|(key, listen)| {
            listen
                .filter(|address| !is_local(*address))
                .map(|address| format!("{key} = {address}"))
        })
        .collect();
    if open.is_empty() {
        return Exposure::Local;
    }
    if config.auth != Auth::None {
        return Exposure::OpenWithAuth;
    }
    if config.gateway.insecure {
        return Exposure::OpenInsecure;
    }
    Exposure::Refused(format!(
        "others can reach {} and auth.mode is \"none\": set auth.mode = \"token\" and auth.token (or token_file), \
         or listen on 127.0.0.1 only, or let everybody in with --insecure (gateway.insecure = true)",
        open.join(" and ")
    ))
}
