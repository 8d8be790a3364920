//! Who may do what: the one seam through which every door asks, be it a WebSocket or a path of HTTP.
//!
//! [`Authenticator`] says who somebody is, [`Identity::check`] what they may do.

mod attempts;
mod identity;
mod jwt;
mod keys;
mod remote;
mod rights;
mod sign;
mod verified;
mod voucher;

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use self::attempts::Attempts;
pub(crate) use self::attempts::network;
pub use self::identity::{Action, Identity};
use self::jwt::Jwt;
pub use self::sign::{SignError, sign};
use self::voucher::Voucher;
use crate::clock::Clock;
use crate::config::{Auth, Secret};
use crate::protocol::{ErrorCode, Failure};
use crate::telemetry::Metrics;

/// How tokens are judged.
enum Mode {
    /// Everyone is let in.
    Open,
    /// Everyone who has it is let in.
    Token(Secret),
    /// What a signed token says.
    Jwt(Jwt),
}

/// Decides who is let in.
pub struct Authenticator {
    mode: RwLock<Arc<Mode>>,
    attempts: Attempts,
    metrics: Metrics,
}

impl Authenticator {
    /// The configured way. The error says which key of the configuration cannot be used, and why.
    pub fn new(auth: &Auth, clock: Clock, metrics: Metrics) -> Result<Authenticator, String> {
        Ok(Authenticator {
            mode: RwLock::new(Arc::new(mode(auth, None)?)),
            attempts: Attempts::new(clock),
            metrics,
        })
    }

    /// Takes new secrets and keys. The mode itself does not change while others rely on it. Who was let in by what is no
    /// longer there is to be told: see [`Authenticator::vouches_for`].
    pub fn reload(&self, auth: &Auth) -> Result<(), String> {
        let current = self.mode();
        let new = mode(auth, Some(&current))?;
        if std::mem::discriminant(&new) != std::mem::discriminant(&*current) {
            return Err("auth.mode: another mode needs a restart".into());
        }
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(())
    }

    /// Who somebody is without a token; None: they need one.
    pub fn anonymous(&self) -> Option<Identity> {
        matches!(*self.mode(), Mode::Open).then(Identity::full)
    }

    /// Who has this token. It is ready at once, unless the token names a key that has to be fetched first.
    pub async fn authenticate(&self, token: Option<&str>, client: IpAddr) -> Result<Identity, Failure> {
        let mode = self.mode();
        if let Mode::Open = *mode {
            return Ok(Identity::full());
        }
        self.attempts.check(client).inspect_err(|_| {
            self.metrics.rate_limited("auth").inc();
        })?;
        let result = match &*mode {
            Mode::Open => Ok(Identity::full()),
            Mode::Token(secret) => compare(token.unwrap_or_default(), secret),
            Mode::Jwt(jwt) => jwt
                .authenticate(token)
                .await
                .map_err(|why| Failure::new(ErrorCode::JwtInvalid, why)),
        };
        result.inspect_err(|failure| {
            self.attempts.failed(client);
            self.metrics.auth_failed(failure.code.as_str());
            tracing::info!(%client, code = failure.code.as_str(), why = %failure.msg, "somebody was not let in");
        })
    }

    /// Whether what let somebody in (the token, the key that signed theirs, the audience and issuer asked for) is still
    /// in force. Where it is not, an operator or the issuer took it back, and their rights end.
    pub fn vouches_for(&self, identity: &Identity) -> bool {
        match &*self.mode() {
            Mode::Open => true,
            Mode::Token(secret) => identity.voucher == Voucher::of(secret.reveal()),
            Mode::Jwt(jwt) => jwt.vouches(identity.voucher),
        }
    }

    fn mode(&self) -> Arc<Mode> {
        self.mode.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `before` is what was in force until now.
fn mode(auth: &Auth, before: Option<&Mode>) -> Result<Mode, String> {
    let before = match before {
        Some(Mode::Jwt(jwt)) => Some(jwt),
        _ => None,
    };
    Ok(match auth {
        Auth::None => Mode::Open,
        Auth::Token { token } => Mode::Token(token.clone()),
        Auth::Jwt(config) => Mode::Jwt(Jwt::new(config, before)?),
    })
}

fn compare(given: &str, secret: &Secret) -> Result<Identity, Failure> {
    if secret.matches(given) {
        return Ok(Identity::full_by(Voucher::of(secret.reveal())));
    }
    let msg = "token: not the one that this gateway was given";
    Err(Failure::new(ErrorCode::BadToken, msg))
}
