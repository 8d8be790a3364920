//! What vouched for somebody: remembered with their identity, so that it can be taken back.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

static KEYED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Stands for a token, or for a key and what was asked of the tokens that it signs. A keyed hash of this process: it gives
/// nothing of them away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(super) struct Voucher(u64);

impl Voucher {
    pub(super) fn of(what: impl Hash) -> Voucher {
        Voucher(KEYED.hash_one(what))
    }
}
