//! Tokens whose signature was checked a moment ago: a client that shows its token with every request, or again and again
//! over one connection, does not have it checked every time. Nothing here outlives the keys or the token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::identity::Identity;
use super::keys::KeySet;

/// The most tokens that are remembered, and the longest.
const TOKENS_MAX: usize = 1_000;
const TOKEN_BYTES_MAX: usize = 4 << 10;

#[derive(Default)]
struct Known {
    /// What they were checked with.
    keys: Arc<KeySet>,
    tokens: HashMap<Box<str>, Identity>,
}

/// Those that are known to be good.
#[derive(Default)]
pub(super) struct Verified(Mutex<Known>);

impl Verified {
    /// Who a token speaks of, if it was checked with these very keys and is still good.
    pub(super) fn get(&self, token: &str, keys: &Arc<KeySet>) -> Option<Identity> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = known.tokens.get(token).filter(|_| Arc::ptr_eq(&known.keys, keys))?;
        is_good(identity).then(|| identity.clone())
    }

    /// Remembers one that was checked.
    pub(super) fn add(&self, token: &str, identity: &Identity, keys: &Arc<KeySet>) {
        if token.len() > TOKEN_BYTES_MAX {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&known.keys, keys) {
            *known = Known {
                keys: keys.clone(),
                tokens: HashMap::new(),
            };
        }
        if known.tokens.len() >= TOKENS_MAX {
            known.tokens.retain(|_, identity| is_good(identity));
        }
        if known.tokens.len() >= TOKENS_MAX {
            known.tokens.clear();
        }
        known.tokens.insert(token.into(), identity.clone());
    }
}

/// Whether its token is not over yet.
pub(super) fn is_good(identity: &Identity) -> bool {
    identity.ends_ms().is_some_and(|ends_ms| now_ms() < ends_ms)
}

/// By the machine's clock, as claims have it.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::rights::Rights;
    use super::super::voucher::Voucher;
    use super::*;

    fn identity(expires_in_ms: i64) -> Identity {
        let at = now_ms().saturating_add_signed(expires_in_ms);
        Identity::new(None, at, Voucher::default(), Rights::Full)
    }

    #[test]
    fn a_token_is_known_for_as_long_as_it_and_its_keys_are_good() {
        let (verified, keys, others) = (Verified::default(), Arc::default(), Arc::default());
        verified.add("long", &identity(60_000), &keys);
        verified.add("over", &identity(-6_000), &keys);
        assert!(verified.get("long", &keys).is_some());
        assert!(verified.get("over", &keys).is_none(), "it has expired");
        assert!(verified.get("lon", &keys).is_none());
        assert!(verified.get("long", &others).is_none(), "the keys are others now");
        verified.add("new", &identity(60_000), &others);
        assert!(verified.get("long", &others).is_none() && verified.get("new", &others).is_some());
    }

    #[test]
    fn many_tokens_take_no_more_memory() {
        let (verified, keys) = (Verified::default(), Arc::default());
        for n in 0..3 * TOKENS_MAX {
            verified.add(&n.to_string(), &identity(60_000), &keys);
        }
        verified.add(&"x".repeat(TOKEN_BYTES_MAX + 1), &identity(60_000), &keys);
        let known = verified.0.lock().unwrap();
        assert!(known.tokens.len() <= TOKENS_MAX);
        assert!(known.tokens.keys().all(|token| token.len() <= TOKEN_BYTES_MAX));
    }
}
