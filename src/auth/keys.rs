//! What signatures are checked with. Every key has exactly one algorithm, so that nobody can choose another for it: a
//! public key is never taken for a shared secret, and `none` is no algorithm.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;

use super::voucher::Voucher;

/// The most keys of a set.
const KEYS_MAX: usize = 1_000;
/// The shortest RSA modulus that is accepted, in bytes: 2048 bits.
const RSA_BYTES_MIN: usize = 256;
/// The length of an uncompressed point on P-256.
const P256_POINT_BYTES: usize = 65;
/// The length of an Ed25519 public key.
const ED25519_BYTES: usize = 32;

/// The most keys that a signature is tried with, where a token does not say which one signed it: each try takes time.
pub(super) const TRIES_MAX: usize = 16;

/// One key.
pub(super) struct Key {
    /// None: good for tokens that name any.
    kid: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
    /// Stands for the key, however it is called.
    pub(super) print: Voucher,
}

impl Key {
    fn new(kid: Option<String>, algorithm: Algorithm, key: DecodingKey) -> Key {
        let print = match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => Voucher::of((n, e)),
            DecodingKeyKind::SecretOrDer(bytes) => Voucher::of(bytes),
        };
        Key {
            kid,
            algorithm,
            key,
            print,
        }
    }
}

/// The keys there are.
#[derive(Default)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// One shared secret, HS256.
    pub(super) fn from_secret(secret: &str) -> KeySet {
        let key = DecodingKey::from_secret(secret.as_bytes());
        KeySet(vec![Key::new(None, Algorithm::HS256, key)])
    }

    /// One public key. What kind it is says which algorithm it is for.
    pub(super) fn from_pem(pem: &[u8]) -> Result<KeySet, String> {
        let text = String::from_utf8_lossy(pem);
        if text.contains("PRIVATE KEY-----") {
            return Err("it holds a private key: give the public one, and keep the private one elsewhere".into());
        }
        if !text.contains("PUBLIC KEY-----") {
            return Err("it holds no public key in PEM (-----BEGIN PUBLIC KEY-----)".into());
        }
        let kinds = [
            (Algorithm::EdDSA, DecodingKey::from_ed_pem(pem)),
            (Algorithm::ES256, DecodingKey::from_ec_pem(pem)),
            (Algorithm::RS256, DecodingKey::from_rsa_pem(pem)),
        ];
        let found = kinds
            .into_iter()
            .find_map(|(algorithm, key)| Some((algorithm, key.ok()?)));
        let (algorithm, key) = found.ok_or("its key is none of RSA, EC P-256 and Ed25519")?;
        check_size(algorithm, &key)?;
        Ok(KeySet(vec![Key::new(None, algorithm, key)]))
    }

    /// A JWK set. Keys that are not for this (encryption, other algorithms, shared secrets) are left out, as the standard
    /// asks for; a set without any that can be used is an error.
    pub(super) fn from_jwks(json: &str) -> Result<KeySet, String> {
        #[derive(Deserialize)]
        struct RawSet {
            keys: Vec<serde_json::Value>,
        }
        let raw: RawSet = serde_json::from_str(json).map_err(|_| "it is no JWK set: expected {\"keys\": [...]}")?;
        if raw.keys.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let mut keys = Vec::new();
        for (at, value) in raw.keys.into_iter().enumerate() {
            match serde_json::from_value::<Jwk>(value)
                .map_err(|_| "not understood")
                .and_then(|jwk| key_of(&jwk))
            {
                Ok(key) => keys.push(key),
                Err(why) => tracing::debug!(key = at, why, "a key of the set is left out"),
            }
        }
        if keys.is_empty() {
            return Err("it has no key for RS256, ES256 or EdDSA".into());
        }
        Ok(KeySet(keys))
    }

    /// Those that may have signed a token with this header. A token that names no key may be any one's.
    pub(super) fn candidates(&self, kid: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| match (&key.kid, kid) {
            (Some(own), Some(wanted)) => own == wanted,
            _ => true,
        })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn key_of(jwk: &Jwk) -> Result<Key, &'static str> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return Err("not for signatures");
    }
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return Err("neither RSA, EC P-256 nor Ed25519"),
    };
    let stated = match jwk.common.key_algorithm {
        None => algorithm,
        Some(KeyAlgorithm::RS256) => Algorithm::RS256,
        Some(KeyAlgorithm::ES256) => Algorithm::ES256,
        Some(KeyAlgorithm::EdDSA) => Algorithm::EdDSA,
        Some(_) => return Err("for another algorithm"),
    };
    if stated != algorithm {
        return Err("its alg does not fit its kind");
    }
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "not base64url")?;
    check_size(algorithm, &key)?;
    Ok(Key::new(jwk.common.key_id.clone(), algorithm, key))
}

