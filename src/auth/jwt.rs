//! Mode `jwt`: who a signed token says somebody is, and until when.

use std::path::Path;
use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

use super::identity::{Identity, LEEWAY_MS};
use super::keys::{Key, KeySet, TRIES_MAX};
use super::remote::RemoteKeys;
use super::rights::Rights;
use super::verified::{Verified, is_good};
use super::voucher::Voucher;
use crate::config::{JwtConfig, JwtKey};

/// The longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// The longest `sub`.
const SUBJECT_BYTES_MAX: usize = 256;
/// A shared secret below this is worth a warning: RFC 7518 asks for as many bits as the hash has.
const SECRET_BYTES_MIN: usize = 32;

/// Why a token was refused. The text has nothing of the token in it.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It names a key that is not known, or was signed by none that is.
    UnknownKey,
    Invalid(String),
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal::Invalid(why.to_owned())
    }
}

enum Keys {
    Fixed(Arc<KeySet>),
    Remote(Arc<RemoteKeys>),
}

/// Checks tokens.
pub(super) struct Jwt {
    keys: Keys,
    audience: Option<String>,
    issuer: Option<String>,
    verified: Verified,
}

#[derive(Deserialize)]
struct Claims {
    exp: f64,
    sub: Option<Value>,
    scopes: Option<Value>,
    scope: Option<Value>,
    policy: Option<Value>,
}

impl Jwt {
    /// Reads the keys. The error names the file and says what is wrong with it. Keys that `before` fetched from the same
    /// address are kept: it may be down.
    pub(super) fn new(config: &JwtConfig, before: Option<&Jwt>) -> Result<Jwt, String> {
        let keys = match &config.key {
            JwtKey::Secret(secret) => {
                if secret.reveal().len() < SECRET_BYTES_MIN {
                    tracing::warn!("auth.jwt.secret is shorter than {SECRET_BYTES_MIN} bytes: it can be guessed");
                }
                Keys::Fixed(Arc::new(KeySet::from_secret(secret.reveal())))
            }
            JwtKey::PublicKeyFile(file) => Keys::Fixed(
                read(file)
                    .and_then(|pem| KeySet::from_pem(pem.as_bytes()))
                    .map(Arc::new)
                    .map_err(|why| format!("auth.jwt.public_key_file: {}: {why}", file.display()))?,
            ),
            JwtKey::JwksFile(file) => Keys::Fixed(
                read(file)
                    .and_then(|json| KeySet::from_jwks(&json))
                    .map(Arc::new)
                    .map_err(|why| format!("auth.jwt.jwks_file: {}: {why}", file.display()))?,
            ),
            JwtKey::JwksUrl(url) => match before.map(|jwt| &jwt.keys) {
                Some(Keys::Remote(remote)) if remote.is_at(url) => Keys::Remote(remote.clone()),
                _ => Keys::Remote(RemoteKeys::start(url)),
            },
        };
        Ok(Jwt {
            keys,
            audience: config.audience.clone(),
            issuer: config.issuer.clone(),
            verified: Verified::default(),
        })
    }

