//! The door: origins, hosts, tokens in addresses, guessing, and figures.

use serde_json::json;

use crate::http::request;
use crate::issuer::{SECRET, Signer};
use crate::support::TestGateway;

const UPGRADE: [(&str, &str); 4] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn gateway() -> TestGateway {
    TestGateway::start(&[
        "gateway.allowed_hosts=[\"gw.example\"]",
        "gateway.allowed_origins=[\"https://app.example\"]",
    ])
}

#[actix::test]
async fn hosts_and_origins_are_checked_on_every_path() {
    let gateway = gateway();
    let own = gateway.address.to_string();
    let same = format!("http://{own}");
    let same_tls = format!("https://{own}");
    let cases: [(&str, Option<&str>, bool); 14] = [
        (&own, None, true),
        (&own, Some(&same), true),
        (&own, Some(&same_tls), true),
        ("192.0.2.7:1", None, true),
        ("localhost:5", None, true),
        ("GW.example", None, true),
        ("gw.example:444", Some("https://gw.example:444"), true),
        (&own, Some("https://app.example"), true),
        ("evil.example", None, false),
        ("evil.example", Some("http://evil.example"), false),
        (&own, Some("https://evil.example"), false),
        (&own, Some("http://127.0.0.1:1"), false),
        (&own, Some("null"), false),
        (&own, Some(""), false),
    ];
    for (host, origin, allowed) in cases {
        let mut headers = vec![("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let what = format!("{host} {origin:?}");
        let expected = |status| if allowed { status } else { 403 };
        let metrics = request(gateway.address, "GET /metrics", &headers).await;
        assert_eq!(metrics.status, expected(200), "{what}");
        if !allowed {
            assert_eq!(metrics.code(), "forbidden", "{what}");
            assert_eq!(metrics.header("access-control-allow-origin"), None);
        }
        assert_eq!(
            request(gateway.address, "GET /nowhere", &headers).await.status,
            expected(404),
            "{what}"
        );
        for path in ["GET /healthz", "GET /readyz"] {
            assert_eq!(request(gateway.address, path, &headers).await.status, 200, "{what}");
        }
        headers.extend_from_slice(&UPGRADE);
        assert_eq!(
            request(gateway.address, "GET /ws", &headers).await.status,
            expected(101),
            "{what}"
        );
    }
    for doubled in [
        [("host", own.as_str()), ("host", "evil.example")],
        [("host", "evil.example"), ("host", own.as_str())],
    ] {
        let status = request(gateway.address, "GET /metrics", &doubled).await.status;
        assert!([400, 403].contains(&status), "{status}");
    }
    let two = [
        ("host", own.as_str()),
        ("origin", same.as_str()),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(request(gateway.address, "GET /metrics", &two).await.status, 403);
}

#[actix::test]
async fn pages_that_were_invited_get_cors_headers() {
    let gateway = gateway();
    let own = gateway.address.to_string();
    let invited = [("host", own.as_str()), ("origin", "https://app.example")];
    let answer = request(gateway.address, "GET /metrics", &invited).await;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(answer.header("vary"), Some("origin"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);

    let asks = |origin: &'static str| {
        [
            ("host", own.as_str()),
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,x-event-trace"),
        ]
    };
    let preflight = request(gateway.address, "OPTIONS /metrics", &asks("https://app.example")).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        Some("get, post, delete")
    );
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        Some("authorization,x-event-trace")
    );
    let foreign = request(gateway.address, "OPTIONS /metrics", &asks("https://evil.example")).await;
    assert_eq!(
        (foreign.status, foreign.header("access-control-allow-origin")),
        (403, None)
    );
}

#[actix::test]
async fn a_token_in_an_address_is_refused() {
    let gateway = gateway();
    let own = gateway.address.to_string();
    for query in [
        "token=x",
        "a=1&token=x",
        "access_token=x",
        "%74oken=x",
        "Token=",
        "token",
    ] {
        for path in ["/metrics", "/ws", "/"] {
            let mut headers = vec![("host", own.as_str())];
            headers.extend_from_slice(&UPGRADE);
            let line = format!("GET {path}?{query}");
            let answer = request(gateway.address, &line, &headers).await;
            assert_eq!(
                (answer.status, answer.code()),
                (400, "bad_request".to_owned()),
                "{line}"
            );
        }
    }
    let harmless = request(gateway.address, "GET /metrics?tokens=1", &[("host", own.as_str())]).await;
    assert_eq!(harmless.status, 200);
}

#[actix::test]
async fn guessing_is_limited_by_address() {
    let gateway = TestGateway::start(&[
        "auth.mode=token",
        "auth.token=right",
        "gateway.trusted_proxies=[\"127.0.0.1\"]",
    ]);
    let own = gateway.address.to_string();
    let mut client = gateway.connect().await;
    let mut limited = None;
    for guess in 0..100 {
        let answer = client
            .call(json!({"op": "AUTH", "token": format!("guess {guess}")}))
            .await;
        if answer["code"] == "rate_limited" {
            limited = Some(answer);
            break;
        }
        assert_eq!(answer["code"], "bad_token", "{answer}");
    }
    let answer = limited.expect("an end of guessing");
    assert!(
        (1..=1_000).contains(&answer["retry_after_ms"].as_u64().unwrap()),
        "{answer}"
    );
    // Not even the right one is looked at meanwhile, on no door and no other connection of that address.
    let mut other = gateway.connect().await;
    other.err(json!({"op": "AUTH", "token": "right"}), "rate_limited").await;
    let bearer = [("host", own.as_str()), ("authorization", "Bearer right")];
    let answer = request(gateway.address, "GET /metrics", &bearer).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    // Somebody else behind the proxy is not held up.
    let elsewhere = [
        ("host", own.as_str()),
        ("authorization", "Bearer right"),
        ("x-forwarded-for", "6.6.6.6, 192.0.2.1"),
    ];
    assert_eq!(request(gateway.address, "GET /metrics", &elsewhere).await.status, 200);
}

#[actix::test]
async fn figures_need_a_right_to_them() {
    let gateway = TestGateway::start(&["auth.mode=jwt", &format!("auth.jwt.secret={SECRET}")]);
    let own = gateway.address.to_string();
    let signer = Signer::secret(SECRET);
    let cases = [
        (None, 401, "unauthorized"),
        (Some("Basic abc".to_owned()), 401, "unauthorized"),
        (Some("Bearer nonsense".to_owned()), 401, "jwt_invalid"),
        (Some(format!("Bearer {}", signer.scopes(&["*:**"]))), 403, "forbidden"),
        (Some(format!("Bearer {}", signer.scopes(&["metrics"]))), 200, ""),
        (Some(format!("bearer {}", signer.scopes(&["admin"]))), 200, ""),
    ];
    for (authorization, status, code) in cases {
        let mut headers = vec![("host", own.as_str())];
        // A cookie never says who somebody is.
        let cookie = format!("token={}", signer.scopes(&["admin"]));
        headers.push(("cookie", &cookie));
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        let answer = request(gateway.address, "GET /metrics", &headers).await;
        assert_eq!(answer.status, status, "{authorization:?} {}", answer.body);
        match status {
            200 => assert!(
                answer
                    .body
                    .contains("tidegate_auth_failures_total{reason=\"jwt_invalid\"} 1")
            ),
            401 => assert_eq!(
                (answer.code().as_str(), answer.header("www-authenticate")),
                (code, Some("bearer"))
            ),
            _ => assert_eq!(answer.code(), code),
        }
    }
    for path in ["GET /healthz", "GET /readyz"] {
        assert_eq!(
            request(gateway.address, path, &[("host", own.as_str())]).await.status,
            200
        );
    }
}
