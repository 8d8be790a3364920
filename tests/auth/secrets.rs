//! Secrets come from files, tokens from the command line, and neither is ever shown.

use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use futures_util::{SinkExt, StreamExt};

use crate::http::request;
use crate::issuer::{SECRET, Signer, seconds};
use crate::program::{Program, run, said};

/// Connects, and gives the answer to an AUTH.
pub async fn authenticate(address: std::net::SocketAddr, token: &str) -> Value {
    let (mut socket, _) = connect_async(format!("ws://{address}/ws")).await.unwrap();
    let frame = json!({"op": "AUTH", "token": token}).to_string();
    socket.send(Message::text(frame)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[actix::test]
async fn nothing_secret_is_logged_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "marker-right\n").unwrap();
    let mut program = Program::serve(&["auth.mode=token", &format!("auth.token_file={}", file.display())]);
    let own = program.address.to_string();
    assert_eq!(authenticate(program.address, "marker-right").await["op"], "OK");
    assert_eq!(authenticate(program.address, "marker-wrong").await["code"], "bad_token");
    let host = ("host", own.as_str());
    let answer = request(program.address, "GET /metrics?token=marker-url", &[host]).await;
    assert_eq!(answer.status, 400);
    let wrong = request(
        program.address,
        "GET /metrics",
        &[host, ("authorization", "Bearer marker-header")],
    )
    .await;
    let right = request(
        program.address,
        "GET /metrics",
        &[host, ("authorization", "Bearer marker-right")],
    )
    .await;
    let odd = request(
        program.address,
        "GET /metrics",
        &[host, ("authorization", "marker-odd")],
    )
    .await;
    assert_eq!((wrong.status, right.status, odd.status), (401, 200, 401));
    // A new token, taken over while running.
    std::fs::write(&file, "marker-second").unwrap();
    program.signal("-HUP");
    program.wait_for("loaded again");
    assert_eq!(authenticate(program.address, "marker-second").await["op"], "OK");
    assert_eq!(authenticate(program.address, "marker-right").await["code"], "bad_token");
    let log = program.stop();
    assert!(log.contains("somebody was not let in"), "{log}");
    for text in [&log, &answer.body, &wrong.body, &right.body, &odd.body] {
        assert!(!text.contains("marker"), "{text}");
    }
}

#[actix::test]
async fn no_jwt_and_no_key_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let set = ["auth.mode=jwt", &format!("auth.jwt.secret_file={}", file.display())];
    let program = Program::serve(&set);
    let good = Signer::secret(SECRET).scopes(&["*:**"]);
    let expired = Signer::secret(SECRET).sign(&json!({"exp": seconds(-60), "sub": "marker-subject"}));
    assert_eq!(authenticate(program.address, &good).await["op"], "OK");
    assert_eq!(authenticate(program.address, &expired).await["code"], "jwt_invalid");
    let log = program.stop();
    for token in [&good, &expired] {
        for part in token.split('.') {
            assert!(!log.contains(part), "{log}");
        }
    }
    assert!(!log.contains(SECRET) && !log.contains("marker"), "{log}");
    let mut args = vec!["config", "print"];
    set.iter().for_each(|entry| args.extend(["--set", entry]));
    let printed = said(&run(&args));
    assert!(
        printed.contains("secret_file") && !printed.contains(SECRET),
        "{printed}"
    );
}

#[actix::test]
async fn tokens_for_development_are_taken() {
    let set = [
        "auth.mode=jwt".to_owned(),
        format!("auth.jwt.secret={SECRET}"),
        "auth.jwt.audience=tidegate".to_owned(),
        "auth.jwt.issuer=me".to_owned(),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let token = |more: &[&str], set: &[&str]| {
        let mut args = vec!["token"];
        args.extend_from_slice(more);
        set.iter().for_each(|entry| args.extend(["--set", entry]));
        run(&args)
    };
    let output = token(
        &[
            "--scope",
            "publish:orders.*",
            "--scope",
            "admin",
            "--sub",
            "me",
            "--ttl",
            "5m",
        ],
        &set,
    );
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let gateway = crate::support::TestGateway::start(&set);
    let mut client = gateway.connect().await;
    let answer = client.ok(json!({"op": "AUTH", "token": text.trim()})).await;
    let left = answer["expires_ms"].as_u64().unwrap();
    assert!((290_000..=300_000).contains(&left), "{answer}");
    client.publish("orders.eu", json!(1)).await;
    client
        .err(json!({"op": "SUBSCRIBE", "topic": "orders.eu"}), "forbidden")
        .await;

    let key = format!("auth.jwt.public_key_file={}", "no-such-file");
    let wrong: [(&[&str], &[&str], &str); 4] = [
        (&["--scope", "publish"], &set, "no scope"),
        (&["--scope", "publish:A"], &set, "pattern"),
        (&["--scope", "admin"], &[], "auth.mode"),
        (&["--scope", "admin"], &["auth.mode=jwt", &key], "auth.jwt.secret"),
    ];
    for (more, set, why) in wrong {
        let output = token(more, set);
        let text = said(&output);
        assert!(
            output.status.code() == Some(2) && text.contains(why),
            "{more:?}: {text}"
        );
        assert!(!text.contains(SECRET));
    }
}

#[test]
fn files_that_cannot_be_used_are_named_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let private = rcgen::KeyPair::generate().unwrap();
    let cases = [
        ("auth.jwt.public_key_file", "missing".to_owned(), "cannot be read"),
        ("auth.jwt.public_key_file", write("text", "hello"), "no public key"),
        (
            "auth.jwt.public_key_file",
            write("private", &private.serialize_pem()),
            "private key",
        ),
        ("auth.jwt.jwks_file", "missing".to_owned(), "cannot be read"),
        (
            "auth.jwt.jwks_file",
            write("set", "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AAAA\"}]}"),
            "no key for",
        ),
        ("auth.jwt.jwks_file", write("json", "[]"), "no JWK set"),
        ("auth.jwt.secret_file", "missing".to_owned(), "cannot be read"),
        ("auth.jwt.secret_file", write("empty", ""), "empty"),
    ];
    for (key, file, why) in cases {
        let set = format!("{key}={file}");
        let output = run(&[
            "serve",
            "--set",
            "store.kind=memory",
            "--set",
            "auth.mode=jwt",
            "--set",
            &set,
        ]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{set}: {text}");
        for part in [key, &file, why] {
            assert!(text.contains(part), "{set}: {part:?} in {text}");
        }
    }
}