    /// Who a token speaks of. Waits only where it names a key that is not known and the set may be fetched anew.
    pub(super) async fn authenticate(&self, token: Option<&str>) -> Result<Identity, String> {
        let token = token.ok_or("token: missing")?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(format!("token: longer than {TOKEN_BYTES_MAX} bytes"));
        }
        let result = match (self.look_at(token, &self.current()), &self.keys) {
            (Err(Refusal::UnknownKey), Keys::Remote(remote)) => {
                remote.renew().await;
                self.look_at(token, &self.current())
            }
            (result, _) => result,
        };
        result.map_err(|refusal| match refusal {
            Refusal::UnknownKey => "token: it is signed with a key that this gateway does not know".to_owned(),
            Refusal::Invalid(why) => format!("token: {why}"),
        })
    }

    /// Whether a key that vouched for somebody still does, and for tokens of the same audience and issuer.
    pub(super) fn vouches(&self, voucher: Voucher) -> bool {
        self.current().iter().any(|key| self.voucher(key) == voucher)
    }

    fn voucher(&self, key: &Key) -> Voucher {
        Voucher::of((key.print, &self.audience, &self.issuer))
    }

    fn current(&self) -> Arc<KeySet> {
        match &self.keys {
            Keys::Fixed(keys) => keys.clone(),
            Keys::Remote(remote) => remote.current(),
        }
    }

    fn look_at(&self, token: &str, keys: &Arc<KeySet>) -> Result<Identity, Refusal> {
        if let Some(identity) = self.verified.get(token, keys) {
            return Ok(identity);
        }
        let identity = self.verify(token, keys)?;
        if !is_good(&identity) {
            // The library counts whole seconds, which is up to one too many.
            return Err("expired".into());
        }
        self.verified.add(token, &identity, keys);
        Ok(identity)
    }

    fn verify(&self, token: &str, keys: &KeySet) -> Result<Identity, Refusal> {
        let header = decode_header(token).map_err(|error| refusal(error.kind()))?;
        if header.crit.is_some() {
            // Whoever does not understand what is marked so must refuse it (RFC 7515, 4.1.11).
            return Err("crit: this gateway knows no extensions".into());
        }
        let mut refused = Refusal::UnknownKey;
        let mut tries = 0;
        for key in keys.candidates(header.kid.as_deref()) {
            if key.algorithm != header.alg {
                refused = "its alg is not that of the key".into();
                continue;
            }
            if tries == TRIES_MAX {
                return Err("it names no key (kid), and there are too many to try".into());
            }
            tries += 1;
            let mut validation = Validation::new(key.algorithm);
            validation.leeway = LEEWAY_MS / 1_000;
            validation.validate_nbf = true;
            validation.validate_aud = self.audience.is_some();
            let mut required = vec!["exp"];
            if let Some(audience) = &self.audience {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            if let Some(issuer) = &self.issuer {
                validation.set_issuer(&[issuer]);
                required.push("iss");
            }
            validation.set_required_spec_claims(&required);
            match decode::<Value>(token, &key.key, &validation) {
                Ok(data) => return identity(data.claims, self.voucher(key)),
                Err(error) => match error.kind() {
                    // Another key may fit.
                    ErrorKind::InvalidSignature => refused = refusal(error.kind()),
                    ErrorKind::Json(_) => return Err("its claims are no JSON object, or one has the wrong type".into()),
                    other => return Err(refusal(other)),
                },
            }
        }
        Err(refused)
    }
}

fn identity(claims: Value, voucher: Voucher) -> Result<Identity, Refusal> {
    let claims = Claims::deserialize(claims).map_err(|_| "exp: expected a number of seconds")?;
    let subject = match &claims.sub {
        Some(Value::String(subject)) if subject.len() > SUBJECT_BYTES_MAX => return Err("sub: too long".into()),
        Some(Value::String(subject)) => Some(Arc::from(subject.as_str())),
        Some(_) => return Err("sub: expected a text".into()),
        None => None,
    };
    let rights = Rights::from_claims(claims.scopes.as_ref(), claims.scope.as_ref(), claims.policy.as_ref())
        .map_err(Refusal::Invalid)?;
    // A float that does not fit becomes the nearest that does.
    let expires_ms = (claims.exp * 1_000.0) as u64;
    Ok(Identity::new(subject, expires_ms, voucher, rights))
}

fn refusal(kind: &ErrorKind) -> Refusal {
    let why = match kind {
        ErrorKind::ExpiredSignature => "expired",
        ErrorKind::ImmatureSignature => "not valid yet (nbf)",
        ErrorKind::InvalidSignature => "bad signature",
        ErrorKind::InvalidAudience => "aud: not for this gateway (see auth.jwt.audience)",
        ErrorKind::InvalidIssuer => "iss: not the issuer that this gateway trusts (see auth.jwt.issuer)",
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => "its alg is not that of the key",
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            return Refusal::Invalid(format!("{claim}: missing or malformed"));
        }
        ErrorKind::InvalidRsaKey(_) | ErrorKind::InvalidEcdsaKey | ErrorKind::InvalidEddsaKey => {
            "the gateway's key cannot be used for it"
        }
        _ => "not a JWT: expected three parts of base64url joined by dots, the first with a known alg",
    };
    why.into()
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))
}
