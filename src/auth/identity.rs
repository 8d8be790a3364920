//! Somebody who was let in, and the one place that says what they may do.

use std::sync::Arc;

use super::rights::Rights;
use super::voucher::Voucher;
use crate::domain::{GroupName, TopicName};
use crate::protocol::{ErrorCode, Failure};

/// How long a token is still good after its `exp`, and before its `nbf`: clocks differ.
pub(super) const LEEWAY_MS: u64 = 5_000;

/// What somebody wants to do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Put events into it.
    Publish,
    /// Get its events, live or from history.
    Subscribe,
    /// Change its groups, or delete it.
    Admin,
}

impl Action {
    fn words(self) -> &'static str {
        match self {
            Action::Publish => "publish to",
            Action::Subscribe => "subscribe to",
            Action::Admin => "administer",
        }
    }
}

/// Somebody who was let in. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Who the token speaks of, where it says so.
    pub subject: Option<Arc<str>>,
    /// When the token expires, in epoch milliseconds by the machine's clock; never, where none is given.
    pub expires_ms: Option<u64>,
    /// What let them in.
    pub(super) voucher: Voucher,
    rights: Arc<Rights>,
}

impl Identity {
    /// Somebody who may do everything, for ever.
    pub fn full() -> Identity {
        Identity::full_by(Voucher::default())
    }

    /// The same, for as long as somebody vouches for them.
    pub(super) fn full_by(voucher: Voucher) -> Identity {
        Identity {
            subject: None,
            expires_ms: None,
            voucher,
            rights: Arc::new(Rights::Full),
        }
    }

    pub(super) fn new(subject: Option<Arc<str>>, expires_ms: u64, voucher: Voucher, rights: Rights) -> Identity {
        Identity {
            subject,
            expires_ms: Some(expires_ms),
            voucher,
            rights: Arc::new(rights),
        }
    }

    /// Whether they may do this. The answer does not tell whether there is such a topic.
    ///
    /// Rights on what the gateway derives from a topic (dead letters, snapshots) are those on the topic, to read; only
    /// the gateway itself writes there.
    pub fn check(&self, action: Action, topic: &TopicName, group: Option<&GroupName>) -> Result<(), Failure> {
        if action == Action::Publish && topic.is_derived() {
            let msg = format!("topic: only the gateway itself publishes to {topic}");
            return Err(Failure::new(ErrorCode::Forbidden, msg));
        }
        if self.rights.cover(action, topic.origin(), group) {
            return Ok(());
        }
        let words = action.words();
        let msg = match group {
            Some(group) => format!("topic: the token gives no right to {words} {topic} in the group {group}"),
            None => format!("topic: the token gives no right to {words} {topic}"),
        };
        Err(Failure::new(ErrorCode::Forbidden, msg))
    }

    /// Whether they may see the gateway's figures.
    pub fn check_metrics(&self) -> Result<(), Failure> {
        if self.rights.cover_metrics() {
            return Ok(());
        }
        let msg = "the token gives no right to the figures: they need the scope metrics or admin";
        Err(Failure::new(ErrorCode::Forbidden, msg))
    }

    /// When the rights end, leeway included.
    pub fn ends_ms(&self) -> Option<u64> {
        self.expires_ms.map(|at| at.saturating_add(LEEWAY_MS))
    }
}
