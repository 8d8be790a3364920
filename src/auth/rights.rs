//! What a token's claims give the right to: scopes, or a policy that alone decides.

use serde::Deserialize;
use serde_json::Value;

use super::identity::Action;
use crate::domain::{GroupName, TopicPattern};

/// The most scopes, rules, and patterns or groups of a rule: every frame is checked against them.
const ENTRIES_MAX: usize = 1_000;

/// What somebody may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything.
    Full,
    /// What any of the scopes covers.
    Scopes(Vec<Scope>),
    /// What the first rule that matches says; without one, no.
    Policy(Vec<Rule>),
}

/// One scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    Publish(TopicPattern),
    Subscribe(TopicPattern),
    /// `*:<pattern>`: both.
    Both(TopicPattern),
    Admin,
    Metrics,
}

/// One rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    allow: bool,
    /// None: `*`.
    action: Option<Action>,
    topics: Vec<TopicPattern>,
    groups: Option<Vec<GroupName>>,
}

impl Rights {
    /// Whether they cover an action on a topic. `topic` is the one whose rights count: not a derived one.
    pub(super) fn cover(&self, action: Action, topic: &str, group: Option<&GroupName>) -> bool {
        match self {
            Rights::Full => true,
            Rights::Scopes(scopes) => scopes.iter().any(|scope| scope.covers(action, topic)),
            Rights::Policy(rules) => rules
                .iter()
                .find(|rule| rule.matches(action, topic, group))
                .is_some_and(|rule| rule.allow),
        }
    }

    /// Whether they cover the figures of the whole gateway. In a policy that takes an administrator of all topics: no
    /// rule may take that right away on any of them before one gives it on all.
    pub(super) fn cover_metrics(&self) -> bool {
        match self {
            Rights::Full => true,
            Rights::Scopes(scopes) => scopes
                .iter()
                .any(|scope| matches!(scope, Scope::Admin | Scope::Metrics)),
            Rights::Policy(rules) => rules
                .iter()
                .filter(|rule| rule.groups.is_none() && rule.action.is_none_or(|action| action == Action::Admin))
                .find(|rule| !rule.allow || rule.topics.iter().any(|pattern| pattern.as_str() == "**"))
                .is_some_and(|rule| rule.allow),
        }
    }

    /// From a token's claims. The error says which claim is wrong and what was expected, never what it holds.
    pub(super) fn from_claims(
        scopes: Option<&Value>,
        scope: Option<&Value>,
        policy: Option<&Value>,
    ) -> Result<Rights, String> {
        if let Some(policy) = policy {
            return policy_rules(policy).map(Rights::Policy);
        }
        let mut all = Vec::new();
        if let Some(scopes) = scopes {
            let expected = || "scopes: expected a list of texts".to_owned();
            for (at, entry) in scopes.as_array().ok_or_else(expected)?.iter().enumerate() {
                let text = entry.as_str().ok_or_else(expected)?;
                all.extend(Scope::parse(text).map_err(|why| format!("scopes[{at}]: {why}"))?);
            }
        }
        if let Some(scope) = scope {
            let text = scope.as_str().ok_or("scope: expected a text")?;
            for word in text.split_ascii_whitespace() {
                all.extend(Scope::parse(word).map_err(|why| format!("scope: {why}"))?);
            }
        }
        if all.len() > ENTRIES_MAX {
            return Err(format!("scopes: more than {ENTRIES_MAX}"));
        }
        Ok(Rights::Scopes(all))
    }
}

impl Scope {
    /// Reads a scope. None: it is meant for somebody else (`openid`, `profile`), as tokens of other issuers carry them.
    pub(super) fn parse(text: &str) -> Result<Option<Scope>, String> {
        let kind: fn(TopicPattern) -> Scope = match text.split_once(':') {
            Some(("publish", _)) => Scope::Publish,
            Some(("subscribe", _)) => Scope::Subscribe,
            Some(("*", _)) => Scope::Both,
            Some(_) => return Ok(None),
            None if text == "admin" => return Ok(Some(Scope::Admin)),
            None if text == "metrics" => return Ok(Some(Scope::Metrics)),
            None => return Ok(None),
        };
        let pattern = text.split_once(':').map_or("", |(_, pattern)| pattern);
        let pattern = pattern
            .parse()
            .map_err(|_| "expected a pattern of topics behind the colon, such as orders.* or **".to_owned())?;
        Ok(Some(kind(pattern)))
    }

    fn covers(&self, action: Action, topic: &str) -> bool {
        match (self, action) {
            (Scope::Publish(pattern), Action::Publish)
            | (Scope::Subscribe(pattern), Action::Subscribe)
            | (Scope::Both(pattern), Action::Publish | Action::Subscribe) => pattern.matches(topic),
            (Scope::Admin, Action::Admin) => true,
            _ => false,
        }
    }
}

impl Rule {
    fn matches(&self, action: Action, topic: &str, group: Option<&GroupName>) -> bool {
        let group_fits = match &self.groups {
            None => true,
            Some(groups) => action == Action::Subscribe && group.is_some_and(|group| groups.contains(group)),
        };
        group_fits
            && self.action.is_none_or(|own| own == action)
            && self.topics.iter().any(|pattern| pattern.matches(topic))
    }
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    effect: String,
    action: String,
    topics: Vec<String>,
    groups: Option<Vec<String>>,
}

fn policy_rules(policy: &Value) -> Result<Vec<Rule>, String> {
    let rules = policy
        .get("rules")
        .and_then(Value::as_array)
        .ok_or("policy: expected {rules: [...]}")?;
    if rules.len() > ENTRIES_MAX {
        return Err(format!("policy.rules: more than {ENTRIES_MAX}"));
    }
    let numbered = rules.iter().enumerate();
    numbered
        .map(|(at, rule)| rule_from(rule).map_err(|why| format!("policy.rules[{at}]: {why}")))
        .collect()
}

/// Anything that is not understood makes the whole token bad: a rule left out could be the one that denies.
fn rule_from(rule: &Value) -> Result<Rule, &'static str> {
    let raw = RawRule::deserialize(rule).map_err(|_| {
        "expected {effect: allow|deny, action: publish|subscribe|admin|*, topics: [pattern, ...], groups?: [name, ...]}"
    })?;
    let groups_count = raw.groups.as_ref().map_or(0, Vec::len);
    if raw.topics.len().max(groups_count) > ENTRIES_MAX {
        return Err("more than 1000 topics or groups");
    }
    let rule = Rule {
        allow: match raw.effect.as_str() {
            "allow" => true,
            "deny" => false,
            _ => return Err("effect: expected allow or deny"),
        },
        action: match raw.action.as_str() {
            "publish" => Some(Action::Publish),
            "subscribe" => Some(Action::Subscribe),
            "admin" => Some(Action::Admin),
            "*" => None,
            _ => return Err("action: expected publish, subscribe, admin or *"),
        },
        topics: parse_all(&raw.topics).ok_or("topics: expected patterns of topics, such as orders.* or **")?,
        groups: match raw.groups {
            Some(names) => Some(parse_all(&names).ok_or("groups: expected names of groups")?),
            None => None,
        },
    };
    if rule.groups.is_some() && matches!(rule.action, Some(Action::Publish | Action::Admin)) {
        return Err("groups: only a rule for subscribe, or for *, can have them");
    }
    Ok(rule)
}

fn parse_all<T: std::str::FromStr>(texts: &[String]) -> Option<Vec<T>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
