//! Reads values into types, and notes what is wrong with them instead of stopping at the first.
//!
//! Where a value cannot be used, the reader leaves a problem behind and gives a stand-in, which nobody sees: with a
//! problem there is no configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use config::{Value, ValueKind};

use super::error::Problem;
use super::model::{Bucket, Limit};
use super::network::parse_listen;
use super::schema::{Flat, Key, Shown, find, origin_of};

/// The longest part of a wrong value that is repeated in a message.
const REPEATED_CHARS_MAX: usize = 60;

const CAPACITY: RangeInclusive<u64> = 1..=1_000_000;
const REFILL_PER_SEC: RangeInclusive<f64> = 0.000_001..=1_000_000.0;

/// Reads the values of one table.
pub(super) struct Reader<'a> {
    pub keys: &'static [Key],
    /// What stands before a key when it is named to a person.
    pub prefix: String,
    pub values: &'a Flat,
    pub problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// Notes that a key's value is wrong.
    pub fn problem(&mut self, path: &str, message: impl Into<String>) {
        let origin = self.values.get(path).map_or("not set".to_owned(), origin_of);
        let key = format!("{}{path}", self.prefix);
        let message = message.into();
        self.problems.push(Problem { key, origin, message });
    }

    /// A value, where there is one and it can be understood.
    pub fn optional<T>(&mut self, path: &str, expected: &str, convert: impl Fn(&ValueKind) -> Option<T>) -> Option<T> {
        let value = self.values.get(path)?;
        let converted = convert(&value.kind);
        if converted.is_none() {
            let got = self.describe(path, value);
            self.problem(path, format!("expected {expected}, got {got}"));
        }
        converted
    }

    /// A value that must be there.
    pub fn required<T>(
        &mut self,
        path: &str,
        expected: &str,
        stand_in: T,
        convert: impl Fn(&ValueKind) -> Option<T>,
    ) -> T {
        if !self.values.contains_key(path) {
            self.problem(path, format!("missing; expected {expected}"));
        }
        self.optional(path, expected, convert).unwrap_or(stand_in)
    }

    /// A text that is not empty.
    pub fn text(&mut self, path: &str, expected: &str) -> String {
        self.required(path, expected, String::new(), |kind| filled(kind).map(str::to_owned))
    }

    /// A text that is not empty, or none at all.
    pub fn optional_text(&mut self, path: &str, expected: &str) -> Option<String> {
        self.optional(path, expected, |kind| filled(kind).map(str::to_owned))
    }

    /// A whole number.
    pub fn integer(&mut self, path: &str, range: RangeInclusive<u64>) -> u64 {
        let (low, expected) = (*range.start(), integer_expected(&range));
        self.required(path, &expected, low, |kind| integer_in(kind, &range))
    }

    /// A whole number, or none at all.
    pub fn optional_integer(&mut self, path: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.optional(path, &integer_expected(&range), |kind| integer_in(kind, &range))
    }

    /// A whole number that counts things in memory.
    pub fn size(&mut self, path: &str, range: RangeInclusive<u64>) -> usize {
        usize::try_from(self.integer(path, range)).unwrap_or(usize::MAX)
    }

    /// True or false.
    pub fn flag(&mut self, path: &str) -> bool {
        self.required(path, "true or false", false, |kind| match kind {
            ValueKind::Boolean(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A duration such as `10s`.
    pub fn duration(&mut self, path: &str, range: RangeInclusive<Duration>) -> Duration {
        let (low, expected) = (*range.start(), duration_expected(&range));
        self.required(path, &expected, low, |kind| duration_in(kind, &range))
    }

    /// A duration such as `10s`, or none at all.
    pub fn optional_duration(&mut self, path: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.optional(path, &duration_expected(&range), |kind| duration_in(kind, &range))
    }

    /// One of a few words. There is at least one.
    pub fn choice<T: Copy>(&mut self, path: &str, first: (&str, T), others: &[(&str, T)]) -> T {
        let all = || std::iter::once(&first).chain(others);
        let words: Vec<&str> = all().map(|(word, _)| *word).collect();
        let expected = format!("one of {}", words.join(", "));
        self.required(path, &expected, first.1, |kind| {
            let text = filled(kind)?;
            all().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning)
        })
    }

    /// An address to listen on.
    pub fn listen(&mut self, path: &str) -> SocketAddr {
        let stand_in = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let expected = "an address and a port such as \"127.0.0.1:8090\" or \"localhost:8090\"";
        self.required(path, expected, stand_in, |kind| parse_listen(filled(kind)?))
    }

    /// A list of texts, each of which means something.
    pub fn list<T>(&mut self, path: &str, expected: &str, convert: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let whole = format!("a list, each of it {expected}");
        let items = self.required(path, &whole, Vec::new(), |kind| match kind {
            ValueKind::Array(items) => Some(items.clone()),
            _ => None,
        });
        let mut converted = Vec::new();
        for item in &items {
            match filled(&item.kind).and_then(&convert) {
                Some(meaning) => converted.push(meaning),
                None => {
                    let got = self.describe(path, item);
                    self.problem(path, format!("expected {whole}, got {got} in it"));
                }
            }
        }
        converted
    }

    /// A limit, where one is given: `"off"`, or a bucket's two numbers. `words` are the texts that the key takes.
    pub fn limit(&mut self, path: &str, words: &str) -> Option<Limit> {
        let (capacity, refill) = (format!("{path}.capacity"), format!("{path}.refill_per_sec"));
        if self.values.contains_key(&capacity) || self.values.contains_key(&refill) {
            let capacity = self.integer(&capacity, CAPACITY);
            let expected = format!("a number from {} to {}", REFILL_PER_SEC.start(), REFILL_PER_SEC.end());
            let refill_per_sec = self.required(&refill, &expected, *REFILL_PER_SEC.start(), refill_in);
            let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
            return Some(Limit::Bucket(Bucket {
                capacity,
                refill_per_sec,
            }));
        }
        let expected = format!("{words} or {{ capacity = 200, refill_per_sec = 200 }}");
        self.optional(path, &expected, |kind| (filled(kind)? == "off").then_some(Limit::Off))
    }

    /// A wrong value as a message may show it.
    fn describe(&self, path: &str, value: &Value) -> String {
        let shown = find(self.keys, path).map_or(Shown::Never, |key| key.shown);
        match &value.kind {
            ValueKind::Table(_) => "a table".to_owned(),
            ValueKind::Array(_) => "a list".to_owned(),
            ValueKind::String(text) if text.is_empty() => "an empty text".to_owned(),
            _ if shown != Shown::Plain => "something else (not shown)".to_owned(),
            ValueKind::String(text) if text.chars().count() > REPEATED_CHARS_MAX => {
                format!(
                    "{:?} and more",
                    text.chars().take(REPEATED_CHARS_MAX).collect::<String>()
                )
            }
            ValueKind::String(text) => format!("{text:?}"),
            _ => value.to_string(),
        }
    }
}

fn filled(kind: &ValueKind) -> Option<&str> {
    match kind {
        ValueKind::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn integer_expected(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

fn integer_in(kind: &ValueKind, range: &RangeInclusive<u64>) -> Option<u64> {
    match kind {
        ValueKind::I64(number) => u64::try_from(*number).ok().filter(|number| range.contains(number)),
        _ => None,
    }
}

fn refill_in(kind: &ValueKind) -> Option<f64> {
    let number = match kind {
        // Exact below 2^53; above, it is out of the range in any case.
        ValueKind::I64(number) => *number as f64,
        ValueKind::Float(number) => *number,
        _ => return None,
    };
    REFILL_PER_SEC.contains(&number).then_some(number)
}

fn duration_expected(range: &RangeInclusive<Duration>) -> String {
    let show = humantime::format_duration;
    format!(
        "a duration such as \"10s\", from {} to {}",
        show(*range.start()),
        show(*range.end())
    )
}

fn duration_in(kind: &ValueKind, range: &RangeInclusive<Duration>) -> Option<Duration> {
    humantime::parse_duration(filled(kind)?)
        .ok()
        .filter(|duration| range.contains(duration))
}
