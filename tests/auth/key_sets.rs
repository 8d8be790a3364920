//! Keys behind an address: fetched, rotated, kept while the address is down.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use crate::issuer::{KeyServer, Signer, jwks};
use crate::support::TestGateway;

fn gateway(url: &str) -> TestGateway {
    TestGateway::start(&["auth.mode=jwt", &format!("auth.jwt.jwks_url={url}")])
}

async fn auth(gateway: &TestGateway, signer: &Signer) -> Value {
    let mut client = gateway.connect().await;
    let token = signer.scopes(&["*:**"]);
    client.call(json!({"op": "AUTH", "token": token})).await
}

#[actix::test]
async fn an_unknown_key_is_fetched_once_a_minute() {
    let (old, new, newest) = (
        Signer::new(Algorithm::ES256, Some("old")),
        Signer::new(Algorithm::RS256, Some("new")),
        Signer::new(Algorithm::EdDSA, Some("newest")),
    );
    let server = KeyServer::start(Some(jwks(&[&old])));
    let gateway = gateway(&server.url());
    // Right after the start the first fetch may still run: the AUTH waits for it.
    assert_eq!(auth(&gateway, &old).await["op"], "OK");
    assert_eq!(auth(&gateway, &old).await["op"], "OK");
    let before = server.hits();
    server.serve(Some(jwks(&[&old, &new])));
    assert_eq!(auth(&gateway, &new).await["op"], "OK");
    assert_eq!(auth(&gateway, &old).await["op"], "OK");
    assert_eq!(server.hits(), before + 1);
    // Within the same minute nothing more is fetched, whatever is named.
    server.serve(Some(jwks(&[&old, &new, &newest])));
    let answer = auth(&gateway, &newest).await;
    assert_eq!(answer["code"], "jwt_invalid", "{answer}");
    assert!(answer["msg"].as_str().unwrap().contains("does not know"), "{answer}");
    assert_eq!(server.hits(), before + 1);
}

#[actix::test]
async fn frames_behind_an_auth_wait_for_its_key() {
    let (old, new) = (
        Signer::new(Algorithm::ES256, Some("old")),
        Signer::new(Algorithm::ES256, Some("new")),
    );
    let server = KeyServer::start(Some(jwks(&[&old])));
    let gateway = gateway(&server.url());
    assert_eq!(auth(&gateway, &old).await["op"], "OK");
    server.serve(Some(jwks(&[&new])));
    let mut client = gateway.connect().await;
    let auth = client.send(json!({"op": "AUTH", "token": new.scopes(&["*:**"])})).await;
    let publish = client.send(json!({"op": "PUBLISH", "topic": "a", "payload": 1})).await;
    for corr in [auth, publish] {
        let answer = client.answer().await;
        assert_eq!(
            (&answer["op"], &answer["corr"]),
            (&json!("OK"), &json!(corr)),
            "{answer}"
        );
    }
}

#[actix::test]
async fn the_old_keys_stay_while_the_address_is_down() {
    let (old, new) = (
        Signer::new(Algorithm::ES256, Some("old")),
        Signer::new(Algorithm::ES256, Some("new")),
    );
    for broken in [None, Some("<html>".to_owned()), Some(json!({"keys": []}).to_string())] {
        let server = KeyServer::start(Some(jwks(&[&old])));
        let gateway = gateway(&server.url());
        assert_eq!(auth(&gateway, &old).await["op"], "OK");
        server.serve(broken);
        let before = server.hits();
        assert_eq!(auth(&gateway, &new).await["code"], "jwt_invalid");
        assert_eq!(server.hits(), before + 1);
        assert_eq!(auth(&gateway, &old).await["op"], "OK");
    }
}

#[actix::test]
async fn a_gateway_starts_while_the_address_is_down() {
    let signer = Signer::new(Algorithm::ES256, Some("a"));
    let server = KeyServer::start(None);
    let gateway = gateway(&server.url());
    let answer = auth(&gateway, &signer).await;
    assert_eq!(answer["code"], "jwt_invalid", "{answer}");
}
