//! How many files the process may have open: each connection takes two, its socket and a second hold on it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the store, the listeners and the rest.
const OTHERS: u64 = 1_024;

/// Raises the limit as far as the system lets it, and says what came of it.
pub(super) fn raise_limit(connections: usize) {
    let needed = connections as u64 * 2 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(u64::MAX);
    if current >= needed {
        return;
    }
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    let limit = Rlimit {
        current: Some(wanted),
        maximum,
    };
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) if wanted >= needed => tracing::info!(from = current, to = wanted, "open files: limit raised"),
        Ok(()) => tracing::warn!(
            limit = wanted,
            needed,
            "open files: the system allows fewer than gateway.max_connections needs"
        ),
        Err(error) => tracing::warn!(%error, limit = current, needed, "open files: the limit could not be raised"),
    }
}
