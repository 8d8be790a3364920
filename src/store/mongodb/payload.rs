//! A payload as a BSON value that people can query, and back as the text that its publisher sent.
//!
//! The text is what counts. [`encode`] says whether [`render`] gives back the very same text; where it does not (`1e2`,
//! `-0`, `\u00e9`, an integer beyond 64 bits), the text is stored beside the value, which then is the nearest that BSON
//! has. Some texts have no such value (a name with a NUL, a name twice in one object, a number beyond a double, nesting
//! that a server refuses): then the text alone is stored.

use mongodb::bson::{RawArray, RawBsonRef, RawDocument};

use super::document::{self, Kind};
use crate::domain::push_string;

/// Servers take 180 levels in a command and a document; the value stands a few levels down in either.
const NESTING_MAX: usize = 90;

/// A value in BSON.
#[derive(Debug)]
pub(super) struct Encoded {
    pub kind: Kind,
    pub bytes: Vec<u8>,
    /// Whether rendering it gives the text again.
    pub exact: bool,
}

/// `None` where BSON has nothing like it. The text is JSON without insignificant white space.
pub(super) fn encode(text: &str) -> Option<Encoded> {
    let mut encoder = Encoder {
        rest: text,
        out: Vec::with_capacity(text.len() + text.len() / 2 + 16),
        exact: true,
    };
    let kind = encoder.value(0)?;
    encoder.rest.is_empty().then_some(Encoded {
        kind,
        bytes: encoder.out,
        exact: encoder.exact,
    })
}

struct Encoder<'a> {
    rest: &'a str,
    out: Vec<u8>,
    exact: bool,
}

impl<'a> Encoder<'a> {
    fn first(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Kind> {
        if depth > NESTING_MAX {
            return None;
        }
        match self.first()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => {
                let start = document::open(&mut self.out);
                self.string()?;
                document::close_string(&mut self.out, start);
                Some(Kind::String)
            }
            b't' => self.skip("true").map(|()| self.boolean(1)),
            b'f' => self.skip("false").map(|()| self.boolean(0)),
            b'n' => self.skip("null").map(|()| Kind::Null),
            _ => self.number(),
        }
    }

    fn boolean(&mut self, byte: u8) -> Kind {
        self.out.push(byte);
        Kind::Boolean
    }

    fn object(&mut self, depth: usize) -> Option<Kind> {
        self.skip("{")?;
        let start = document::open(&mut self.out);
        let mut names = Vec::new();
        if self.first()? != b'}' {
            loop {
                let kind_at = self.out.len();
                self.out.push(0);
                let name_at = self.out.len();
                self.string()?;
                if self.out[name_at..].contains(&0) {
                    return None;
                }
                names.push(name_at..self.out.len());
                self.out.push(0);
                self.skip(":")?;
                let kind = self.value(depth + 1)?;
                self.out[kind_at] = kind as u8;
                if self.first()? != b',' {
                    break;
                }
                self.skip(",")?;
            }
        }
        self.skip("}")?;
        let mut names: Vec<&[u8]> = names.into_iter().map(|name| &self.out[name]).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        document::close(&mut self.out, start);
        Some(Kind::Document)
    }

    fn array(&mut self, depth: usize) -> Option<Kind> {
        use std::io::Write;
        self.skip("[")?;
        let start = document::open(&mut self.out);
        if self.first()? != b']' {
            for index in 0_usize.. {
                let kind_at = self.out.len();
                self.out.push(0);
                // Writing into memory cannot fail.
                let _ = write!(self.out, "{index}\0");
                let kind = self.value(depth + 1)?;
                self.out[kind_at] = kind as u8;
                if self.first()? != b',' {
                    break;
                }
                self.skip(",")?;
            }
        }
        self.skip("]")?;
        document::close(&mut self.out, start);
        Some(Kind::Array)
    }

