//! Everybody at every door: role × operation × topic, each with what it must come to.
//!
//! The doors are not this file's to choose: the operations are the protocol's own list, the paths are those of the
//! running gateway's `/openapi.json`. A door without a row fails the test. A new one takes one line in `FRAMES` or `PATHS`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate::protocol::Op;

use crate::http::{Answer, send};
use crate::issuer::{SECRET, Signer, seconds};
use crate::support::{Client, TestGateway};

const TOPICS: &[&str] = &[
    "orders.eu",
    "orders.closed",
    "orders.eu.de",
    "logs",
    "dlq.orders.eu",
    "orders.eu.snapshot",
];
/// Those to which not only the gateway itself publishes.
const OPEN_TOPICS: &[&str] = &["orders.eu", "orders.closed", "orders.eu.de", "logs"];
/// What `orders.*` means.
const ORDERS: &[&str] = &["orders.eu", "orders.closed"];
/// The same with what the gateway derives from them.
const ORDERS_READ: &[&str] = &["orders.eu", "orders.closed", "dlq.orders.eu", "orders.eu.snapshot"];
const NONE: &[&str] = &[];
const GROUP: &str = "billing";

/// What a door asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "no path may need one of them for a while")]
enum Needs {
    Nothing,
    /// Any good token.
    Token,
    Publish,
    /// To subscribe in the group [`GROUP`].
    Group,
    /// To subscribe, in no group or in every one.
    Topic,
    Admin,
    Metrics,
}

/// Somebody, and the topics on which they may do what.
struct Role {
    name: &'static str,
    token: Option<String>,
    is_known: bool,
    publish: &'static [&'static str],
    group: &'static [&'static str],
    topic: &'static [&'static str],
    admin: &'static [&'static str],
    metrics: bool,
}

impl Role {
    fn may(&self, needs: Needs, topic: &str) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Token => self.is_known,
            Needs::Publish => self.publish.contains(&topic),
            Needs::Group => self.group.contains(&topic),
            Needs::Topic => self.topic.contains(&topic),
            Needs::Admin => self.admin.contains(&topic),
            Needs::Metrics => self.metrics,
        }
    }
}

fn roles() -> Vec<Role> {
    let scopes = |scopes: &[&str]| json!({"scopes": scopes});
    let policy = |rules: Value| json!({"policy": {"rules": rules}});
    let signed = |mut claims: Value| {
        claims["exp"] = json!(seconds(600));
        Some(Signer::secret(SECRET).sign(&claims))
    };
    let role = |name, claims: Value| Role {
        name,
        token: signed(claims),
        is_known: true,
        publish: NONE,
        group: NONE,
        topic: NONE,
        admin: NONE,
        metrics: false,
    };
    let unknown = |name, token| Role {
        token,
        is_known: false,
        ..role(name, json!({}))
    };
    let expired = json!({"exp": seconds(-60), "scopes": ["*:**", "admin"]});
    vec![
        unknown("nobody", None),
        unknown(
            "forger",
            Some(Signer::secret("of somebody else").scopes(&["*:**", "admin"])),
        ),
        unknown("latecomer", Some(Signer::secret(SECRET).sign(&expired))),
        role("stranger", scopes(&[])),
        Role {
            publish: ORDERS,
            ..role("writer", scopes(&["publish:orders.*"]))
        },
        Role {
            group: ORDERS_READ,
            topic: ORDERS_READ,
            ..role("reader", json!({"scope": "openid subscribe:orders.*"}))
        },
        Role {
            publish: OPEN_TOPICS,
            group: TOPICS,
            topic: TOPICS,
            ..role("both", scopes(&["*:**"]))
        },
        Role {
            admin: TOPICS,
            metrics: true,
            ..role("administrator", scopes(&["admin"]))
        },
        Role {
            metrics: true,
            ..role("monitor", scopes(&["metrics"]))
        },
        Role {
            group: ORDERS_READ,
            ..role(
                "clerk",
                policy(
                    json!([{"effect": "allow", "action": "subscribe", "topics": ["orders.*"], "groups": [GROUP, "other"]}]),
                ),
            )
        },
        Role {
            publish: &["orders.eu"],
            group: ORDERS_READ,
            topic: ORDERS_READ,
            admin: ORDERS_READ,
            ..role(
                "manager",
                policy(json!([
                    {"effect": "deny", "action": "publish", "topics": ["orders.closed"]},
                    {"effect": "allow", "action": "*", "topics": ["orders.*"]},
                ])),
            )
        },
        Role {
            publish: OPEN_TOPICS,
            group: TOPICS,
            topic: TOPICS,
            admin: TOPICS,
            metrics: true,
            ..role(
                "owner",
                policy(json!([{"effect": "allow", "action": "*", "topics": ["**"]}])),
            )
        },
    ]
}

