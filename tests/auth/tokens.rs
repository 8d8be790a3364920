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
    let strict = ["auth.jwt.audience=tidegate", "auth.jwt.issuer=https://issuer.example"];
    let gateway = with_secret(&strict);
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
        (json!({"aud": []}), "aud"),
        (json!({"aud": ["other"]}), "aud"),
        (json!({"aud": "tidegate "}), "aud"),
        (json!({"iss": ["https://evil.example", "https://other.example"]}), "iss"),
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
    // Another gateway: this one has had enough failed attempts.
    let gateway = with_secret(&strict);
    for of_the_wrong_type in [
        json!({"exp": [seconds(60)]}),
        json!({"exp": {"at": seconds(60)}}),
        json!({"exp": true}),
        json!({"exp": -1}),
        json!({"nbf": [0]}),
        json!({"nbf": 1e300}),
        json!({"aud": 5}),
        json!({"aud": {"tidegate": true}}),
        json!({"iss": 5}),
        json!({"iss": {"https://issuer.example": 1}}),
    ] {
        refused(&gateway, &with(of_the_wrong_type), "token: ").await;
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

/// A token with this header, these claims, and a signature.
fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |json: &Value| base64url(json.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            .wrapping_shl(8 * (3 - u32::try_from(chunk.len()).unwrap()));
        for at in 0..=chunk.len() {
            let letter = bits >> (18 - 6 * at) & 0x3f;
            text.push(char::from(LETTERS[letter as usize]));
        }
    }
    text
}

#[actix::test]
async fn a_key_that_a_token_brings_along_or_points_at_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (own, stranger) = (
        Signer::new(Algorithm::ES256, Some("own")),
        Signer::new(Algorithm::ES256, Some("own")),
    );
    let set = folder.path().join("keys.json");
    std::fs::write(&set, jwks(&[&own])).unwrap();
    let gateway = gateway(&[&format!("auth.jwt.jwks_file={}", set.display())]);
    taken(&gateway, &own.scopes(&["*:**"])).await;
    let evil = crate::issuer::KeyServer::start(Some(jwks(&[&stranger])));
    let attacks = [
        json!({"jwk": stranger.jwk()}),
        json!({"jku": evil.url()}),
        json!({"x5u": evil.url()}),
        json!({"jku": evil.url(), "jwk": stranger.jwk(), "x5t": "AAAA"}),
    ];
    for extra in attacks {
        let header = stranger.header(&extra);
        refused(&gateway, &stranger.sign_with(&header, &json!({"exp": seconds(60)})), "").await;
    }
    assert_eq!(evil.hits(), 0, "nobody asks the address that a token names");
    // A signature of zeros, which a careless check of ECDSA takes for every message.
    let claims = json!({"exp": seconds(60), "scopes": ["*:**"]});
    let zeros = by_hand(&json!({"alg": "ES256", "kid": "own"}), &claims, &base64url(&[0; 64]));
    refused(&gateway, &zeros, "bad signature").await;
}

#[actix::test]
async fn a_kid_is_a_name_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (
        Signer::new(Algorithm::ES256, Some("own")),
        Signer::new(Algorithm::ES256, Some("other")),
    );
    let set = folder.path().join("keys.json");
    std::fs::write(&set, jwks(&[&own, &other])).unwrap();
    let gateway = gateway(&[&format!("auth.jwt.jwks_file={}", set.display())]);
    taken(&gateway, &own.scopes(&["*:**"])).await;
    let mut liar = Signer::new(Algorithm::ES256, Some("own"));
    // A file that holds the liar's own key, an empty one, a query: all of them unknown names.
    let own_file = folder.path().join("liar.pem");
    std::fs::write(&own_file, liar.public_pem()).unwrap();
    let long = "k".repeat(10_000);
    for kid in [
        own_file.to_str().unwrap(),
        "../../../../../../dev/null",
        "/dev/null",
        "file:///etc/passwd",
        "' OR 1=1 --",
        "own\u{0}",
        "OWN",
        "",
        &long,
    ] {
        liar.kid = Some(kid.to_owned());
        refused(&gateway, &liar.scopes(&["*:**"]), "does not know").await;
    }
    for (kid, why) in [("own", "bad signature"), ("other", "bad signature")] {
        liar.kid = Some(kid.to_owned());
        refused(&gateway, &liar.scopes(&["*:**"]), why).await;
    }
    // Who signs with one key and names another has not signed.
    let mut confused = own;
    confused.kid = Some("other".to_owned());
    refused(&gateway, &confused.scopes(&["*:**"]), "bad signature").await;
    // An empty shared secret (what `/dev/null` would hold) is no key either.
    let empty = Signer::secret("").scopes(&["*:**"]);
    refused(&gateway, &empty, "alg").await;
}

#[actix::test]
async fn a_token_that_names_no_key_is_not_tried_with_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let signers: Vec<Signer> = (0..40)
        .map(|n| Signer::new(Algorithm::EdDSA, Some(&format!("k{n}"))))
        .collect();
    let set = folder.path().join("keys.json");
    std::fs::write(&set, jwks(&signers.iter().collect::<Vec<_>>())).unwrap();
    let gateway = gateway(&[&format!("auth.jwt.jwks_file={}", set.display())]);
    for signer in [&signers[0], &signers[39]] {
        taken(&gateway, &signer.scopes(&["*:**"])).await;
    }
    let mut signers = signers;
    for (at, why) in [(15, None), (39, Some("too many to try"))] {
        signers[at].kid = None;
        let token = signers[at].scopes(&["*:**"]);
        match why {
            None => taken(&gateway, &token).await,
            Some(why) => refused(&gateway, &token, why).await,
        }
    }
}

#[actix::test]
async fn a_huge_token_is_refused_at_every_door() {
    let gateway = with_secret(&[]);
    let claims = json!({"exp": seconds(60), "scopes": ["admin"], "ballast": "x".repeat(100_000)});
    let token = Signer::secret(SECRET).sign(&claims);
    refused(&gateway, &token, "longer than").await;
    let own = gateway.address.to_string();
    let bearer = format!("Bearer {token}");
    let headers = [("host", own.as_str()), ("authorization", bearer.as_str())];
    let answer = crate::http::request(gateway.address, "GET /metrics", &headers).await;
    assert!([401, 431].contains(&answer.status), "{answer:?}");
    // More rights than anybody can look through with every frame.
    let scopes: Vec<String> = (0..1_001).map(|n| format!("publish:t{n}")).collect();
    let token = Signer::secret(SECRET).sign(&json!({"exp": seconds(60), "scopes": scopes}));
    refused(&gateway, &token, "more than 1000").await;
}
