//! What `serde_json` leaves unchecked in raw values: how deep they nest, and lone surrogates in their escapes. A payload
//! is stored and sent on as text, so what is let in here would break the first reader that decodes it.
//!
//! Neither pass relies on its text being JSON: on any other it gives some answer and ends.

use super::limits::NESTING;

/// What is wrong with a text that `serde_json` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Half of a surrogate pair stands alone in an escape: such a string is no Unicode text.
    LoneSurrogate,
    /// More than [`NESTING`] levels.
    TooDeep,
}

/// Looks for flaws in one pass. A lone surrogate goes before nesting, wherever the two stand.
pub(super) fn check(text: &str) -> Result<(), Flaw> {
    check_within(text, NESTING)
}

/// The same, with another number of levels.
pub(super) fn check_within(text: &str, levels: usize) -> Result<(), Flaw> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = check_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if deepest > levels { Err(Flaw::TooDeep) } else { Ok(()) }
}

/// The text without insignificant white space, so without line breaks; everything else stays as it is.
pub(super) fn minify(json: &str) -> Box<str> {
    let bytes = json.as_bytes();
    // Without an early exit, so that the compiler can look at many bytes at once.
    let has_space = bytes.iter().fold(false, |found, &byte| found | (byte <= b' '));
    if !has_space {
        return json.into();
    }
    let mut kept = String::new();
    let mut run_start = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at + 1),
            b' ' | b'\t' | b'\n' | b'\r' => {
                if kept.capacity() == 0 {
                    kept.reserve_exact(json.len());
                }
                kept.push_str(json.get(run_start..at).unwrap_or_default());
                at += 1;
                run_start = at;
            }
            _ => at += 1,
        }
    }
    if run_start == 0 {
        // All of it was inside of strings.
        return json.into();
    }
    kept.push_str(json.get(run_start..).unwrap_or_default());
    kept.into_boxed_str()
}

/// Checks the escapes of the string whose content starts at `at`; gives the place after its closing quote.
fn check_string(bytes: &[u8], mut at: usize) -> Result<usize, Flaw> {
    loop {
        at = plain_end(bytes, at);
        if bytes.get(at) != Some(&b'\\') {
            return Ok(at + 1);
        }
        match escaped_unit(bytes, at) {
            Some(0xD800..=0xDBFF) => {
                if !matches!(escaped_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) {
                    return Err(Flaw::LoneSurrogate);
                }
                at += 12;
            }
            Some(0xDC00..=0xDFFF) => return Err(Flaw::LoneSurrogate),
            _ => at += 2,
        }
    }
}

/// The place after the closing quote of the string whose content starts at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = plain_end(bytes, at);
        if bytes.get(at) != Some(&b'\\') {
            return at + 1;
        }
        at += 2;
    }
}

/// The place of the next quote or backslash, or else the end.
fn plain_end(bytes: &[u8], from: usize) -> usize {
    const CHUNK: usize = 16;
    let special = |byte: u8| byte == b'"' || byte == b'\\';
    let rest = bytes.get(from..).unwrap_or_default();
    // Long strings go by in chunks, each looked at as a whole: no early exit, so that it becomes a few instructions.
    let plain = |chunk: &&[u8]| !chunk.iter().fold(false, |found, &byte| found | special(byte));
    let skipped = rest.chunks_exact(CHUNK).take_while(plain).count() * CHUNK;
    let last = rest.get(skipped..).unwrap_or_default();
    from + skipped + last.iter().position(|&byte| special(byte)).unwrap_or(last.len())
}

/// The UTF-16 unit of a `\uXXXX` that starts here, where one does.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = bytes.get(at..at + 6)? else {
        return None;
    };
    digits.iter().try_fold(0, |unit, &digit| {
        let value = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_found_and_pairs_are_not() {
        for lone in [
            r#""\ud800""#,
            r#""\uDFFF""#,
            r#""\udc00\ud800""#,
            r#""\ud800\ud800\udc00""#,
            r#""\ud83dx""#,
            r#""\ud83d\n""#,
            r#"{"\ud800":1}"#,
            r#"["\\\ud800"]"#,
            r#""\ud800"#,
        ] {
            assert_eq!(check(lone), Err(Flaw::LoneSurrogate), "{lone}");
        }
        for fine in [
            r#""\ud83d\ude00""#,
            r#""\\ud800""#,
            r#""\\\\ud800""#,
            r#""\ud7ff\ue000""#,
            r#""\u00e9\"\ud83d\ude00""#,
            r#""\ud8"#,
            r#""\"#,
            "\"",
            "",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn nesting_counts_objects_and_lists_but_no_brackets_in_strings() {
        let nested = |levels: usize| format!("{}{}", "[{\"a\":".repeat(levels / 2), "}]".repeat(levels / 2));
        assert_eq!(check(&nested(64)), Ok(()));
        assert_eq!(check(&nested(66)), Err(Flaw::TooDeep));
        assert_eq!(check(&format!("\"{}\"", "[".repeat(99))), Ok(()));
        assert_eq!(check(&format!("\"\\\"{}\"", "[".repeat(99))), Ok(()));
        assert_eq!(check(&"[]".repeat(99)), Ok(()));
        assert_eq!(check(&format!("{}[", "]".repeat(99))), Ok(()));
        assert_eq!(
            check(&format!("{}\"\\ud800\"", "[".repeat(99))),
            Err(Flaw::LoneSurrogate)
        );
    }

    #[test]
    fn minify_takes_white_space_between_tokens_only() {
        for (json, expected) in [
            ("1.0", "1.0"),
            (r#"" a b ""#, r#"" a b ""#),
            ("[ 1 ,\t2\r\n]", "[1,2]"),
            (r#"{ "a b" : "\" \\" , "c" : [ ] }"#, r#"{"a b":"\" \\","c":[]}"#),
            (r#"{"a":"é ü", "b":1e400}"#, r#"{"a":"é ü","b":1e400}"#),
            ("\" open", "\" open"),
        ] {
            assert_eq!(&*minify(json), expected);
        }
    }
}