    /// Puts a string's characters, without its quotes, at the end of `out`.
    fn string(&mut self) -> Option<()> {
        self.skip("\"")?;
        loop {
            let end = self.rest.bytes().position(|byte| byte == b'"' || byte == b'\\')?;
            let (plain, rest) = self.rest.split_at(end);
            self.out.extend_from_slice(plain.as_bytes());
            self.rest = rest;
            if self.skip("\"").is_some() {
                return Some(());
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        self.skip("\\")?;
        let letter = self.first()?;
        let plain = match letter {
            b'"' | b'\\' => letter,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'/' => {
                self.exact = false;
                b'/'
            }
            b'u' => return self.unicode_escape(),
            _ => return None,
        };
        self.rest = self.rest.get(1..)?;
        self.out.push(plain);
        Some(())
    }

    fn unicode_escape(&mut self) -> Option<()> {
        let digits = self.rest.get(1..5)?;
        let unit = self.code_unit()?;
        let code = if (0xd800..0xdc00).contains(&unit) {
            self.skip("\\")?;
            let low = self.code_unit()?;
            0x1_0000 + ((unit - 0xd800) << 10) + low.checked_sub(0xdc00)?
        } else {
            unit
        };
        // What `render` writes that way too.
        let own = code < 0x20 && ![8, 9, 10, 12, 13].contains(&code) && digits == format!("{code:04x}");
        self.exact &= own;
        let character = char::from_u32(code)?;
        self.out
            .extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    }

    fn code_unit(&mut self) -> Option<u32> {
        let unit = u32::from_str_radix(self.rest.strip_prefix('u')?.get(..4)?, 16).ok()?;
        self.rest = self.rest.get(5..)?;
        Some(unit)
    }

    fn number(&mut self) -> Option<Kind> {
        let inside = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let end = self.rest.bytes().position(|byte| !inside(byte));
        let (token, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if token != "-0"
            && let Ok(integer) = token.parse::<i64>()
        {
            return Some(match i32::try_from(integer) {
                Ok(small) => {
                    self.out.extend_from_slice(&small.to_le_bytes());
                    Kind::Int32
                }
                Err(_) => {
                    self.out.extend_from_slice(&integer.to_le_bytes());
                    Kind::Int64
                }
            });
        }
        let double: f64 = token.parse().ok().filter(|double: &f64| double.is_finite())?;
        self.exact &= format!("{double:?}") == token;
        self.out.extend_from_slice(&double.to_le_bytes());
        Some(Kind::Double)
    }
}

/// The JSON text of a value; `None` for what JSON has no word for.
pub(super) fn render(value: RawBsonRef<'_>, json: &mut Vec<u8>) -> Option<()> {
    use std::io::Write;
    // Writing into memory cannot fail.
    match value {
        RawBsonRef::Document(document) => return render_document(document, json),
        RawBsonRef::Array(array) => return render_array(array, json),
        RawBsonRef::String(text) => push_string(json, text),
        RawBsonRef::Int32(number) => drop(write!(json, "{number}")),
        RawBsonRef::Int64(number) => drop(write!(json, "{number}")),
        RawBsonRef::Double(number) if number.is_finite() => drop(write!(json, "{number:?}")),
        RawBsonRef::Boolean(true) => json.extend_from_slice(b"true"),
        RawBsonRef::Boolean(false) => json.extend_from_slice(b"false"),
        RawBsonRef::Null => json.extend_from_slice(b"null"),
        _ => return None,
    }
    Some(())
}

fn render_document(document: &RawDocument, json: &mut Vec<u8>) -> Option<()> {
    json.push(b'{');
    for (at, element) in document.iter_elements().enumerate() {
        let element = element.ok()?;
        if at > 0 {
            json.push(b',');
        }
        push_string(json, element.key().as_str());
        json.push(b':');
        render(element.value().ok()?, json)?;
    }
    json.push(b'}');
    Some(())
}

fn render_array(array: &RawArray, json: &mut Vec<u8>) -> Option<()> {
    json.push(b'[');
    for (at, value) in array.into_iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        render(value.ok()?, json)?;
    }
    json.push(b']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::RawDocumentBuf;

    /// Through a document and back; `None` where there is no value.
    fn there_and_back(text: &str) -> Option<(String, bool)> {
        let encoded = encode(text)?;
        let mut writer = document::Writer::new(64);
        writer.raw("p", encoded.kind, &encoded.bytes);
        let document: RawDocumentBuf = writer.finish().unwrap();
        let mut json = Vec::new();
        render(document.get("p").unwrap().unwrap(), &mut json).unwrap();
        Some((String::from_utf8(json).unwrap(), encoded.exact))
    }

    #[test]
    fn what_bson_holds_comes_back() {
        for text in [
            "null",
            "true",
            "[]",
            "{}",
            "0",
            "-1",
            "2147483647",
            "2147483648",
            "-9223372036854775808",
            "1.0",
            "-0.0",
            "0.1",
            "1e16",
            "1e-7",
            r#""""#,
            r#""é 😀 \" \\ \n \t \u0000 \u001f /""#,
            r#"{"":1,"$set":{"a.b":[1,[2,{"c":null}]]},"z":1,"a":2}"#,
        ] {
            assert_eq!(there_and_back(text), Some((text.to_owned(), true)), "{text}");
        }
    }

    #[test]
    fn what_bson_holds_nearly_is_told_apart() {
        for (text, nearly) in [
            ("-0", "-0.0"),
            ("1e2", "100.0"),
            ("1E16", "1e16"),
            ("1.50", "1.5"),
            ("9223372036854775808", "9.223372036854776e18"),
            (r#""\u00e9""#, r#""é""#),
            (r#""\/""#, r#""/""#),
            (r#""\u001F""#, r#""\u001f""#),
            (r#""\u000a""#, r#""\n""#),
            (r#""\ud83d\ude00""#, r#""😀""#),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(there_and_back(text), Some((nearly.to_owned(), false)), "{text}");
        }
    }

    #[test]
    fn what_bson_cannot_hold_has_no_value() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for text in ["1e400", r#"{"a":1,"a":1}"#, r#"{"a\u0000":1}"#, deep.as_str()] {
            assert!(encode(text).is_none(), "{text}");
        }
        // Not JSON: never stored by the gateway, and no panic here.
        for text in [
            "",
            "{",
            "[1",
            "\"",
            "\"\\u12",
            "\"\\ud800\"",
            "{\"a\"",
            "tru",
            "-",
            "1 2",
            "é",
        ] {
            assert!(encode(text).is_none(), "{text}");
        }
    }

    #[test]
    fn any_json_that_is_called_exact_is_exact() {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>()
                .prop_filter("finite", |n| n.is_finite())
                .prop_map(|n| n.to_string()),
            any::<f64>()
                .prop_filter("finite", |n| n.is_finite())
                .prop_map(|n| format!("{n:e}")),
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        ];
        let json = leaf.prop_recursive(6, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(","))),
                prop::collection::vec((any::<String>(), inner), 0..5).prop_map(|all| {
                    let members: Vec<String> = all
                        .into_iter()
                        .map(|(name, value)| format!("{}:{value}", serde_json::to_string(&name).unwrap()))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        });
        proptest!(|(text in json)| {
            if let Some((back, true)) = there_and_back(&text) {
                prop_assert_eq!(back, text);
            }
        });
    }
}
