//! What is in force and where it came from, for people (`config print`). Secrets are taken out when it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use config::{Value, ValueKind};

use super::schema::{DEFAULT_ORIGIN, Flat, KEYS, Key, Shown, TOPIC_KEYS, origin_of};
use super::secret::{HIDDEN, hide_in_url};

/// A key whose value is another one now. Secrets are not shown, and so not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which; that of a topic's rule has the rule's pattern in it.
    pub key: String,
    /// Before, where it was set.
    pub from: Option<String>,
    /// Now, where it is set.
    pub to: Option<String>,
    /// Whether it cannot be taken over while the gateway runs.
    pub needs_restart: bool,
}

/// Every key in force, with its value (secrets hidden) and where that came from.
#[derive(Debug, Clone)]
pub struct Origins {
    entries: Vec<Entry>,
    topics: Vec<Vec<Entry>>,
}

#[derive(Debug, Clone)]
struct Entry {
    path: &'static str,
    value: toml::Value,
    origin: String,
}

impl Origins {
    pub(super) fn new(values: &Flat, topics: &[Flat]) -> Self {
        Origins {
            // The topics' rules follow one by one, so the list of them is no entry of its own.
            entries: entries(KEYS, values).filter(|entry| entry.path != "topic").collect(),
            topics: topics.iter().map(|rule| entries(TOPIC_KEYS, rule).collect()).collect(),
        }
    }

    /// As TOML, with a comment behind each value that says where it came from.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for entry in &self.entries {
            let (entry_section, name) = entry.path.rsplit_once('.').unwrap_or(("", entry.path));
            if entry_section != section {
                section = entry_section;
                let gap = if text.is_empty() { "" } else { "\n" };
                // Writing into memory cannot fail, here and below.
                let _ = writeln!(text, "{gap}[{section}]");
            }
            write_entry(&mut text, name, entry);
        }
        for rule in &self.topics {
            text.push_str("\n[[topic]]\n");
            for entry in rule {
                write_entry(&mut text, entry.path, entry);
            }
        }
        text
    }

    /// What is another value in `new`, by key.
    pub fn changes_to(&self, new: &Origins) -> Vec<Change> {
        let (before, after) = (self.by_key(), new.by_key());
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let mut changes = Vec::new();
        for key in keys {
            let (from, to) = (before.get(key), after.get(key));
            let same = match (from, to) {
                (Some(from), Some(to)) => from.value == to.value,
                // A rule that came or went: what it says nothing about did not change.
                (Some(only), None) | (None, Some(only)) => only.origin == DEFAULT_ORIGIN,
                (None, None) => true,
            };
            if !same {
                changes.push(Change {
                    key: key.clone(),
                    from: from.map(|entry| entry.value.to_string()),
                    to: to.map(|entry| entry.value.to_string()),
                    needs_restart: !can_change(from.or(to).map_or("", |entry| entry.path), key),
                });
            }
        }
        changes
    }

    fn by_key(&self) -> BTreeMap<String, &Entry> {
        let own = self.entries.iter().map(|entry| (entry.path.to_owned(), entry));
        let of_topics = self.topics.iter().enumerate().flat_map(|(at, rule)| {
            let name = rule.iter().find(|entry| entry.path == "name");
            let name = name.map_or_else(|| at.to_string(), |entry| entry.value.to_string());
            rule.iter()
                .map(move |entry| (format!("topic[{name}].{}", entry.path), entry))
        });
        own.chain(of_topics).collect()
    }

    /// As JSON: `{"store.kind": {"value": …, "from": …}, …, "topic": [{"name": {…}}]}`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut all = json_of(&self.entries);
        all.insert(
            "topic".to_owned(),
            self.topics.iter().map(|rule| json_of(rule)).collect(),
        );
        all.into()
    }
}

/// Whether a key's value can be taken over while the gateway runs.
fn can_change(path: &str, key: &str) -> bool {
    let is_of = |section: &str| path == section || path.starts_with(&format!("{section}."));
    match key.starts_with("topic[") {
        true => ["name", "limit", "retention"].iter().any(|section| is_of(section)),
        false => path != "auth.mode" && ["limits", "log", "auth", "tls"].iter().any(|section| is_of(section)),
    }
}

fn entries(keys: &'static [Key], values: &Flat) -> impl Iterator<Item = Entry> {
    keys.iter().filter_map(|key| {
        let value = values.get(key.path)?;
        Some(Entry {
            path: key.path,
            value: shown(key, value),
            origin: origin_of(value),
        })
    })
}

fn shown(key: &Key, value: &Value) -> toml::Value {
    match (key.shown, &value.kind) {
        (Shown::Plain, _) => to_toml(value),
        (Shown::Url, ValueKind::String(url)) => toml::Value::String(hide_in_url(url)),
        (Shown::Url | Shown::Never, _) => toml::Value::String(HIDDEN.to_owned()),
    }
}

fn to_toml(value: &Value) -> toml::Value {
    match &value.kind {
        ValueKind::Boolean(flag) => toml::Value::Boolean(*flag),
        ValueKind::I64(number) => toml::Value::Integer(*number),
        ValueKind::Float(number) => toml::Value::Float(*number),
        ValueKind::Array(items) => toml::Value::Array(items.iter().map(to_toml).collect()),
        // Nothing but text is left: tables are taken apart before, and TOML has no other numbers.
        _ => toml::Value::String(value.to_string()),
    }
}

fn write_entry(text: &mut String, name: &str, entry: &Entry) {
    // A path may have any character in it, a line break too; a comment may not.
    let origin = entry.origin.escape_debug();
    let setting = format!("{name} = {}", entry.value);
    let _ = writeln!(text, "{setting:<44}  # {origin}");
}

fn json_of(entries: &[Entry]) -> serde_json::Map<String, serde_json::Value> {
    let value_and_origin = |entry: &Entry| serde_json::json!({"value": entry.value, "from": entry.origin});
    entries
        .iter()
        .map(|entry| (entry.path.to_owned(), value_and_origin(entry)))
        .collect()
}
