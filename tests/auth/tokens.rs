//! Which tokens are taken, and what those are told that are not.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use crate::issuer::{SECRET, Signer, jwks, seconds};
use crate::support::TestGateway;

fn gateway(set: &[&str]) -> TestGateway {
    let mut all = vec!["auth.mode=jwt"];
    all.extend_from_slice(set);
    TestGateway::start(&all)
}

fn with_secret(more: &[&str]) -> TestGateway {
    let secret = format!("auth.jwt.secret={SECRET}");
    let mut set = vec![secret.as_str()];
    set.extend_from_slice(more);
    gateway(&set)
}

async fn auth(gateway: &TestGateway, token: &str) -> Value {
    let mut client = gateway.connect().await;
    client.call(json!({"op": "AUTH", "token": token})).await
}

async fn refused(gateway: &TestGateway, token: &str, why: &str) {
    let answer = auth(gateway, token).await;
    assert_eq!(answer["code"], "jwt_invalid", "{answer}");
    let msg = answer["msg"].as_str().unwrap();
    assert!(msg.contains(why), "expected {why:?}: {answer}");
    for part in token.split('.').filter(|part| part.len() > 8) {
        assert!(!msg.contains(part), "the token is repeated: {answer}");
    }
}

async fn taken(gateway: &TestGateway, token: &str) {
    let answer = auth(gateway, token).await;
    assert_eq!(answer["op"], "OK", "{answer}");
    assert!(answer["expires_ms"].as_u64().unwrap() <= 60_000, "{answer}");
}

#[actix::test]
async fn claims_are_checked() {
    let gateway = with_secret(&["auth.jwt.audience=tidegate", "auth.jwt.issuer=https://issuer.example"]);
    let signer = Signer::secret(SECRET);
    let base = json!({"exp": seconds(60), "aud": "tidegate", "iss": "https://issuer.example", "scopes": ["*:**"]});
    let with = |changes: Value| {
        let mut claims = base.clone();
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        signer.sign(&claims)
    };
    for good in [
        json!({}),
        json!({"aud": ["other", "tidegate"]}),
        json!({"nbf": seconds(2)}),
        json!({"nbf": seconds(-60)}),
        json!({"exp": seconds(-1)}),
        json!({"exp": seconds(30) as f64 + 0.5}),
        json!({"sub": "somebody", "iat": seconds(0)}),
    ] {
        taken(&gateway, &with(good)).await;
    }
    let wrong = [
        (json!({"exp": seconds(-7)}), "expired"),
        (json!({"exp": null}), "exp: missing"),
        (json!({"exp": "tomorrow"}), "exp: missing or malformed"),
        (json!({"nbf": seconds(30)}), "not valid yet"),
        (json!({"nbf": "tomorrow"}), "nbf"),
        (json!({"aud": "other"}), "aud"),
        (json!({"aud": null}), "aud: missing"),
        (json!({"iss": "https://evil.example"}), "iss"),
        (json!({"iss": null}), "iss: missing"),
        (json!({"scopes": "publish:a"}), "scopes: expected"),
        (json!({"policy": 5}), "policy: expected"),
        (json!({"sub": 7}), "sub"),
    ];
    for (changes, why) in wrong {
        refused(&gateway, &with(changes), why).await;
    }
}

#[actix::test]
async fn an_audience_counts_only_where_one_is_configured() {
    let gateway = with_secret(&[]);
    let token = Signer::secret(SECRET).sign(&json!({"exp": seconds(60), "aud": "anybody", "scopes": []}));
    taken(&gateway, &token).await;
}

#[actix::test]
async fn what_is_no_token_is_refused() {
    let gateway = with_secret(&[]);
    let good = Signer::secret(SECRET).scopes(&["*:**"]);
    let (head, signature) = good.rsplit_once('.').unwrap();
    let mut flipped = signature.to_owned();
    let first = if flipped.starts_with('A') { "B" } else { "A" };
    flipped.replace_range(..1, first);
    refused(&gateway, &format!("{head}.{flipped}"), "bad signature").await;
    refused(&gateway, &format!("{head}."), "signature").await;
    refused(&gateway, &Signer::secret("another").scopes(&["*:**"]), "bad signature").await;
    for nonsense in ["", "a", "a.b.c", "....", "\u{1F600}.\u{1F600}.x", head] {
        refused(&gateway, nonsense, "not a JWT").await;
    }
    refused(&gateway, &"x".repeat(70_000), "longer than").await;
    let mut client = gateway.connect().await;
    client.err(json!({"op": "AUTH"}), "jwt_invalid").await;
    client
        .err(json!({"op": "PUBLISH", "topic": "a", "payload": 1}), "unauthorized")
        .await;
    // {"alg":"none"} and {"alg":"HS512"}, with the claims of a good token.
    let claims = good.split('.').nth(1).unwrap();
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0"] {
        refused(&gateway, &format!("{header}.{claims}."), "not a JWT").await;
    }
    let header = jsonwebtoken::Header {
        crit: Some(vec!["b64".to_owned()]),
        ..jsonwebtoken::Header::default()
    };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let critical = jsonwebtoken::encode(&header, &json!({"exp": seconds(60)}), &key).unwrap();
    refused(&gateway, &critical, "crit").await;
    refused(&gateway, &format!("eyJhbGciOiJIUzUxMiJ9.{claims}.{signature}"), "alg").await;
}

#[actix::test]
async fn each_algorithm_takes_its_own_signatures_only() {
    let folder = tempfile::tempdir().unwrap();
    for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
        let (signer, stranger) = (Signer::new(algorithm, None), Signer::new(algorithm, None));
        let pem_file = folder.path().join(format!("{algorithm:?}.pem"));
        let set_file = folder.path().join(format!("{algorithm:?}.json"));
        std::fs::write(&pem_file, signer.public_pem()).unwrap();
        std::fs::write(&set_file, jwks(&[&signer])).unwrap();
        for set in [
            format!("auth.jwt.public_key_file={}", pem_file.display()),
            format!("auth.jwt.jwks_file={}", set_file.display()),
        ] {
            let gateway = gateway(&[&set]);
            taken(&gateway, &signer.scopes(&["*:**"])).await;
            refused(&gateway, &stranger.scopes(&["*:**"]), "bad signature").await;
            // The public key, which everybody has, is no shared secret.
            for public in [
                signer.public_pem().to_owned(),
                signer.public_pem().trim_end().to_owned(),
            ] {
                refused(&gateway, &Signer::secret(&public).scopes(&["*:**"]), "alg").await;
            }
            for other in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
                if other != algorithm {
                    refused(&gateway, &Signer::new(other, None).scopes(&["*:**"]), "alg").await;
                }
            }
        }
    }
    // And a gateway with a secret takes no public-key signatures.
    let gateway = with_secret(&[]);
    refused(&gateway, &Signer::new(Algorithm::RS256, None).scopes(&["*:**"]), "alg").await;
}
