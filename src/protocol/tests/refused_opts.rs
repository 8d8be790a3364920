//! Every way in which options, those of a batch's events included, can be wrong: the message names the whole path.

use super::refused::{assert_refused, failure, frame};

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