/// Said when a key is read: later, all that is known is that no signature fits.
fn check_size(algorithm: Algorithm, key: &DecodingKey) -> Result<(), &'static str> {
    let bytes = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => n.len(),
        DecodingKeyKind::SecretOrDer(bytes) => bytes.len(),
    };
    match algorithm {
        Algorithm::RS256 if bytes < RSA_BYTES_MIN => Err("its RSA key is shorter than 2048 bits"),
        Algorithm::ES256 if bytes != P256_POINT_BYTES => Err("its EC key is not on P-256"),
        Algorithm::EdDSA if bytes != ED25519_BYTES => Err("its key is not an Ed25519 one"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
    use serde_json::json;

    use super::*;

    fn algorithms(set: &KeySet, kid: Option<&str>) -> Vec<Algorithm> {
        set.candidates(kid).map(|key| key.algorithm).collect()
    }

    #[test]
    fn a_public_keys_kind_says_its_algorithm() {
        let cases = [
            (&PKCS_RSA_SHA256, Some(Algorithm::RS256)),
            (&PKCS_ECDSA_P256_SHA256, Some(Algorithm::ES256)),
            (&PKCS_ED25519, Some(Algorithm::EdDSA)),
            (&PKCS_ECDSA_P384_SHA384, None),
        ];
        for (kind, expected) in cases {
            let pair = KeyPair::generate_for(kind).unwrap();
            let read = KeySet::from_pem(pair.public_key_pem().as_bytes());
            match expected {
                Some(algorithm) => assert_eq!(algorithms(&read.unwrap(), Some("any")), [algorithm]),
                None => assert!(read.is_err_and(|why| why.contains("P-256"))),
            }
            assert!(KeySet::from_pem(pair.serialize_pem().as_bytes()).is_err_and(|why| why.contains("private key")));
        }
        for wrong in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
            assert!(KeySet::from_pem(wrong.as_bytes()).is_err());
        }
    }

    #[test]
    fn a_set_keeps_what_it_can_use_and_leaves_the_rest() {
        let ed = |more: serde_json::Value| {
            let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)});
            key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            key
        };
        let set = json!({"keys": [
            ed(json!({"kid": "good", "alg": "EdDSA", "use": "sig"})),
            ed(json!({})),
            ed(json!({"kid": "encryption", "use": "enc"})),
            ed(json!({"kid": "other algorithm", "alg": "RS256"})),
            ed(json!({"kid": "new algorithm", "alg": "ML-DSA-87"})),
            ed(json!({"kid": "short", "x": "AAAA"})),
            {"kid": "shared secret", "kty": "oct", "k": "AAAA", "alg": "HS256"},
            {"kid": "short", "kty": "RSA", "n": "AAAA", "e": "AQAB"},
            {"kid": "other curve", "kty": "EC", "crv": "P-384", "x": "AAAA", "y": "AAAA"},
            {"kid": "unknown", "kty": "lattice"},
            "nonsense",
        ]});
        let set = KeySet::from_jwks(&set.to_string()).unwrap();
        assert_eq!(set.0.len(), 2);
        assert_eq!(algorithms(&set, Some("good")).len(), 2);
        assert_eq!(algorithms(&set, Some("short")).len(), 1);
        assert_eq!(algorithms(&set, None).len(), 2);
        for wrong in ["", "[]", "{}", "{\"keys\": []}", "{\"keys\": [7]}"] {
            assert!(KeySet::from_jwks(wrong).is_err(), "{wrong}");
        }
    }
}
