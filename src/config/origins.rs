//! What is in force and where it came from, for people (`config print`). Secrets are taken out when it is made.

use std::fmt::Write;

use config::{Value, ValueKind};

use super::schema::{Flat, KEYS, Key, Shown, TOPIC_KEYS, origin_of};
use super::secret::{HIDDEN, hide_in_url};

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
