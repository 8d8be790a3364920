//! Tokens for development: signed with the secret that the gateway checks them with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::rights::Scope;
use crate::config::{JwtConfig, JwtKey};

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The gateway has only public keys, or none yet.
    #[error(
        "only a gateway with auth.jwt.secret can have tokens made here: with public keys they come from who has the private one"
    )]
    NoSecret,
    /// Nothing that the gateway knows.
    #[error("{scope:?} is no scope: expected publish:PATTERN, subscribe:PATTERN, *:PATTERN, admin or metrics{why}")]
    Scope {
        /// As it was given.
        scope: String,
        /// What is wrong with it, if more is known.
        why: String,
    },
    /// The signing itself failed.
    #[error("the token could not be signed: {0}")]
    Signing(#[from] jsonwebtoken::errors::Error),
}

/// A token with these scopes that is good for `ttl`.
pub fn sign(config: &JwtConfig, scopes: &[String], subject: Option<&str>, ttl: Duration) -> Result<String, SignError> {
    let JwtKey::Secret(secret) = &config.key else {
        return Err(SignError::NoSecret);
    };
    for scope in scopes {
        let why = match Scope::parse(scope) {
            Ok(Some(_)) => continue,
            Ok(None) => String::new(),
            Err(why) => format!(" ({why})"),
        };
        let scope = scope.clone();
        return Err(SignError::Scope { scope, why });
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut claims = json!({"iat": now, "exp": now.saturating_add(ttl.as_secs()), "scopes": scopes});
    let optional = [
        ("sub", subject),
        ("aud", config.audience.as_deref()),
        ("iss", config.issuer.as_deref()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            claims[name] = value.into();
        }
    }
    let key = EncodingKey::from_secret(secret.reveal().as_bytes());
    Ok(encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}
