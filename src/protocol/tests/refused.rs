//! Every way in which a frame or one of its fields can be wrong: the code, and a message that begins with the field's name.

use crate::protocol::{ErrorCode, Failure, parse};

pub(super) fn failure(text: &str) -> Failure {
    let frame = parse(text);
    let Err(failure) = frame.request else {
        panic!("{text}: {:?}", frame.request)
    };
    failure
}

pub(super) fn assert_refused(text: &str, msg: &str) {
    let failure = failure(text);
    assert_eq!(failure.code, ErrorCode::BadRequest, "{text}: {failure:?}");
    assert!(failure.msg.starts_with(msg), "{text}: {} instead of {msg}", failure.msg);
}

/// A frame with `fields` after its op.
pub(super) fn frame(op: &str, fields: &str) -> String {
    format!(r#"{{"op":"{op}",{fields}}}"#)
}

#[test]
fn what_is_not_json() {
    for text in [
        "",
        " ",
        "{",
        "nul",
        "{\"op\":\"AUTH\"",
        "{\"op\":\"AUTH\"}}",
        "{\"op\":\"AUTH\"} {}",
        "{'op':'AUTH'}",
        "{\"op\":\"AUTH\",}",
        "{\"op\":\"AU\nTH\"}",
        "{\"op\":\"\\x\"}",
        "{\"op\":\"AUTH\",\"x\":01}",
        "{\"op\":\"AUTH\",\"x\":NaN}",
        "{\"op\":\"AUTH\",\"x\":\"\\ud800\"}",
        "{\"op\":\"AUTH\",\"\\udc00\":1}",
        "\u{feff}{\"op\":\"AUTH\"}",
        "[1,",
        "[1]]",
        "\"\\ud800",
        "\"\\ud800\"",
    ] {
        assert_eq!(failure(text).code, ErrorCode::BadJson, "{text}");
    }
}

#[test]
fn what_is_json_but_no_object() {
    for text in ["[]", "1", "null", " \"op\" ", "[{\"op\":\"AUTH\"}]", "true"] {
        assert_refused(text, "a frame is one JSON object with `op`");
    }
}

#[test]
fn nesting() {
    let nested = |levels: usize| {
        let payload = format!("{}{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        frame("PUBLISH", &format!(r#""topic":"t","payload":{payload}"#))
    };
    assert!(parse(&nested(64)).request.is_ok());
    assert_refused(&nested(65), "nesting: expected at most 64 levels");
    assert_refused(&nested(100_000), "nesting: expected at most 64 levels");
}

#[test]
fn op() {
    for (text, msg) in [
        (r#"{}"#, "op: missing"),
        (r#"{"op":null}"#, "op: missing"),
        (r#"{"op":1}"#, "op: expected a string"),
        (r#"{"op":"auth"}"#, "op: `auth` is unknown; did you mean `AUTH`?"),
        (
            r#"{"op":"PUBLISHH"}"#,
            "op: `PUBLISHH` is unknown; did you mean `PUBLISH`?",
        ),
        (r#"{"op":"EVENT"}"#, "op: `EVENT` is unknown"),
        (r#"{"op":"AUTH","op":"AUTH"}"#, "op: given twice"),
        (r#"{"op":"AUTH","o\u0070":"AUTH"}"#, "op: given twice"),
    ] {
        assert_refused(text, msg);
    }
    let long = failure(&format!(r#"{{"op":"{}"}}"#, "é".repeat(9_000)));
    assert!(long.msg.len() < 100, "{}", long.msg);
}

#[test]
fn corr() {
    let too_long = format!("\"{}\"", "c".repeat(255));
    for wrong in ["true", "[]", "{}", &too_long, &"1".repeat(257)] {
        let text = frame("AUTH", &format!(r#""corr":{wrong}"#));
        assert_refused(&text, "corr: expected a string or a number of at most 256 bytes");
        assert_eq!(parse(&text).corr, None);
    }
}

#[test]
fn corr_is_read_from_frames_that_are_wrong() {
    for text in [
        r#"{"corr":1}"#,
        r#"{"op":"NO","corr":1}"#,
        r#"{"op":"PUBLISH","topic":"T","corr":1}"#,
        r#"{"op":"AUTH","op":"AUTH","corr":1}"#,
        r#"{"op":"AUTH","corr":1,"token":5}"#,
        r#"{"op":"AUTH","x":"\ud800","corr":1}"#,
        r#"{"corr":1,"op":"#,
    ] {
        let frame = parse(text);
        assert!(frame.request.is_err(), "{text}");
        assert_eq!(frame.corr.unwrap().as_str(), "1", "{text}");
    }
    assert_eq!(parse(r#"{"op":"AUTH","corr":"\ud800"}"#).corr, None);
}

#[test]
fn topic() {
    let others = r#""group":"g","id":"i","extend_ms":1,"payload":1,"events":[{"payload":1}]"#;
    for op in [
        "PUBLISH",
        "PUBLISH_BATCH",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "MODACK",
        "PAUSE",
        "RESUME",
    ] {
        assert_refused(&frame(op, others), "topic: missing");
        assert_refused(
            &frame(op, &format!(r#""topic":5,{others}"#)),
            "topic: expected a string",
        );
        assert_refused(
            &frame(op, &format!(r#""topic":"t","topic":"t",{others}"#)),
            "topic: given twice",
        );
        for bad in ["", "T", "a..b", &"a".repeat(191)] {
            let failure = failure(&frame(op, &format!(r#""topic":"{bad}",{others}"#)));
            assert_eq!(failure.code, ErrorCode::BadTopic);
            assert!(failure.msg.starts_with("topic: a topic name"), "{}", failure.msg);
        }
        assert!(
            parse(&frame(op, &format!(r#""topic":"t",{others}"#))).request.is_ok(),
            "{op}"
        );
    }
}

#[test]
fn group() {
    for op in ["SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "MODACK", "PAUSE", "RESUME"] {
        let with = |group: &str| frame(op, &format!(r#""topic":"t","id":"i","extend_ms":1,"group":{group}"#));
        assert_refused(&with("5"), "group: expected a string");
        assert_refused(&with("\"a b\""), "group: a group name is made of");
        assert_refused(
            &with(&format!("\"{}\"", "g".repeat(129))),
            "group: a group name has at most 128 bytes",
        );
        assert_refused(&with("\"g\",\"group\":null"), "group: given twice");
        let needs_group = ["ACK", "NACK", "MODACK"].contains(&op);
        if needs_group {
            assert_refused(&with("null"), "group: missing");
        } else {
            assert!(parse(&with("null")).request.is_ok());
        }
    }
}

#[test]
fn fields_of_one_operation() {
    let in_group = r#""topic":"t","group":"g","#;
    let ids = |count: usize| format!("{in_group}\"ids\":[{}]", vec!["\"i\""; count].join(","));
    let reason = format!("{in_group}\"id\":\"i\",\"reason\":\"{}\"", "r".repeat(4_097));
    for (op, fields, msg) in [
        ("AUTH", r#""token":5"#, "token: expected a string"),
        ("AUTH", r#""token":"a","token":"a""#, "token: given twice"),
        ("PUBLISH", r#""topic":"t""#, "payload: missing"),
        (
            "PUBLISH",
            r#""topic":"t","payload":1,"payload":1"#,
            "payload: given twice",
        ),
        (
            "PUBLISH",
            r#""topic":"t","payload":1,"opts":[]"#,
            "opts: expected an object",
        ),
        (
            "PUBLISH",
            r#""topic":"t","payload":1,"opts":{},"opts":{}"#,
            "opts: given twice",
        ),
        ("ACK", r#""topic":"t","group":"g""#, "id: expected either `id` or `ids`"),
        (
            "ACK",
            r#""topic":"t","group":"g","id":"a","ids":["a"]"#,
            "id: expected either `id` or `ids`",
        ),
        ("ACK", r#""topic":"t","group":"g","id":5"#, "id: expected a string"),
        (
            "ACK",
            r#""topic":"t","group":"g","id":"""#,
            "id: expected a string of 1 to 128 bytes",
        ),
        ("ACK", r#""topic":"t","group":"g","ids":"a""#, "ids: expected a list"),
        (
            "ACK",
            r#""topic":"t","group":"g","ids":["a",null]"#,
            "ids[1]: expected a string",
        ),
        (
            "ACK",
            r#""topic":"t","group":"g","ids":["a"],"ids":["a"]"#,
            "ids: given twice",
        ),
        ("ACK", &ids(0), "ids: expected 1 to 10,000 entries"),
        ("ACK", &ids(10_001), "ids: expected 1 to 10,000 entries"),
        ("NACK", &ids(10_001), "ids: expected 1 to 10,000 entries"),
        (
            "NACK",
            r#""topic":"t","group":"g","id":"a","reason":5"#,
            "reason: expected a string",
        ),
        ("NACK", &reason, "reason: expected a string of at most 4,096 bytes"),
        (
            "NACK",
            r#""topic":"t","group":"g","id":"a","delay_ms":"5""#,
            "delay_ms: expected an integer from 0 to 86,400,000",
        ),
        (
            "NACK",
            r#""topic":"t","group":"g","id":"a","delay_ms":86400001"#,
            "delay_ms: expected an integer",
        ),
        ("MODACK", r#""topic":"t","group":"g","extend_ms":5"#, "id: missing"),
        ("MODACK", r#""topic":"t","group":"g","id":"a""#, "extend_ms: missing"),
        (
            "MODACK",
            r#""topic":"t","group":"g","id":"a","extend_ms":86400001"#,
            "extend_ms: expected an integer from 0 to 86,400,000",
        ),
    ] {
        assert_refused(&frame(op, fields), msg);
    }
}

#[test]
fn integers_are_written_as_integers() {
    for number in [
        "1.0",
        "1e3",
        "-1",
        "-0",
        "\"1\"",
        "true",
        "[]",
        "18446744073709551616",
        "1e400",
    ] {
        let text = frame(
            "MODACK",
            &format!(r#""topic":"t","group":"g","id":"a","extend_ms":{number}"#),
        );
        assert_refused(&text, "extend_ms: expected an integer from 0 to 86,400,000");
    }
}
