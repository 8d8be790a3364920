//! Who may do what: the one seam through which every door asks.

use subtle::ConstantTimeEq;

use crate::config::{Auth, Secret};
use crate::domain::{GroupName, TopicName};
use crate::protocol::{ErrorCode, Failure};

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Put events into a topic.
    Publish,
    /// Get a topic's events, live or from history.
    Subscribe,
}

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub struct Identity {
    /// When the rights end, in epoch milliseconds; never, where none is given.
    pub expires_ms: Option<u64>,
}

impl Identity {
    /// Whether they may do this. Everyone who was let in has full rights, but only the gateway itself writes to what it
    /// derives (dead letters, snapshots).
    pub fn check(&self, action: Action, topic: &TopicName, _group: Option<&GroupName>) -> Result<(), Failure> {
        if action == Action::Publish && topic.is_derived() {
            let msg = format!("topic: only the gateway itself publishes to {topic}");
            return Err(Failure::new(ErrorCode::Forbidden, msg));
        }
        Ok(())
    }
}

/// Decides who is let in.
pub trait Authenticator: Send + Sync {
    /// Who a connection is before its first AUTH; None: it has to send one.
    fn anonymous(&self) -> Option<Identity>;

    /// Who has this token.
    fn authenticate(&self, token: Option<&str>) -> Result<Identity, Failure>;
}

/// The configured way.
pub fn authenticator(auth: &Auth) -> Result<Box<dyn Authenticator>, String> {
    match auth {
        Auth::None => Ok(Box::new(Open)),
        Auth::Token { token } => Ok(Box::new(OneToken(token.clone()))),
        Auth::Jwt(_) => Err("auth.mode: jwt is not available yet; use token, or none on a loopback address".into()),
    }
}

/// Mode `none`: everyone is let in.
struct Open;

impl Authenticator for Open {
    fn anonymous(&self) -> Option<Identity> {
        Some(Identity { expires_ms: None })
    }

    fn authenticate(&self, _: Option<&str>) -> Result<Identity, Failure> {
        Ok(Identity { expires_ms: None })
    }
}

/// Mode `token`: everyone who has it.
struct OneToken(Secret);

impl Authenticator for OneToken {
    fn anonymous(&self) -> Option<Identity> {
        None
    }

    fn authenticate(&self, token: Option<&str>) -> Result<Identity, Failure> {
        let given = token.unwrap_or_default().as_bytes();
        // In constant time, so that a guess cannot be improved by measuring.
        if bool::from(given.ct_eq(self.0.reveal().as_bytes())) {
            Ok(Identity { expires_ms: None })
        } else {
            Err(Failure::new(
                ErrorCode::BadToken,
                "token: not the one that this gateway was given",
            ))
        }
    }
}
