//! A payload keeps its text, insignificant white space aside, whatever JSON it is.

use proptest::prelude::*;

use crate::protocol::{Request, parse};

/// JSON as its tokens, so that it can be written with and without white space.
fn tokens() -> impl Strategy<Value = Vec<String>> {
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "1.0",
        "1e400",
        "-1E-400",
        "1.10",
        "100000000000000000000000000000",
        "1e+05",
        "0.1e1",
    ]);
    let plain = prop_oneof![number, prop::sample::select(vec!["true", "false", "null"])].prop_map(String::from);
    let leaf = prop_oneof![plain, string()].prop_map(|token| vec![token]);
    leaf.prop_recursive(6, 60, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6).prop_map(|parts| joined("[", parts, "]"));
        let member = (string(), inner).prop_map(|(name, value)| [vec![name, ":".into()], value].concat());
        let object = prop::collection::vec(member, 0..6).prop_map(|parts| joined("{", parts, "}"));
        prop_oneof![list, object]
    })
}

/// Few pieces, so that names come twice and quotes, backslashes and white space meet.
fn string() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        " ",
        "  ",
        "{",
        "]",
        ",",
        ":",
        "é",
        "😀",
        "\u{2028}",
        "\u{7f}",
        r#"\""#,
        r"\\",
        r"\n",
        r"\/",
        r"\u0000",
        r"\u000a",
        r"\uD83D\ude00",
        r"\u00E9",
    ]);
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn joined(open: &str, parts: Vec<Vec<String>>, close: &str) -> Vec<String> {
    let mut tokens = vec![open.to_owned()];
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            tokens.push(",".into());
        }
        tokens.extend(part);
    }
    tokens.push(close.into());
    tokens
}

fn payload_of(text: &str) -> Box<str> {
    match parse(text).request {
        Ok(Request::Publish { draft, .. }) => draft.payload,
        other => panic!("{text}: {other:?}"),
    }
}

proptest! {
    #[test]
    fn white_space_goes_and_all_else_stays(
        tokens in tokens(),
        spaces in prop::collection::vec(prop::sample::select(vec!["", " ", "\n", "\r\n", "\t ", ""]), 1..40),
    ) {
        let mut spaces = spaces.into_iter().cycle();
        let mut spaced = String::new();
        for token in &tokens {
            spaced.extend(spaces.next());
            spaced.push_str(token);
        }
        let text = format!("{{\"op\":\"PUBLISH\",\"topic\":\"t\",\"payload\":{spaced}\n}}");
        prop_assert_eq!(&*payload_of(&text), tokens.concat());
    }
}

#[test]
fn ugly_payloads_keep_their_text() {
    for payload in [
        "1.0",
        "-0",
        "1e400",
        "123456789012345678901234567890.10",
        r#"{"a":1,"a":2,"":3}"#,
        r#"{"z":1,"a":2}"#,
        r#""\u00e9\/\b\u0000 \n""#,
        r#""\ud83d\ude00😀""#,
        "\"\u{2028}\u{2029}\"",
        r#""{ \"a\" : [ 1 ] }""#,
        "[]",
        "null",
    ] {
        let text = format!(r#"{{"op":"PUBLISH","topic":"t","payload":  {payload}  }}"#);
        assert_eq!(&*payload_of(&text), payload);
    }
}
