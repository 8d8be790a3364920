//! Values of fields: each reader says in its error what it expected, its caller adds where.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde_json::value::RawValue;

use super::field::{Wrong, each_element, each_member};
use super::limits::{HEADER_NAME, HEADERS, LABEL};

/// A string, decoded; borrowed unless it has escapes.
pub(super) fn text(raw: &RawValue) -> Result<Cow<'_, str>, Wrong> {
    let expected = || Wrong::new("expected a string");
    let json = raw.get();
    let content = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let content = content.ok_or_else(expected)?;
    if content.contains('\\') {
        serde_json::from_str(json).map(Cow::Owned).map_err(|_| expected())
    } else {
        Ok(Cow::Borrowed(content))
    }
}

/// A string whose length in bytes is within bounds.
pub(super) fn bounded_text(raw: &RawValue, bytes: RangeInclusive<usize>) -> Result<Box<str>, Wrong> {
    let text = text(raw)?;
    if !bytes.contains(&text.len()) {
        return Err(Wrong::new(expected_text(bytes)));
    }
    Ok(text.into())
}

/// What was expected of a string, by its length.
pub(crate) fn expected_text(bytes: RangeInclusive<usize>) -> String {
    format!("expected a string of {} bytes", bounds(bytes))
}

/// What was expected of a number.
pub(crate) fn expected_integer(range: RangeInclusive<u64>) -> String {
    let (min, max) = (grouped(*range.start()), grouped(*range.end()));
    format!("expected an integer from {min} to {max}")
}

/// The id of an event.
pub(super) fn id(raw: &RawValue) -> Result<Box<str>, Wrong> {
    bounded_text(raw, 1..=LABEL)
}

/// One of a few words.
pub(super) fn word(raw: &RawValue, words: &[&'static str]) -> Result<&'static str, Wrong> {
    let text = text(raw)?;
    let found = words.iter().find(|&&one| one == text);
    found
        .copied()
        .ok_or_else(|| Wrong::new(format!("expected one of {}", words.join(", "))))
}

/// An integer, written as one: `1.0` and `1e3` are none.
pub(super) fn integer(raw: &RawValue, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let number = raw.get().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| Wrong::new(expected_integer(range)))
}

/// An integer that fits 32 bits.
pub(super) fn small_integer(raw: &RawValue, range: RangeInclusive<u32>) -> Result<u32, Wrong> {
    let wide = integer(raw, u64::from(*range.start())..=u64::from(*range.end()))?;
    // Within the range, so it always fits.
    Ok(u32::try_from(wide).unwrap_or(*range.end()))
}

/// `true` or `false`.
pub(super) fn boolean(raw: &RawValue) -> Result<bool, Wrong> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Wrong::new("expected true or false")),
    }
}

/// A list whose length is within bounds. It is not read further than that, however long it is.
pub(super) fn list<'a, T>(
    raw: &'a RawValue,
    length: RangeInclusive<usize>,
    mut read: impl FnMut(&'a RawValue) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let wrong_length = || Wrong::new(format!("expected {} entries", bounds(length.clone())));
    let mut values = Vec::new();
    each_element(raw, |element| {
        if values.len() >= *length.end() {
            return Err(wrong_length());
        }
        let value = read(element).map_err(|wrong| wrong.inside(&format!("[{}]", values.len())))?;
        values.push(value);
        Ok(())
    })?;
    if values.len() < *length.start() {
        return Err(wrong_length());
    }
    Ok(values)
}

/// An object of headers: each name once, in the order given.
pub(super) fn headers<'a, T>(
    raw: &'a RawValue,
    mut read: impl FnMut(&'a RawValue) -> Result<T, Wrong>,
) -> Result<Vec<(Box<str>, T)>, Wrong> {
    let mut headers: Vec<(Box<str>, T)> = Vec::new();
    each_member(raw, |name, value| {
        if headers.len() >= HEADERS {
            return Err(Wrong::new(format!("expected {} headers", bounds(0..=HEADERS))));
        }
        let wrong = |problem: Wrong| problem.inside(&format!("[\"{}\"]", shown(name)));
        if !(1..=HEADER_NAME).contains(&name.len()) {
            let expected = format!("expected a name of {} bytes", bounds(1..=HEADER_NAME));
            return Err(wrong(Wrong::new(expected)));
        }
        if headers.iter().any(|(known, _)| **known == *name) {
            return Err(wrong(Wrong::new("given twice")));
        }
        headers.push((name.into(), read(value).map_err(wrong)?));
        Ok(())
    })?;
    Ok(headers)
}

/// What a client wrote, short enough for a message.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    const BYTES: usize = 64;
    if text.len() <= BYTES {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(BYTES);
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

fn bounds(range: RangeInclusive<usize>) -> String {
    let grouped = |number: usize| grouped(u64::try_from(number).unwrap_or(u64::MAX));
    match range.into_inner() {
        (0, max) => format!("at most {}", grouped(max)),
        (min, max) => format!("{} to {}", grouped(min), grouped(max)),
    }
}

/// A number with its thousands apart, for people.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_in_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn what_is_shown_is_cut_between_characters() {
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"é".repeat(33)), format!("{}…", "é".repeat(32)));
        assert_eq!(shown(&format!("a{}", "é".repeat(40))), format!("a{}…", "é".repeat(31)));
    }
}
