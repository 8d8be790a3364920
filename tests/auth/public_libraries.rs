//! Tokens and keys that public libraries made (PyJWT, python-jose) are taken, and refused where they should be.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::blocks::block;
use crate::support::TestGateway;

/// Runs a program with the libraries.
fn run(program: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/tools/jwt/bin/python");
    assert!(
        python.exists(),
        "PyJWT and python-jose are missing: tests/run installs them (need_jwt_libraries)"
    );
    let output = Command::new(python).args(["-c", program]).output().expect("Python");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    output.stdout
}

/// What the libraries made.
fn made() -> Value {
    serde_json::from_slice(&run(include_str!("public_libraries.py"))).expect("JSON")
}

async fn auth(gateway: &TestGateway, token: &Value) -> Value {
    let mut client = gateway.connect().await;
    let answer = client.call(json!({"op": "AUTH", "token": token})).await;
    if answer["op"] == "OK" {
        client.publish("orders.eu", json!(1)).await;
        client
            .err(json!({"op": "PUBLISH", "topic": "logs", "payload": 1}), "forbidden")
            .await;
    }
    answer
}

#[actix::test]
async fn their_tokens_are_taken_with_every_kind_of_key() {
    let made = made();
    let folder = tempfile::tempdir().unwrap();
    let mut taken = Vec::new();
    for case in made["cases"].as_array().unwrap() {
        let name = format!("{} {}", case["library"], case["algorithm"]);
        let mut settings = Vec::new();
        if let Some(secret) = case["secret"].as_str() {
            settings.push(format!("auth.jwt.secret={secret}"));
        } else {
            let (pem, set) = (folder.path().join("key.pem"), folder.path().join("keys.json"));
            std::fs::write(&pem, case["pem"].as_str().unwrap()).unwrap();
            std::fs::write(&set, case["jwks"].to_string()).unwrap();
            settings.push(format!("auth.jwt.public_key_file={}", pem.display()));
            settings.push(format!("auth.jwt.jwks_file={}", set.display()));
        }
        for setting in settings {
            let gateway = TestGateway::start(&[
                "auth.mode=jwt",
                &setting,
                "auth.jwt.audience=tidegate",
                "auth.jwt.issuer=https://issuer.example",
            ]);
            let tokens = &case["tokens"];
            for good in ["good", "audiences"] {
                let answer = auth(&gateway, &tokens[good]).await;
                assert_eq!(answer["op"], "OK", "{name}, {setting}, {good}: {answer}");
            }
            for bad in [&tokens["expired"], &tokens["another issuer"], &made["unsigned"]] {
                let answer = auth(&gateway, bad).await;
                assert_eq!(answer["code"], "jwt_invalid", "{name}, {setting}: {answer}");
            }
            taken.push(name.clone());
        }
    }
    // HS256 once, the others as PEM and as a set; python-jose has no EdDSA.
    assert_eq!(taken.len(), 7 + 5, "{taken:?}");
}

#[actix::test]
async fn the_readme_s_issuer_and_configuration_fit() {
    let configured: toml::Table = block("jwt").parse().expect("TOML");
    let jwt = configured["auth"]["jwt"].as_table().unwrap();
    let mut set = vec!["auth.mode=jwt".to_owned()];
    set.extend(
        jwt.iter()
            .map(|(key, value)| format!("auth.jwt.{key}={}", value.as_str().unwrap())),
    );
    let gateway = TestGateway::start(&set.iter().map(String::as_str).collect::<Vec<_>>());
    let token = String::from_utf8(run(&block("issuer"))).unwrap();
    let answer = auth(&gateway, &json!(token.trim())).await;
    assert_eq!(answer["op"], "OK", "{answer}");
}
