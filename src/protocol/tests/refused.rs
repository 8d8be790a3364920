//! Every way in which a field can be wrong: the code, and a message that begins with the field's name.

use crate::protocol::{ErrorCode, Failure, parse};

fn failure(text: &str) -> Failure {
    let frame = parse(text);
    let Err(failure) = frame.request else {
        panic!("{text}: {:?}", frame.request)
    };
    failure
}

fn assert_refused(text: &str, msg: &str) {
    let failure = failure(text);
    assert_eq!(failure.code, ErrorCode::BadRequest, "{text}: {failure:?}");
    assert!(failure.msg.starts_with(msg), "{text}: {} instead of {msg}", failure.msg);
}

/// A frame with `fields` after its op.
fn frame(op: &str, fields: &str) -> String {
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

#[test]
fn publish_options() {
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    let list = |count: usize| format!("[{}]", vec!["\"x\""; count].join(","));
    let headers = |count: usize| {
        let each: Vec<String> = (0..count).map(|at| format!("\"h{at}\":\"\"")).collect();
        format!("{{{}}}", each.join(","))
    };
    for (field, value, msg) in [
        ("id", "5", "id: expected a string"),
        ("id", "\"\"", "id: expected a string of 1 to 128 bytes"),
        ("id", &long(129), "id: expected a string of 1 to 128 bytes"),
        ("id", "\"a\",\"id\":\"a\"", "id: given twice"),
        ("ts", "\"1\"", "ts: expected an integer from 0 to 253,402,300,799,999"),
        ("ts", "253402300800000", "ts: expected an integer"),
        ("ts", "1.5", "ts: expected an integer"),
        ("key", "{}", "key: expected a string"),
        ("key", "\"\"", "key: expected a string of 1 to 512 bytes"),
        ("key", &long(513), "key: expected a string of 1 to 512 bytes"),
        ("sid", "1", "sid: expected a string"),
        ("sid", &long(129), "sid: expected a string of at most 128 bytes"),
        ("tags", "\"a\"", "tags: expected a list"),
        ("tags", "[\"a\",1]", "tags[1]: expected a string"),
        ("tags", &list(17), "tags: expected at most 16 entries"),
        (
            "tags",
            &format!("[{}]", long(129)),
            "tags[0]: expected a string of at most 128 bytes",
        ),
        ("caused_by", "{}", "caused_by: expected a list"),
        (
            "caused_by",
            "[\"\"]",
            "caused_by[0]: expected a string of 1 to 128 bytes",
        ),
        ("caused_by", &list(17), "caused_by: expected at most 16 entries"),
        ("headers", "[]", "headers: expected an object"),
        ("headers", "{\"h\":1}", "headers[\"h\"]: expected a string"),
        (
            "headers",
            "{\"\":\"\"}",
            "headers[\"\"]: expected a name of 1 to 128 bytes",
        ),
        ("headers", &format!("{{{}:\"\"}}", long(129)), "headers[\"xxx"),
        (
            "headers",
            &format!("{{\"h\":{}}}", long(4_097)),
            "headers[\"h\"]: expected a string of at most 4,096 bytes",
        ),
        (
            "headers",
            "{\"h\":\"\",\"\\u0068\":\"\"}",
            "headers[\"h\"]: given twice",
        ),
        ("headers", &headers(65), "headers: expected at most 64 headers"),
        ("causedBy", "[]", "causedBy: unknown; did you mean `caused_by`?"),
        ("Key", "1", "Key: unknown; did you mean `key`?"),
        ("partition", "1", "partition: unknown"),
    ] {
        let opts = format!(r#"{{"{field}":{value}}}"#);
        let single = frame("PUBLISH", &format!(r#""topic":"t","payload":1,"opts":{opts}"#));
        assert_refused(&single, &format!("opts.{msg}"));
        let events = format!(r#"[{{"payload":1}},{{"payload":1,"opts":{opts}}}]"#);
        let batch = frame("PUBLISH_BATCH", &format!(r#""topic":"t","events":{events}"#));
        assert_refused(&batch, &format!("events[1].opts.{msg}"));
    }
    let far = failure(&frame(
        "PUBLISH",
        &format!(r#""topic":"t","payload":1,"opts":{{{}:1}}"#, long(9_000)),
    ));
    assert!(far.msg.ends_with("…: unknown") && far.msg.len() < 100, "{}", far.msg);
}

#[test]
fn batches() {
    let many = format!("[{}]", vec!["{\"payload\":1}"; 1_001].join(","));
    let twice = r#"[{"payload":1,"opts":{"id":"a"}},{"payload":1},{"payload":1,"opts":{"id":"a"}}]"#;
    for (events, msg) in [
        ("null", "events: missing"),
        ("{}", "events: expected a list"),
        ("[]", "events: expected 1 to 1,000 entries"),
        (&*many, "events: expected 1 to 1,000 entries"),
        ("[1]", "events[0]: expected an object"),
        ("[{\"payload\":1},{}]", "events[1].payload: missing"),
        ("[{\"payload\":1,\"payload\":2}]", "events[0].payload: given twice"),
        ("[{\"payload\":1,\"opts\":\"\"}]", "events[0].opts: expected an object"),
        (twice, "events[2].opts.id: `a` stands twice in the batch"),
    ] {
        assert_refused(
            &frame("PUBLISH_BATCH", &format!(r#""topic":"t","events":{events}"#)),
            msg,
        );
    }
}

#[test]
fn subscribe_options() {
    let list = |count: usize| format!("[{}]", vec!["\"x\""; count].join(","));
    let filter = |field: &str, value: &str| format!(r#"{{"filter":{{"{field}":{value}}}}}"#);
    let cases = [
        ("[]".to_owned(), ": expected an object"),
        (r#"{"from":5}"#.into(), ".from: expected a string"),
        (
            r#"{"from":"Latest"}"#.into(),
            ".from: expected one of latest, earliest, ts, afterId",
        ),
        (r#"{"from":"snapshot"}"#.into(), ".from: snapshot is not available yet"),
        (r#"{"from":"ts"}"#.into(), ".ts: missing"),
        (
            r#"{"from":"ts","ts":"1"}"#.into(),
            ".ts: expected an integer from 0 to 253,402,300,799,999",
        ),
        (r#"{"from":"afterId"}"#.into(), ".afterId: missing"),
        (
            r#"{"from":"afterId","afterId":""}"#.into(),
            ".afterId: expected a string of 1 to 128 bytes",
        ),
        (r#"{"ts":1}"#.into(), ".ts: only goes with `from`: \"ts\""),
        (
            r#"{"from":"earliest","afterId":"a"}"#.into(),
            ".afterId: only goes with `from`: \"afterId\"",
        ),
        (
            r#"{"from":"ts","ts":1,"afterId":"a"}"#.into(),
            ".afterId: only goes with",
        ),
        (
            r#"{"maxInFlight":0}"#.into(),
            ".maxInFlight: expected an integer from 1 to 10,000",
        ),
        (
            r#"{"maxInFlight":10001}"#.into(),
            ".maxInFlight: expected an integer from 1 to 10,000",
        ),
        (
            r#"{"maxInFlight":4294967297}"#.into(),
            ".maxInFlight: expected an integer from 1 to 10,000",
        ),
        (
            r#"{"ackTimeoutMs":999}"#.into(),
            ".ackTimeoutMs: expected an integer from 1,000 to 3,600,000",
        ),
        (
            r#"{"ackTimeoutMs":3600001}"#.into(),
            ".ackTimeoutMs: expected an integer",
        ),
        (
            r#"{"maxAttempts":0}"#.into(),
            ".maxAttempts: expected an integer from 1 to 1,000",
        ),
        (r#"{"maxAttempts":1001}"#.into(), ".maxAttempts: expected an integer"),
        (
            r#"{"backoffMs":30001}"#.into(),
            ".backoffMs: expected an integer from 0 to 30,000",
        ),
        (
            r#"{"batchSize":0}"#.into(),
            ".batchSize: expected an integer from 1 to 1,000",
        ),
        (r#"{"batchSize":1001}"#.into(), ".batchSize: expected an integer"),
        (r#"{"autoAck":1}"#.into(), ".autoAck: expected true or false"),
        (r#"{"ordered":"true"}"#.into(), ".ordered: expected true or false"),
        (r#"{"ordered":true,"ordered":true}"#.into(), ".ordered: given twice"),
        (r#"{"assignment":1}"#.into(), ".assignment: expected a string"),
        (
            r#"{"assignment":"all"}"#.into(),
            ".assignment: expected one of shared, partitioned",
        ),
        (
            r#"{"assignment":"partitioned"}"#.into(),
            ".assignment: partitioned is not available yet",
        ),
        (
            r#"{"max_in_flight":1}"#.into(),
            ".max_in_flight: unknown; did you mean `maxInFlight`?",
        ),
        (
            r#"{"maxInflght":1}"#.into(),
            ".maxInflght: unknown; did you mean `maxInFlight`?",
        ),
        (r#"{"prefetch":null}"#.into(), ".prefetch: unknown"),
        (r#"{"filter":[]}"#.into(), ".filter: expected an object"),
        (filter("keys", "\"a\""), ".filter.keys: expected a list"),
        (
            filter("keys", "[\"\"]"),
            ".filter.keys[0]: expected a string of 1 to 512 bytes",
        ),
        (filter("keys", "[]"), ".filter.keys: expected 1 to 1,000 entries"),
        (
            filter("keys", &list(1_001)),
            ".filter.keys: expected 1 to 1,000 entries",
        ),
        (filter("keyPrefix", "1"), ".filter.keyPrefix: expected a string"),
        (
            filter("keyPrefix", &format!("\"{}\"", "k".repeat(513))),
            ".filter.keyPrefix: expected a string of at most 512",
        ),
        (filter("tags", &list(65)), ".filter.tags: expected 1 to 64 entries"),
        (filter("tags", "[1]"), ".filter.tags[0]: expected a string"),
        (filter("headers", "[]"), ".filter.headers: expected an object"),
        (
            filter("headers", "{\"h\":1}"),
            ".filter.headers[\"h\"]: expected a string or a list of strings",
        ),
        (
            filter("headers", "{\"h\":[1]}"),
            ".filter.headers[\"h\"][0]: expected a string",
        ),
        (
            filter("headers", &format!("{{\"h\":{}}}", list(65))),
            ".filter.headers[\"h\"]: expected 1 to 64 entries",
        ),
        (
            filter("headers", "{\"h\":\"\",\"h\":\"\"}"),
            ".filter.headers[\"h\"]: given twice",
        ),
        (filter("key", "1"), ".filter.key: unknown; did you mean `keys`?"),
    ];
    for (opts, msg) in cases {
        for group in ["", r#""group":"g","#] {
            let text = frame("SUBSCRIBE", &format!(r#""topic":"t",{group}"opts":{opts}"#));
            assert_refused(&text, &format!("opts{msg}"));
        }
    }
}
