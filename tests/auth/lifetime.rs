//! A token's end is its connection's end, unless it is renewed before.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::issuer::{SECRET, Signer, seconds};
use crate::rights::{client, gateway};

#[actix::test]
async fn an_expired_token_ends_the_connection_and_its_leases_do_not_count() {
    let gateway = gateway();
    let mut other = client(&gateway, json!({"scopes": ["*:**"]})).await;
    // Expired already, and good for two to three seconds more: the leeway.
    let mut member = client(&gateway, json!({"exp": seconds(-2), "scopes": ["*:**"]})).await;
    member.subscribe("orders", "g", json!({"from": "earliest"})).await;
    other.publish("orders", json!(1)).await;
    assert_eq!(member.event().await["ctx"]["attempt"], 1);
    let begun = Instant::now();
    assert_eq!(member.closed().await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    other.subscribe("orders", "g", json!({})).await;
    let event = other.event().await;
    assert_eq!(event["ctx"]["attempt"], 1, "{event}");
}

#[actix::test]
async fn a_second_auth_renews_without_a_break() {
    let gateway = gateway();
    let signer = Signer::secret(SECRET);
    let mut short = client(&gateway, json!({"exp": seconds(-2), "scopes": ["*:**"]})).await;
    let mut renewed = client(&gateway, json!({"exp": seconds(-2), "scopes": ["*:**"]})).await;
    renewed.subscribe("orders", "g", json!({"from": "earliest"})).await;
    renewed.publish("orders", json!(1)).await;
    let first = renewed.event().await;
    let answer = renewed
        .ok(json!({"op": "AUTH", "token": signer.scopes(&["*:**"])}))
        .await;
    let left = answer["expires_ms"].as_u64().unwrap();
    assert!((50_000..=60_000).contains(&left), "{answer}");
    // When the other one is over, the first token would be too.
    assert_eq!(short.closed().await, 4401);
    renewed.ack("orders", "g", &first["event"]["id"]).await;
    renewed.publish("orders", json!(2)).await;
    assert_eq!(renewed.event().await["event"]["payload"], 2);
    // And a shorter one ends it sooner.
    renewed
        .ok(json!({"op": "AUTH", "token": signer.sign(&json!({"exp": seconds(-3), "scopes": ["*:**"]}))}))
        .await;
    assert_eq!(renewed.closed().await, 4401);
}

#[actix::test]
async fn nobody_stays_without_auth() {
    let gateway = crate::support::TestGateway::start(&[
        "auth.mode=jwt",
        &format!("auth.jwt.secret={SECRET}"),
        "gateway.auth_timeout=200ms",
    ]);
    let mut client = gateway.connect().await;
    client.err(json!({"op": "AUTH", "token": "x"}), "jwt_invalid").await;
    assert_eq!(client.closed().await, 4401);
}
