//! Walks over JSON objects and lists with their values left raw: the only place that knows how `serde` hands them out.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Asks a walk to go no further.
pub(super) struct Stop;

/// Calls `each` with the members of the object that a text is; what comes before a mistake in the text is seen.
pub(super) fn walk_members<'a>(
    text: &'a str,
    each: impl FnMut(&str, &'a RawValue) -> Result<(), Stop>,
) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Members(each))?;
    json.end()
}

/// Calls `each` with the elements of the list that a text is.
pub(super) fn walk_elements<'a>(
    text: &'a str,
    each: impl FnMut(&'a RawValue) -> Result<(), Stop>,
) -> serde_json::Result<()> {
    serde_json::Deserializer::from_str(text).deserialize_seq(Elements(each))
}

struct Members<F>(F);

impl<'a, F: FnMut(&str, &'a RawValue) -> Result<(), Stop>> Visitor<'a> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let value = map.next_value()?;
            (self.0)(&name, value).map_err(|Stop| A::Error::custom("stopped"))?;
        }
        Ok(())
    }
}

struct Elements<F>(F);

impl<'a, F: FnMut(&'a RawValue) -> Result<(), Stop>> Visitor<'a> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element()? {
            (self.0)(value).map_err(|Stop| A::Error::custom("stopped"))?;
        }
        Ok(())
    }
}

/// Reads a member's name, borrowed unless it has escapes.
struct Name;

impl<'a> DeserializeSeed<'a> for Name {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Cow<'a, str>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Name {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(name.into()))
    }
}
