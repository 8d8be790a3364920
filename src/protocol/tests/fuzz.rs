//! Any text at all: no panic, always an answer, and the right one of "not JSON", "too deep" and the rest, by the word of
//! a slow reader that decodes everything.

use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::corpus;
use crate::protocol::{Answer, ErrorCode, Request, encode_err, encode_ok, parse};

/// How deep a JSON value nests, found by decoding all of it.
struct Depth(usize);

impl<'a> Deserialize<'a> for Depth {
    fn deserialize<D: Deserializer<'a>>(json: D) -> Result<Depth, D::Error> {
        json.deserialize_any(DepthVisitor).map(Depth)
    }
}

struct DepthVisitor;

impl<'a> Visitor<'a> for DepthVisitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_str<E>(self, _: &str) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }
    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut deepest = 0;
        while let Some(Depth(depth)) = list.next_element()? {
            deepest = deepest.max(depth);
        }
        Ok(deepest + 1)
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut deepest = 0;
        while let Some((_, Depth(depth))) = map.next_entry::<String, Depth>()? {
            deepest = deepest.max(depth);
        }
        Ok(deepest + 1)
    }
}

#[derive(Debug, PartialEq)]
enum Judgement {
    NotJson,
    TooDeep,
    Fine,
    /// The slow reader gives up on numbers that no float holds, and below its own limit of nesting.
    Unknown,
}

fn judge(text: &str) -> Judgement {
    match serde_json::from_str(text) {
        Ok(Depth(depth)) if depth > 64 => Judgement::TooDeep,
        Ok(_) => Judgement::Fine,
        Err(error) => {
            let error = error.to_string();
            if error.starts_with("number out of range") || error.starts_with("recursion limit") {
                Judgement::Unknown
            } else {
                Judgement::NotJson
            }
        }
    }
}

fn assert_answered(text: &str) {
    let frame = parse(text);
    let code = frame.request.as_ref().err().map(|failure| failure.code);
    let says_nesting = matches!(&frame.request, Err(failure) if failure.msg.starts_with("nesting"));
    match judge(text) {
        Judgement::NotJson => assert_eq!(code, Some(ErrorCode::BadJson), "{text}"),
        Judgement::TooDeep => assert!(says_nesting, "{text}: {:?}", frame.request),
        Judgement::Fine => assert!(
            code != Some(ErrorCode::BadJson) && !says_nesting,
            "{text}: {:?}",
            frame.request
        ),
        Judgement::Unknown => {}
    }
    let answer = match &frame.request {
        Ok(_) => encode_ok(frame.corr.as_ref(), &Answer::Ok),
        Err(failure) => encode_err(frame.corr.as_ref(), failure, None),
    };
    assert!(answer.len() < 2_000, "{answer}");
    assert!(
        serde_json::from_str::<serde::de::IgnoredAny>(&answer).is_ok(),
        "{answer}"
    );
    if let Ok(Request::Publish { draft, .. }) = &frame.request {
        assert!(!draft.payload.contains(['\n', '\r']), "{text}");
        assert!(
            serde_json::from_str::<serde::de::IgnoredAny>(&draft.payload).is_ok(),
            "{text}"
        );
    }
}

/// Pieces that mean something to a scanner, in any order.
fn json_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ":",
        ",",
        " ",
        "\\u",
        "d800",
        "\\udc00",
        "\\ud83d\\ude00",
        "\"a\"",
        "1",
        "null",
        "é",
        "\"op\":",
        "\"corr\":1",
        "\"x\":{\"a\":[",
        "\\\"",
        "\\\\",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[derive(Debug, Clone)]
enum Mutation {
    Cut(prop::sample::Index),
    Remove(prop::sample::Index),
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, &'static str),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let inserted = prop::sample::select(vec![
        "\"",
        "\\",
        "\\ud800",
        "\\ude00",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "0",
        "-",
        "1e999",
        "null",
        "\"op\":\"ACK\",",
        "\n",
        "é",
    ]);
    prop_oneof![
        index().prop_map(Mutation::Cut),
        index().prop_map(Mutation::Remove),
        (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (index(), inserted).prop_map(|(at, text)| Mutation::Insert(at, text)),
        (index(), index()).prop_map(|(from, to)| Mutation::Repeat(from, to)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let length = bytes.len().max(1);
    let place = |index: &prop::sample::Index| index.index(length).min(bytes.len());
    match mutation {
        Mutation::Cut(at) => bytes.truncate(place(at)),
        Mutation::Remove(at) => drop(bytes.drain(place(at)..(place(at) + 1).min(bytes.len()))),
        Mutation::Replace(at, byte) => {
            let at = place(at);
            if let Some(old) = bytes.get_mut(at) {
                *old = *byte;
            }
        }
        Mutation::Insert(at, text) => drop(bytes.splice(place(at)..place(at), text.bytes())),
        Mutation::Repeat(from, to) => {
            let (from, to) = (place(from), place(to));
            bytes.extend_from_within(from.min(to)..from.max(to));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_answered(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text(text in "\\PC{0,100}") {
        assert_answered(&text);
    }

    #[test]
    fn any_json_like_text(text in json_like()) {
        assert_answered(&text);
        assert_answered(&format!("{{\"op\":\"PUBLISH\",\"topic\":\"t\",\"payload\":{text}}}"));
        assert_answered(&format!("{{\"op\":\"PUBLISH\",\"topic\":\"t\",\"payload\":\"{text}\"}}"));
    }

    #[test]
    fn any_nesting(levels in prop::collection::vec(any::<bool>(), 50..110)) {
        let open: String = levels.iter().map(|&list| if list { "[" } else { "{\"]\":" }).collect();
        let close: String = levels.iter().rev().map(|&list| if list { "]" } else { "}" }).collect();
        assert_answered(&format!("{{\"op\":\"PUBLISH\",\"topic\":\"t\",\"payload\":{open}0{close}}}"));
        assert_answered(&format!("{{\"op\":\"PUBLISH\",\"topic\":\"t\",\"payload\":{open}"));
    }

    #[test]
    fn any_frame_with_mistakes(
        frame in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 1..5),
    ) {
        let frames = FRAMES.with(Clone::clone);
        let mut bytes = frame.get(&frames).1.clone().into_bytes();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        assert_answered(&String::from_utf8_lossy(&bytes));
    }
}

thread_local! {
    static FRAMES: std::rc::Rc<Vec<(String, String)>> = std::rc::Rc::new(corpus::frames());
}

#[test]
fn every_beginning_of_every_frame_is_answered() {
    for (_, text) in corpus::frames() {
        for (end, _) in text.char_indices().take(2_000) {
            assert_answered(&text[..end]);
        }
        assert_answered(&text);
    }
}
