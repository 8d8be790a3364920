//! Tables of who may do what.

use serde_json::json;

use super::super::identity::{Action, Identity};
use super::super::voucher::Voucher;
use super::*;

fn identity(claims: Value) -> Identity {
    let rights = Rights::from_claims(claims.get("scopes"), claims.get("scope"), claims.get("policy")).unwrap();
    Identity::new(None, 0, Voucher::default(), rights)
}

fn refusal(claims: Value) -> String {
    Rights::from_claims(claims.get("scopes"), claims.get("scope"), claims.get("policy")).unwrap_err()
}

fn may(identity: &Identity, action: Action, topic: &str, group: Option<&str>) -> bool {
    let group = group.map(|name| name.parse().unwrap());
    identity.check(action, &topic.parse().unwrap(), group.as_ref()).is_ok()
}

use Action::{Admin, Publish, Subscribe};

#[test]
fn scopes_cover_what_their_patterns_match() {
    let cases = [
        ("publish:orders", Publish, "orders", true),
        ("publish:orders", Publish, "orders.eu", false),
        ("publish:orders", Subscribe, "orders", false),
        ("subscribe:orders.*", Subscribe, "orders.eu", true),
        ("subscribe:orders.*", Subscribe, "orders", false),
        ("subscribe:orders.*", Subscribe, "orders.eu.de", false),
        ("subscribe:orders.**", Subscribe, "orders", true),
        ("subscribe:orders.**", Subscribe, "orders.eu.de", true),
        ("*:orders", Publish, "orders", true),
        ("*:orders", Subscribe, "orders", true),
        ("*:**", Subscribe, "a.b.c", true),
        ("*:**", Admin, "a", false),
        ("admin", Admin, "a.b", true),
        ("admin", Subscribe, "a", false),
        ("admin", Publish, "a", false),
        ("metrics", Admin, "a", false),
        ("metrics", Subscribe, "a", false),
        // Derived topics: the rights of their origin, to read.
        ("subscribe:orders", Subscribe, "dlq.orders", true),
        ("subscribe:orders", Subscribe, "orders.snapshot", true),
        ("subscribe:orders", Subscribe, "dlq.orders.snapshot", true),
        ("subscribe:*", Subscribe, "dlq.orders", true),
        ("subscribe:dlq.*", Subscribe, "dlq.orders", false),
        ("subscribe:dlq.orders", Subscribe, "dlq.orders", false),
        ("subscribe:dlq.orders", Subscribe, "dlq.dlq.orders", false),
        ("subscribe:other", Subscribe, "dlq.orders", false),
        ("*:**", Publish, "dlq.orders", false),
        ("*:**", Publish, "orders.snapshot", false),
        ("openid", Subscribe, "openid", false),
        ("read:orders", Subscribe, "orders", false),
    ];
    for (scope, action, topic, expected) in cases {
        for claims in [
            json!({"scopes": [scope]}),
            json!({"scope": format!("profile  {scope} ")}),
        ] {
            let identity = identity(claims.clone());
            assert_eq!(
                may(&identity, action, topic, Some("g")),
                expected,
                "{claims} {action:?} {topic}"
            );
        }
    }
}

#[test]
fn no_scopes_no_rights() {
    for claims in [
        json!({}),
        json!({"scopes": []}),
        json!({"scope": ""}),
        json!({"policy": {"rules": []}}),
    ] {
        let identity = identity(claims);
        assert!(
            [Publish, Subscribe, Admin]
                .iter()
                .all(|action| !may(&identity, *action, "a", None))
        );
        assert!(identity.check_metrics().is_err());
    }
}

