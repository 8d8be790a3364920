//! Tokens and keys that public libraries made (PyJWT, python-jose) are taken, and refused where they should be.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::TestGateway;

/// What the libraries made.
fn made() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/tools/jwt/bin/python");
    assert!(
        python.exists(),
        "PyJWT and python-jose are missing: tests/run installs them (need_jwt_libraries)"
    );
    let script = root.join("tests/auth/public_libraries.py");
    let output = Command::new(python).arg(script).output().expect("Python");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    serde_json::from_slice(&output.stdout).expect("JSON")
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
