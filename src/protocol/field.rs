//! Fields of JSON objects, taken as raw values first and converted afterwards: only so can every error name its field,
//! and `corr` be read from a frame whose rest is wrong.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::code::ErrorCode;
use super::reply::Failure;
use super::value::shown;
use super::walk::{Stop, walk_elements, walk_members};

/// What is wrong with a value, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    path: String,
    problem: Cow<'static, str>,
}

impl Wrong {
    pub(super) fn new(problem: impl Into<Cow<'static, str>>) -> Wrong {
        Wrong {
            path: String::new(),
            problem: problem.into(),
        }
    }

    /// The same, seen from the object or list around it.
    pub(super) fn inside(mut self, outer: &str) -> Wrong {
        let joint = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{outer}{joint}{}", self.path);
        self
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Failure {
        Failure::new(ErrorCode::BadRequest, format!("{}: {}", wrong.path, wrong.problem))
    }
}

/// This field was given before. Costs nothing until somebody is told: a frame can have very many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubled(&'static str);

impl From<Doubled> for Wrong {
    fn from(Doubled(name): Doubled) -> Wrong {
        Wrong::new("given twice").inside(name)
    }
}

/// A known field of an object, given or not.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    name: &'static str,
    raw: Option<&'a RawValue>,
}

impl<'a> Field<'a> {
    pub(super) fn not_given(name: &'static str) -> Field<'a> {
        Field { name, raw: None }
    }

    /// Takes the value, once.
    pub(super) fn give(&mut self, raw: &'a RawValue) -> Result<(), Doubled> {
        if self.raw.is_some() {
            return Err(Doubled(self.name));
        }
        self.raw = Some(raw);
        Ok(())
    }

    /// The value, where it is given and is not `null`.
    pub(super) fn optional<T>(self, read: impl FnOnce(&'a RawValue) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
        match self.raw {
            Some(raw) if raw.get() != "null" => read(raw).map(Some).map_err(|wrong| wrong.inside(self.name)),
            _ => Ok(None),
        }
    }

    /// The value, which must be there.
    pub(super) fn required<T>(self, read: impl FnOnce(&'a RawValue) -> Result<T, Wrong>) -> Result<T, Wrong> {
        self.optional(read)?.ok_or_else(|| self.wrong("missing"))
    }

    /// The value's JSON text, which must be there; `null` is a value here, as it is for payloads.
    pub(super) fn required_json(self) -> Result<&'a str, Wrong> {
        self.raw.map(RawValue::get).ok_or_else(|| self.wrong("missing"))
    }

    pub(super) fn is_given(self) -> bool {
        self.raw.is_some_and(|raw| raw.get() != "null")
    }

    pub(super) fn wrong(self, problem: impl Into<Cow<'static, str>>) -> Wrong {
        Wrong::new(problem).inside(self.name)
    }
}

/// An object with known fields.
pub(super) trait Fields<'a>: Sized {
    /// Their names, as the client writes them.
    const NAMES: &'static [&'static str];
    fn none_given() -> Self;
    fn find(&mut self, name: &str) -> Option<&mut Field<'a>>;
}

/// Makes a struct of [`Field`]s and its [`Fields`].
macro_rules! fields {
    ($(#[$attribute:meta])* $type:ident { $($field:ident: $name:literal),+ $(,)? }) => {
        $(#[$attribute])*
        struct $type<'a> {
            $($field: $crate::protocol::field::Field<'a>),+
        }

        impl<'a> $crate::protocol::field::Fields<'a> for $type<'a> {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn none_given() -> Self {
                Self { $($field: $crate::protocol::field::Field::not_given($name)),+ }
            }

            fn find(&mut self, name: &str) -> Option<&mut $crate::protocol::field::Field<'a>> {
                match name {
                    $($name => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use fields;

/// The known fields of an object; others are ignored.
pub(super) fn known_fields<'a, F: Fields<'a>>(raw: &'a RawValue) -> Result<F, Wrong> {
    let mut fields = F::none_given();
    each_member(raw, |name, value| match fields.find(name) {
        Some(field) => Ok(field.give(value)?),
        None => Ok(()),
    })?;
    Ok(fields)
}

/// The fields of an object that has no others: a misspelt option must not pass as the default.
pub(super) fn only_known_fields<'a, F: Fields<'a>>(raw: &'a RawValue) -> Result<F, Wrong> {
    let mut fields = F::none_given();
    each_member(raw, |name, value| match fields.find(name) {
        Some(field) => Ok(field.give(value)?),
        None => Err(Wrong::new(unknown(name, F::NAMES)).inside(&shown(name))),
    })?;
    Ok(fields)
}

/// Says that there is no such name, and which known one is near.
pub(super) fn unknown(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown; did you mean `{near}`?"),
        None => "unknown".into(),
    }
}

/// The failure for a name that is not known here.
pub(crate) fn unknown_name(name: &str, known: &[&str]) -> Failure {
    Wrong::new(unknown(name, known)).inside(&shown(name)).into()
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Distances take quadratic time, and nothing long is near.
    if name.len() > 32 {
        return None;
    }
    // Other spellings of the same words (`max_in_flight`) are as near as can be.
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let given = plain(name);
    known
        .iter()
        .map(|&one| (strsim::osa_distance(&given, &plain(one)), one))
        .filter(|&(distance, one)| distance <= 2 && distance * 2 < one.len())
        .min()
        .map(|(_, one)| one)
}

/// Calls `each` with the members of an object, until it finds something wrong.
pub(super) fn each_member<'a>(
    raw: &'a RawValue,
    mut each: impl FnMut(&str, &'a RawValue) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut found = None;
    let walked = walk_members(raw.get(), |name, value| keep(&mut found, each(name, value)));
    outcome(found, walked, "expected an object")
}

/// Calls `each` with the elements of a list, until it finds something wrong.
pub(super) fn each_element<'a>(
    raw: &'a RawValue,
    mut each: impl FnMut(&'a RawValue) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut found = None;
    let walked = walk_elements(raw.get(), |value| keep(&mut found, each(value)));
    outcome(found, walked, "expected a list")
}

fn keep(found: &mut Option<Wrong>, result: Result<(), Wrong>) -> Result<(), Stop> {
    result.map_err(|wrong| {
        *found = Some(wrong);
        Stop
    })
}

fn outcome(found: Option<Wrong>, walked: serde_json::Result<()>, expected: &'static str) -> Result<(), Wrong> {
    match (found, walked) {
        (Some(wrong), _) => Err(wrong),
        // A raw value is whole JSON, so what fails here is its type.
        (None, Err(_)) => Err(Wrong::new(expected)),
        (None, Ok(())) => Ok(()),
    }
}
