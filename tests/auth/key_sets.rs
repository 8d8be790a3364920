//! Keys behind an address: fetched, rotated, kept while the address is down.

use std::sync::Arc;

use jsonwebtoken::Algorithm;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use crate::issuer::{KeyServer, Signer, jwks};
use crate::program::Program;
use crate::secrets::authenticate;
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

#[actix::test]
async fn keys_come_over_tls_and_stay_when_the_configuration_is_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], signing_key.into())
        .unwrap();
    let signer = Signer::new(Algorithm::EdDSA, Some("a"));
    let server = KeyServer::start_with(Some(jwks(&[&signer])), Some(Arc::new(tls)));
    let (port, token) = (server.address.port(), signer.scopes(&["*:**"]));
    let url = format!("auth.jwt.jwks_url=https://user:marker-password@localhost:{port}/keys?token=marker-query");
    let set = ["auth.mode=jwt", url.as_str()];

    // A machine that does not trust the certificate gets no keys.
    let wary = Program::serve(&set);
    assert_eq!(authenticate(wary.address, &token).await["code"], "jwt_invalid");
    let log = wary.stop();
    assert!(log.contains("could not be fetched") && !log.contains("marker"), "{log}");

    let mut program = Program::serve_with(&set, &[("SSL_CERT_FILE", trusted.to_str().unwrap())]);
    assert_eq!(authenticate(program.address, &token).await["op"], "OK");
    server.serve(None);
    program.signal("-HUP");
    program.wait_for("loaded again");
    assert_eq!(authenticate(program.address, &token).await["op"], "OK");
    let log = program.stop();
    assert!(!log.contains("marker"), "{log}");
}