#[test]
fn even_full_rights_do_not_publish_to_what_is_derived() {
    assert!(!may(&Identity::full(), Publish, "dlq.a", None));
    assert!(may(&Identity::full(), Subscribe, "dlq.a", None));
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = identity(json!({"scopes": ["*:**", "admin", "metrics"], "policy": {"rules": [
        {"effect": "deny", "action": "subscribe", "topics": ["orders.secret"]},
        {"effect": "allow", "action": "subscribe", "topics": ["orders.*"], "groups": ["billing", "audit"]},
        {"effect": "deny", "action": "*", "topics": ["orders.eu"]},
        {"effect": "allow", "action": "*", "topics": ["orders.**", "logs"]},
    ]}}));
    let cases = [
        (Subscribe, "orders.secret", Some("billing"), false),
        (Publish, "orders.secret", None, true),
        (Subscribe, "orders.eu", Some("billing"), true),
        (Subscribe, "orders.eu", Some("other"), false),
        (Subscribe, "orders.eu", None, false),
        (Publish, "orders.eu", None, false),
        (Admin, "orders.eu", Some("billing"), false),
        (Admin, "orders.us", Some("billing"), true),
        (Subscribe, "orders.us", None, true),
        (Subscribe, "logs", Some("any"), true),
        (Subscribe, "dlq.logs", None, true),
        (Subscribe, "dlq.orders.secret", Some("billing"), false),
        (Publish, "dlq.logs", None, false),
        // The scopes do not count beside a policy.
        (Subscribe, "elsewhere", None, false),
    ];
    for (action, topic, group, expected) in cases {
        assert_eq!(
            may(&policy, action, topic, group),
            expected,
            "{action:?} {topic} {group:?}"
        );
    }
    assert!(policy.check_metrics().is_err());
}

#[test]
fn figures_need_metrics_or_admin() {
    let rules = |rules: Value| json!({"policy": {"rules": rules}});
    let cases = [
        (json!({"scopes": ["metrics"]}), true),
        (json!({"scope": "admin"}), true),
        (json!({"scopes": ["*:**"]}), false),
        (
            rules(json!([{"effect": "allow", "action": "admin", "topics": ["**"]}])),
            true,
        ),
        (
            rules(json!([{"effect": "allow", "action": "*", "topics": ["a", "**"]}])),
            true,
        ),
        (
            rules(json!([{"effect": "allow", "action": "admin", "topics": ["a"]}])),
            false,
        ),
        (
            rules(json!([
                {"effect": "deny", "action": "admin", "topics": ["a"]},
                {"effect": "allow", "action": "admin", "topics": ["**"]}
            ])),
            false,
        ),
    ];
    for (claims, expected) in cases {
        assert_eq!(identity(claims.clone()).check_metrics().is_ok(), expected, "{claims}");
    }
}

#[test]
fn what_is_not_understood_is_refused_and_not_repeated() {
    let rule = |rule: Value| json!({"policy": {"rules": [rule]}});
    let wrong = [
        json!({"scopes": "publish:hush"}),
        json!({"scopes": [7]}),
        json!({"scopes": ["publish:Hush"]}),
        json!({"scopes": ["subscribe:"]}),
        json!({"scope": ["publish:hush"]}),
        json!({"scope": "*:hush*"}),
        json!({"scopes": vec!["admin"; 1_001]}),
        json!({"policy": "hush"}),
        json!({"policy": {}}),
        json!({"policy": {"rules": vec![json!({}); 1_001]}}),
        rule(json!("hush")),
        rule(json!({"effect": "hush", "action": "*", "topics": ["**"]})),
        rule(json!({"effect": "allow", "action": "hush", "topics": ["**"]})),
        rule(json!({"effect": "allow", "action": "*", "topics": ["Hush"]})),
        rule(json!({"effect": "allow", "action": "*", "topics": "hush"})),
        rule(json!({"effect": "allow", "action": "*"})),
        rule(json!({"effect": "allow", "action": "*", "topics": ["**"], "group": ["hush"]})),
        rule(json!({"effect": "allow", "action": "*", "topics": ["**"], "groups": ["hush hush"]})),
        rule(json!({"effect": "deny", "action": "publish", "topics": ["**"], "groups": ["hush"]})),
    ];
    for claims in wrong {
        let refusal = refusal(claims.clone());
        assert!(!refusal.to_lowercase().contains("hush"), "{claims}: {refusal}");
    }
}
