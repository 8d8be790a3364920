//! From what was typed, in a file, in variables, behind `--set`, to one set of values that each know where they came
//! from. The later source wins, key by key.

use std::io;
use std::path::{Path, PathBuf};

use config::{Map, Source, Value, ValueKind};

use super::error::Problem;
use super::schema::{self, DEFAULT_ORIGIN, Flat, KEYS, Key};

/// The file that is read where none is named.
const FILE_NAME: &str = "tidegate.toml";
/// What a variable that holds a key begins with.
const VARIABLE_PREFIX: &str = "TIDEGATE_";

/// Where a configuration comes from, in rising precedence after the defaults. Nothing else is looked at.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`: must exist. Instead of `directory`'s file.
    pub file: Option<PathBuf>,
    /// Where `tidegate.toml` is looked for; it may be missing.
    pub directory: PathBuf,
    /// The environment. Variables that begin with `TIDEGATE_` and have `__` in them are keys.
    pub env: Vec<(String, String)>,
    /// `--set`, each `key=value`.
    pub set: Vec<String>,
    /// Keys that a flag of the command line stands for.
    pub flags: Vec<(String, String)>,
}

/// The values of all sources laid over each other.
pub(super) fn merge(sources: &Sources, problems: &mut Vec<Problem>) -> Flat {
    let mut layers = vec![defaults(KEYS)];
    let mut add = |table: Map<String, Value>| layers.push(schema::flatten(KEYS, "", table, problems));
    let mut unreadable = Vec::new();
    match file_table(sources) {
        Ok(table) => add(table),
        Err(problem) => unreadable.push(problem),
    }
    // In the order of their names, so that a variable for a table comes before those for its keys.
    let mut variables: Vec<_> = sources.env.iter().collect();
    variables.sort();
    for (name, text) in variables {
        match variable_key(name) {
            Ok(Some(path)) => add(entry(&path, text, name)),
            Ok(None) => {}
            Err(problem) => unreadable.push(problem),
        }
    }
    for (at, typed) in sources.set.iter().enumerate() {
        match typed.split_once('=') {
            Some((path, text)) if !path.trim().is_empty() => add(entry(path.trim(), text, "--set")),
            // What was typed may be a secret, so it is not repeated.
            _ => unreadable.push(Problem {
                key: format!("--set number {}", at + 1),
                origin: "command line".to_owned(),
                message: "expected key=value".to_owned(),
            }),
        }
    }
    for (path, text) in &sources.flags {
        add(entry(path, text, "flag"));
    }
    problems.append(&mut unreadable);

    let mut builder = config::Config::builder();
    for layer in layers {
        builder = builder.add_source(Layer(layer));
    }
    match builder.build().and_then(|merged| merged.collect()) {
        Ok(merged) => schema::flatten(KEYS, "", merged, problems),
        Err(error) => {
            problems.push(Problem {
                key: "configuration".to_owned(),
                origin: "all sources".to_owned(),
                message: error.to_string(),
            });
            Flat::new()
        }
    }
}

/// The values of the keys that have a default.
pub(super) fn defaults(keys: &[Key]) -> Flat {
    let with_default = |key: &Key| {
        key.default
            .map(|default| (key.path.to_owned(), value_of(Some(key), default, DEFAULT_ORIGIN)))
    };
    keys.iter().filter_map(with_default).collect()
}

/// One source's values, all of them of known keys.
#[derive(Clone)]
struct Layer(Flat);

// The trait asks for it; the values may be secrets.
impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self.0.clone().into_iter().collect())
    }
}

fn file_table(sources: &Sources) -> Result<Map<String, Value>, Problem> {
    let (path, may_be_missing) = match &sources.file {
        Some(path) => (path.clone(), false),
        None => (sources.directory.join(FILE_NAME), true),
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if may_be_missing && error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => {
            return Err(Problem {
                key: "configuration file".to_owned(),
                origin: path.display().to_string(),
                message: format!("it cannot be read: {error}"),
            });
        }
    };
    let table: toml::Table = toml::from_str(&text).map_err(|error| syntax_problem(&path, &text, &error))?;
    let origin = path.display().to_string();
    Ok(table
        .into_iter()
        .map(|(name, value)| (name, to_value(value, &origin)))
        .collect())
}

/// Says where, but does not show the line as the parser would: it may hold a secret.
fn syntax_problem(path: &Path, text: &str, error: &toml::de::Error) -> Problem {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    Problem {
        key: format!("line {line}"),
        origin: path.display().to_string(),
        message: format!("not TOML: {}", error.message().replace('\n', ", ")),
    }
}

/// The key that a variable stands for, if it is meant as one. Others with the prefix are not: the clients' own, and those
/// that a container's platform makes of a service's name.
fn variable_key(name: &str) -> Result<Option<String>, Problem> {
    let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
        return Ok(None);
    };
    let rest = rest.to_ascii_lowercase();
    let path = rest.replace("__", ".");
    if rest.contains("__") || schema::find(KEYS, &path).is_some() {
        return Ok(Some(path));
    }
    match KEYS.iter().find(|key| key.path.replace('.', "_") == rest) {
        None => Ok(None),
        Some(key) => Err(Problem {
            key: rest,
            origin: name.to_owned(),
            message: format!(
                "no such key; the nearest is {}, as a variable {VARIABLE_PREFIX}{}",
                key.path,
                key.path.replace('.', "__").to_ascii_uppercase()
            ),
        }),
    }
}

/// A table with one value in it, as deep as its path says.
fn entry(path: &str, text: &str, origin: &str) -> Map<String, Value> {
    let mut value = value_of(schema::find(KEYS, path), text, origin);
    let mut names = path.rsplit('.').peekable();
    loop {
        let name = names.next().unwrap_or_default().to_owned();
        let table = Map::from_iter([(name, value)]);
        if names.peek().is_none() {
            return table;
        }
        value = Value::new(Some(&origin.to_owned()), table);
    }
}

/// What a text means as a key's value: itself where the key takes text, else TOML, or text where it is no TOML.
fn value_of(key: Option<&Key>, text: &str, origin: &str) -> Value {
    let as_text = || toml::Value::String(text.to_owned());
    let value = match key {
        Some(key) if key.is_text => as_text(),
        _ => text.parse().unwrap_or_else(|_| as_text()),
    };
    to_value(value, origin)
}

fn to_value(value: toml::Value, origin: &str) -> Value {
    let kind = match value {
        toml::Value::String(text) => ValueKind::String(text),
        toml::Value::Integer(number) => ValueKind::I64(number),
        toml::Value::Float(number) => ValueKind::Float(number),
        toml::Value::Boolean(flag) => ValueKind::Boolean(flag),
        toml::Value::Datetime(time) => ValueKind::String(time.to_string()),
        toml::Value::Array(items) => ValueKind::Array(items.into_iter().map(|item| to_value(item, origin)).collect()),
        toml::Value::Table(table) => ValueKind::Table(
            table
                .into_iter()
                .map(|(name, value)| (name, to_value(value, origin)))
                .collect(),
        ),
    };
    Value::new(Some(&origin.to_owned()), kind)
}
