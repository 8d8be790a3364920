//! What each listener serves, and that the same door stands before both.

use serde_json::Value;

use crate::client::{get, post, request};
use crate::support::TestGateway;

const BOTH_PORTS: [&str; 2] = ["replay.listen=127.0.0.1:0", "auth.mode=none"];

fn paths(description: &Value) -> Vec<&str> {
    description["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn the_replay_port_serves_history_alone() {
    let gateway = TestGateway::start(&BOTH_PORTS);
    let replay = gateway.replay_address.expect("a second port");
    post(&gateway, "/publish/t", "1").await;
    for path in ["/replay?topic=t", "/export?topic=t"] {
        let (here, there) = (
            get(&gateway, path).await,
            request(replay, &format!("GET {path}"), &[], b"").await,
        );
        assert_eq!((here.status, &here.body), (200, &there.body), "{path}");
    }
    assert_eq!(request(replay, "GET /healthz", &[], b"").await.status, 200);
    let description = request(replay, "GET /openapi.json", &[], b"").await.json();
    assert_eq!(paths(&description), ["/export", "/healthz", "/openapi.json", "/replay"]);
    let here = get(&gateway, "/openapi.json").await.json();
    for path in paths(&here)
        .into_iter()
        .filter(|path| !paths(&description).contains(path))
    {
        let path = path.replace("{topic}", "t");
        for method in ["GET", "POST"] {
            let answer = request(replay, &format!("{method} {path}"), &[], b"").await;
            assert_eq!(
                (answer.status, answer.json()["code"].as_str()),
                (404, Some("not_found")),
                "{method} {path}"
            );
        }
    }
    let upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ];
    assert_eq!(request(replay, "GET /ws", &upgrade, b"").await.status, 404);
}

#[tokio::test]
async fn off_means_no_second_port() {
    let gateway = TestGateway::start(&["replay.listen=off"]);
    assert_eq!(gateway.replay_address, None);
    assert_eq!(get(&gateway, "/replay?topic=t").await.status, 200);
}

#[tokio::test]
async fn the_same_door_stands_before_both_ports() {
    let gateway = TestGateway::start(&["replay.listen=127.0.0.1:0", "auth.mode=token", "auth.token=secret"]);
    let token = ("Authorization", "Bearer secret");
    for address in [gateway.address, gateway.replay_address.unwrap()] {
        for (headers, status) in [
            (vec![token], 200),
            (vec![], 401),
            (vec![("Authorization", "Bearer wrong")], 401),
            (vec![token, ("Host", "evil.example")], 403),
            (vec![token, ("Origin", "https://evil.example")], 403),
        ] {
            for path in ["/replay?topic=t", "/export?topic=t"] {
                let answer = request(address, &format!("GET {path}"), &headers, b"").await;
                assert_eq!(answer.status, status, "{address} {path} {headers:?}");
            }
        }
        let in_address = request(address, "GET /replay?topic=t&token=secret", &[token], b"").await;
        assert_eq!(in_address.status, 400);
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_which_ones_there_are() {
    let gateway = TestGateway::start(&[]);
    for (line, allow) in [
        ("POST /replay?topic=t", "get"),
        ("DELETE /export?topic=t", "get"),
        ("GET /publish/t", "post"),
        ("PUT /healthz", "get"),
    ] {
        let answer = request(gateway.address, line, &[], b"").await;
        let code = answer.json()["code"].clone();
        assert_eq!((answer.status, code), (405, "method_not_allowed".into()), "{line}");
        assert_eq!(answer.header("allow"), Some(allow), "{line}");
    }
    let nothing = get(&gateway, "/replays").await;
    assert_eq!(
        (nothing.status, nothing.json()["code"].as_str()),
        (404, Some("not_found"))
    );
}