#[rustfmt::skip]
/// One row for the WebSocket: the operation, what it needs, its other fields, and what it is answered where it is allowed. In
/// this order on every topic.
const FRAMES: &[(Op, Needs, &str, &str)] = &[
    (Op::Publish, Needs::Publish, r#"{"payload": 1}"#, "OK"),
    (
        Op::PublishBatch,
        Needs::Publish,
        r#"{"events": [{"payload": 1}]}"#,
        "OK",
    ),
    (Op::Subscribe, Needs::Group, r#"{"group": "billing"}"#, "OK"),
    (
        Op::Ack,
        Needs::Group,
        r#"{"group": "billing", "id": "x"}"#,
        "unknown_id",
    ),
    (Op::Nack, Needs::Group, r#"{"group": "billing", "id": "x"}"#, "OK"),
    (
        Op::Modack,
        Needs::Group,
        r#"{"group": "billing", "id": "x", "extend_ms": 5000}"#,
        "unknown_id",
    ),
    (Op::Pause, Needs::Group, r#"{"group": "billing"}"#, "OK"),
    (Op::Resume, Needs::Group, r#"{"group": "billing"}"#, "OK"),
    (Op::Unsubscribe, Needs::Group, r#"{"group": "billing"}"#, "OK"),
    (Op::Subscribe, Needs::Topic, "{}", "OK"),
    (Op::Pause, Needs::Topic, "{}", "OK"),
    (Op::Resume, Needs::Topic, "{}", "OK"),
    (Op::Unsubscribe, Needs::Topic, "{}", "OK"),
];

#[rustfmt::skip]
/// One row for HTTP: method and path as `/openapi.json` has them, what it needs, the query, the body, and the statuses that
/// may follow where it is allowed. `{topic}` and `{group}` are filled in.
const PATHS: &[(&str, Needs, &str, &str, &[u16])] = &[
    ("GET /", Needs::Nothing, "", "", &[426]),
    ("GET /ws", Needs::Nothing, "", "", &[426]),
    ("GET /healthz", Needs::Nothing, "", "", &[200]),
    ("GET /readyz", Needs::Nothing, "", "", &[200]),
    ("GET /openapi.json", Needs::Nothing, "", "", &[200]),
    ("GET /metrics", Needs::Metrics, "", "", &[200]),
    ("GET /replay", Needs::Topic, "topic={topic}", "", &[200]),
    ("GET /export", Needs::Topic, "topic={topic}", "", &[200]),
    ("POST /publish/{topic}", Needs::Publish, "", "1", &[200]),
    ("GET /events/{topic}", Needs::Topic, "", "", &[200]),
    ("GET /topics", Needs::Token, "", "", &[200]),
    ("GET /groups", Needs::Token, "topic={topic}", "", &[200]),
    ("GET /cursors", Needs::Token, "topic={topic}", "", &[200]),
    ("GET /lag", Needs::Group, "topic={topic}&group={group}", "", &[200, 404]),
    ("GET /latest-by-key", Needs::Topic, "topic={topic}&key=k", "", &[404]),
    ("GET /groups/{topic}/{group}/explain", Needs::Group, "", "", &[200, 404]),
    ("POST /groups/{topic}/{group}/pause", Needs::Admin, "", "", &[200, 404]),
    ("POST /groups/{topic}/{group}/resume", Needs::Admin, "", "", &[200, 404]),
    ("POST /groups/{topic}/{group}/seek", Needs::Admin, "", r#"{"from": "earliest"}"#, &[200, 404]),
    ("POST /dlq/{topic}/replay", Needs::Admin, "", "", &[200, 400, 404]),
    ("DELETE /groups/{topic}/{group}", Needs::Admin, "", "", &[200, 404]),
    ("POST /dlq/{topic}/replay", Needs::Admin, "", "", &[200, 400]),
    ("DELETE /topics/{topic}", Needs::Admin, "", "", &[200, 404, 409]),
];

fn gateway() -> TestGateway {
    TestGateway::start(&[
        "auth.mode=jwt",
        &format!("auth.jwt.secret={SECRET}"),
        // Everyone comes from an address of their own: failed attempts are limited for each.
        "gateway.trusted_proxies=[\"127.0.0.1\"]",
    ])
}

async fn enter(gateway: &TestGateway, role: &Role) -> Client {
    let mut client = gateway.connect().await;
    if let Some(token) = &role.token {
        let answer = client.call(json!({"op": "AUTH", "token": token})).await;
        let expected = if role.is_known { "OK" } else { "ERR" };
        assert_eq!(answer["op"], expected, "{}: {answer}", role.name);
    }
    client
}

#[actix::test]
async fn every_operation_asks_who_it_is() {
    let in_table: Vec<Op> = FRAMES.iter().map(|(op, ..)| *op).collect();
    for op in Op::ALL.iter().filter(|op| **op != Op::Auth) {
        assert!(in_table.contains(op), "{op:?} has no row: who may do it?");
    }
    let gateway = gateway();
    for role in roles() {
        let mut client = enter(&gateway, &role).await;
        for topic in TOPICS {
            for (op, needs, fields, allowed) in FRAMES {
                let mut frame: Value = serde_json::from_str(fields).unwrap();
                frame["op"] = json!(op.as_str());
                frame["topic"] = json!(topic);
                let expected = match (role.is_known, role.may(*needs, topic)) {
                    (false, _) => "unauthorized",
                    (true, false) => "forbidden",
                    (true, true) => allowed,
                };
                let answer = client.call(frame.clone()).await;
                let came = answer["code"].as_str().or(answer["op"].as_str());
                assert_eq!(came, Some(expected), "{}: {frame} came to {answer}", role.name);
            }
        }
        for event in client.events_so_far().await {
            let topic = event["topic"].as_str().unwrap();
            let needs = if event["group"].is_null() {
                Needs::Topic
            } else {
                Needs::Group
            };
            assert!(role.may(needs, topic), "{} was given {event}", role.name);
        }
    }
}

/// Method and path of every door that the gateway describes.
async fn described(gateway: &TestGateway) -> BTreeSet<String> {
    let own = gateway.address.to_string();
    let answer = send(gateway.address, "GET /openapi.json", &[("host", &own)], "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let description: Value = serde_json::from_str(&answer.body).unwrap();
    let mut doors = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            doors.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    doors
}

#[actix::test]
async fn every_path_asks_who_it_is() {
    let gateway = gateway();
    let own = gateway.address.to_string();
    let in_table: BTreeSet<String> = PATHS.iter().map(|(door, ..)| (*door).to_owned()).collect();
    let doors = described(&gateway).await;
    let without: Vec<_> = doors.difference(&in_table).collect();
    assert!(without.is_empty(), "no row says who may use {without:?}");
    let gone: Vec<_> = in_table.difference(&doors).collect();
    assert!(gone.is_empty(), "rows for paths that are not described: {gone:?}");
    for (number, role) in roles().iter().enumerate() {
        for (turn, topic) in TOPICS.iter().enumerate() {
            let address = format!("10.0.{number}.{turn}");
            for (door, needs, query, body, allowed) in PATHS {
                let filled = |text: &str| text.replace("{topic}", topic).replace("{group}", GROUP);
                let line = format!("{}?{}", filled(door), filled(query));
                let bearer = role.token.as_ref().map(|token| format!("Bearer {token}"));
                let mut headers = vec![("host", own.as_str()), ("x-forwarded-for", address.as_str())];
                headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
                let answer: Answer = send(gateway.address, line.trim_end_matches('?'), &headers, body).await;
                let expected: &[u16] = match (role.may(*needs, topic), role.is_known) {
                    (true, _) => allowed,
                    (false, true) => &[403],
                    (false, false) => &[401],
                };
                assert!(
                    expected.contains(&answer.status),
                    "{}: {line} came to {answer:?} instead of {expected:?}",
                    role.name
                );
            }
        }
    }
}
