//! What let somebody in can be taken back: then they are out, at once.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;

use crate::issuer::{KeyServer, SECRET, Signer, jwks, seconds};
use crate::program::Program;
use crate::rights::{client, gateway};
use crate::support::{Client, DEADLINE, TestGateway};

async fn enter(program: &Program, token: &str) -> Client {
    let (socket, _) = connect_async(format!("ws://{}/ws", program.address)).await.unwrap();
    let mut client = Client::over(socket);
    client.ok(json!({"op": "AUTH", "token": token})).await;
    client
}

fn reload(program: &mut Program) {
    program.signal("-HUP");
    program.wait_for("loaded again");
}

#[actix::test]
async fn a_token_that_was_exchanged_ends_the_connections_it_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let mut program = Program::serve(&["auth.mode=token", &format!("auth.token_file={}", file.display())]);
    let mut member = enter(&program, "first").await;
    member.subscribe("orders", "g", json!({"from": "earliest"})).await;
    member.publish("orders", json!(1)).await;
    assert_eq!(member.event().await["ctx"]["attempt"], 1);
    // Nothing has changed: nobody notices.
    reload(&mut program);
    member.publish("orders", json!(2)).await;
    assert_eq!(member.event().await["event"]["payload"], 2);

    std::fs::write(&file, "second").unwrap();
    reload(&mut program);
    assert_eq!(member.closed().await, 4401);
    // Its leases went back, and the deliveries do not count.
    let mut other = enter(&program, "second").await;
    other.subscribe("orders", "g", json!({})).await;
    let attempts: Vec<Value> = other
        .events(2)
        .await
        .iter()
        .map(|event| event["ctx"]["attempt"].clone())
        .collect();
    assert_eq!(attempts, [1, 1]);
}

fn write(file: &Path, signers: &[&Signer]) {
    std::fs::write(file, jwks(signers)).unwrap();
}

#[actix::test]
async fn a_key_that_is_gone_ends_those_whose_tokens_it_signed_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (lost, kept) = (
        Signer::new(Algorithm::ES256, Some("lost")),
        Signer::new(Algorithm::ES256, Some("kept")),
    );
    write(&file, &[&lost, &kept]);
    let mut program = Program::serve(&["auth.mode=jwt", &format!("auth.jwt.jwks_file={}", file.display())]);
    let mut out = enter(&program, &lost.scopes(&["*:**"])).await;
    let mut stays = enter(&program, &kept.scopes(&["*:**"])).await;
    write(&file, &[&kept]);
    reload(&mut program);
    assert_eq!(out.closed().await, 4401);
    stays.publish("orders", json!(1)).await;
}

#[actix::test]
async fn a_key_that_its_issuer_took_back_counts_no_longer() {
    let (lost, kept) = (
        Signer::new(Algorithm::ES256, Some("lost")),
        Signer::new(Algorithm::ES256, Some("kept")),
    );
    let server = KeyServer::start(Some(jwks(&[&lost])));
    let timing = Timing {
        ping: Duration::from_millis(300),
        ..Timing::default()
    };
    let url = format!("auth.jwt.jwks_url={}", server.url());
    let gateway = TestGateway::start_with(&["auth.mode=jwt", &url], timing, Faults::default());
    let mut out = gateway.connect().await;
    let token = lost.scopes(&["*:**"]);
    out.ok(json!({"op": "AUTH", "token": token})).await;
    server.serve(Some(jwks(&[&kept])));
    // The next key that is not known has the set fetched anew.
    let mut stays = gateway.connect().await;
    stays.ok(json!({"op": "AUTH", "token": kept.scopes(&["*:**"])})).await;
    // That the old token was seen before does not help it.
    let mut again = gateway.connect().await;
    again.err(json!({"op": "AUTH", "token": token}), "jwt_invalid").await;
    assert_eq!(out.closed().await, 4401);
    stays.publish("orders", json!(1)).await;
}

#[actix::test]
async fn a_replayed_token_gives_neither_more_nor_longer_rights() {
    let gateway = gateway();
    let signer = Signer::secret(SECRET);
    // Good for one to two seconds more, and with more rights than the one that follows.
    let old = signer.sign(&json!({"exp": seconds(-3), "scopes": ["*:**"]}));
    let narrow = signer.scopes(&["publish:orders"]);
    let mut refreshed = client(&gateway, json!({"exp": seconds(60), "scopes": ["*:**"]})).await;
    let mut first = gateway.connect().await;
    first.ok(json!({"op": "AUTH", "token": old})).await;
    refreshed.ok(json!({"op": "AUTH", "token": narrow})).await;
    assert_eq!(first.closed().await, 4401, "its token is over by now");
    // A token that is over stays so, on this connection and on any other, although it was good before.
    refreshed.err(json!({"op": "AUTH", "token": old}), "jwt_invalid").await;
    let mut fresh = gateway.connect().await;
    fresh.err(json!({"op": "AUTH", "token": old}), "jwt_invalid").await;
    fresh
        .err(
            json!({"op": "PUBLISH", "topic": "orders", "payload": 1}),
            "unauthorized",
        )
        .await;
    refreshed
        .err(json!({"op": "SUBSCRIBE", "topic": "orders"}), "forbidden")
        .await;
    refreshed.publish("orders", json!(1)).await;
    // The same token again does not last longer for it.
    let left = async |client: &mut Client| {
        let answer = client.ok(json!({"op": "AUTH", "token": narrow})).await;
        answer["expires_ms"].as_u64().unwrap()
    };
    let before = left(&mut refreshed).await;
    let pause = tokio::time::sleep(Duration::from_millis(20));
    pause.await;
    assert!(left(&mut refreshed).await < before);
}

#[actix::test]
async fn good_tokens_are_not_taken_without_end_either() {
    let gateway = gateway();
    let mut client = client(&gateway, json!({"scopes": ["*:**"]})).await;
    let frame = json!({"op": "AUTH", "token": Signer::secret(SECRET).scopes(&["*:**"])});
    let mut limited = None;
    for _ in 0..200 {
        let answer = client.call(frame.clone()).await;
        if answer["op"] == "ERR" {
            limited = Some(answer);
            break;
        }
    }
    let answer = limited.expect("an end of AUTHs");
    assert_eq!(answer["code"], "rate_limited", "{answer}");
    assert!(
        (1..=1_000).contains(&answer["retry_after_ms"].as_u64().unwrap()),
        "{answer}"
    );
    // Its rights are what they were, and others are not held up.
    client.publish("orders", json!(1)).await;
    gateway.connect().await.ok(frame).await;
}

#[actix::test]
async fn a_token_that_was_exchanged_ends_the_event_streams_it_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let mut program = Program::serve(&["auth.mode=token", &format!("auth.token_file={}", file.display())]);
    let mut stream = TcpStream::connect(program.address).await.unwrap();
    let request = format!(
        "GET /events/orders HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer first\r\n\r\n",
        program.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut begun = [0; 4_096];
    assert!(stream.read(&mut begun).await.unwrap() > 0);
    assert!(begun.starts_with(b"HTTP/1.1 200"));
    std::fs::write(&file, "second").unwrap();
    reload(&mut program);
    let mut last = Vec::new();
    let rest = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut last));
    rest.await.expect("the stream ends").unwrap();
}
