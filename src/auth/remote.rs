//! Keys behind an address (`jwks_url`): fetched when the gateway starts and again when a token names one that is not
//! known, on a thread of their own, so that no arbiter waits. While the address does not answer the old keys stay.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::keys::KeySet;
use crate::tls;

/// How long a fetch may take.
const FETCH_DEADLINE: Duration = Duration::from_secs(5);
/// How long the keys are not fetched again: strangers name unknown keys as often as they like.
const REFRESH_MIN: Duration = Duration::from_secs(60);
/// The same while there are no keys at all: nobody gets in until there are.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// After so long the keys are fetched again, so that one that was taken back does not stay for ever.
const REFRESH_AFTER: Duration = Duration::from_secs(600);
/// The largest set.
const SET_BYTES_MAX: u64 = 1 << 20;

/// How far fetching is.
struct Round {
    running: bool,
    /// When the last one after the first began.
    began: Option<Instant>,
    /// When the keys last came.
    renewed: Instant,
}

/// A set of keys behind an address.
pub(super) struct RemoteKeys {
    url: String,
    keys: RwLock<Arc<KeySet>>,
    rounds: watch::Sender<Round>,
}

/// Ends a round, however the fetch ended.
struct RoundEnd(Arc<RemoteKeys>);

impl Drop for RoundEnd {
    fn drop(&mut self) {
        self.0.rounds.send_modify(|round| round.running = false);
    }
}

impl RemoteKeys {
    /// Begins to fetch them, and does not wait: a gateway starts while its issuer is down.
    pub(super) fn start(url: &str) -> Arc<RemoteKeys> {
        let (rounds, _) = watch::channel(Round {
            running: true,
            began: None,
            renewed: Instant::now(),
        });
        let remote = Arc::new(RemoteKeys {
            url: url.to_owned(),
            keys: RwLock::default(),
            rounds,
        });
        remote.fetch_on_thread();
        remote
    }

    /// Whether this is where they come from.
    pub(super) fn is_at(&self, url: &str) -> bool {
        self.url == url
    }

    /// The keys as they are known now. Old ones are fetched again meanwhile.
    pub(super) fn current(self: &Arc<Self>) -> Arc<KeySet> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        if self.rounds.borrow().renewed.elapsed() > REFRESH_AFTER && self.begin(keys.is_empty()) {
            self.fetch_on_thread();
        }
        keys
    }

    /// Fetches the keys anew, unless that was done a moment ago, and waits for it. Many can wait for one fetch.
    pub(super) async fn renew(self: &Arc<Self>) {
        let mut rounds = self.rounds.subscribe();
        if self.begin(self.current().is_empty()) {
            self.fetch_on_thread();
        }
        let done = rounds.wait_for(|round| !round.running);
        // The fetch has a deadline of its own; this one is for a machine too busy to run it.
        if tokio::time::timeout(2 * FETCH_DEADLINE, done).await.is_err() {
            tracing::warn!("auth.jwt.jwks_url: the fetch takes too long");
        }
    }

    /// Takes the turn to fetch, if it may be done now.
    fn begin(&self, no_keys: bool) -> bool {
        let pause = if no_keys { FIRST_RETRY } else { REFRESH_MIN };
        self.rounds.send_if_modified(|round| {
            let due = !round.running && round.began.is_none_or(|began| began.elapsed() >= pause);
            if due {
                round.running = true;
                round.began = Some(Instant::now());
            }
            due
        })
    }

    fn fetch_on_thread(self: &Arc<Self>) {
        let end = RoundEnd(self.clone());
        let work = move || match fetch(&end.0.url) {
            Ok(keys) => {
                *end.0.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                end.0.rounds.send_modify(|round| round.renewed = Instant::now());
                tracing::info!("auth.jwt.jwks_url: the keys were fetched");
            }
            Err(why) => tracing::warn!(
                why,
                "auth.jwt.jwks_url: the keys could not be fetched; those known stay"
            ),
        };
        if let Err(error) = std::thread::Builder::new().name("jwks".into()).spawn(work) {
            tracing::warn!(%error, "auth.jwt.jwks_url: no thread to fetch the keys");
        }
    }
}

fn fetch(url: &str) -> Result<KeySet, String> {
    let mut builder = ureq::Agent::config_builder()
        .timeout_global(Some(FETCH_DEADLINE))
        // Where keys come from is the configuration's to say, not a server's.
        .max_redirects(0)
        .max_redirects_will_error(true);
    if url.starts_with("https:") {
        builder = builder.tls_config(tls::http_client_config(None)?);
    }
    let agent = ureq::Agent::new_with_config(builder.build());
    // The address may have a password in it, which an error must not repeat.
    let told = |error: ureq::Error| error.to_string().replace(url, "the address");
    let mut response = agent.get(url).call().map_err(told)?;
    let body = response.body_mut().with_config().limit(SET_BYTES_MAX).read_to_string();
    KeySet::from_jwks(&body.map_err(told)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fetch_waits_its_turn() {
        let (rounds, _) = watch::channel(Round {
            running: true,
            began: None,
            renewed: Instant::now(),
        });
        let remote = RemoteKeys {
            url: String::new(),
            keys: RwLock::default(),
            rounds,
        };
        let ended = || remote.rounds.send_modify(|round| round.running = false);
        let later = async |seconds| tokio::time::advance(Duration::from_secs(seconds)).await;
        assert!(!remote.begin(false), "the first one still runs");
        ended();
        assert!(remote.begin(false), "the first one is no refresh");
        assert!(!remote.begin(false), "one at a time");
        ended();
        later(59).await;
        assert!(!remote.begin(false), "one a minute");
        later(1).await;
        assert!(remote.begin(false));
        ended();
        later(5).await;
        assert!(remote.begin(true), "sooner while there are no keys");
    }
}
