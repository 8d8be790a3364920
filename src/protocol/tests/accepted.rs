//! Every operation, with as little and with as much as it takes.

use crate::domain::{Filter, GroupName, GroupSettingsPatch, MemberSettings, OneOrMore, StartFrom, TS_MAX, TopicName};
use crate::protocol::{Draft, Request, SubscribeOpts, parse};

fn topic() -> TopicName {
    "t.x".parse().unwrap()
}

fn group() -> GroupName {
    "team:g".parse().unwrap()
}

fn request(text: &str) -> Request {
    let frame = parse(text);
    frame.request.unwrap_or_else(|failure| panic!("{text}: {failure:?}"))
}

fn draft(payload: &str) -> Draft {
    Draft {
        payload: payload.into(),
        ..Draft::default()
    }
}

fn subscribe(opts: &str) -> SubscribeOpts {
    let text = format!(r#"{{"op":"SUBSCRIBE","topic":"t.x","group":"team:g","opts":{opts}}}"#);
    match request(&text) {
        Request::Subscribe { opts, .. } => opts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn auth() {
    assert_eq!(request(r#"{"op":"AUTH"}"#), Request::Auth { token: None });
    assert_eq!(request(r#"{"op":"AUTH","token":null}"#), Request::Auth { token: None });
    let token = Some("a\"b".into());
    assert_eq!(request(r#"{"op":"AUTH","token":"a\"b"}"#), Request::Auth { token });
}

#[test]
fn publish() {
    let publish = |draft| Request::Publish { topic: topic(), draft };
    assert_eq!(
        request(r#"{"op":"PUBLISH","topic":"t.x","payload":null}"#),
        publish(draft("null"))
    );
    let nulls = r#"{"op":"PUBLISH","topic":"t.x","payload":[],"opts":{"id":null,"ts":null,"key":null,
        "headers":null,"tags":null,"caused_by":null,"sid":null}}"#;
    assert_eq!(request(nulls), publish(draft("[]")));
    assert_eq!(
        request(r#"{"op":"PUBLISH","topic":"t.x","payload":1,"opts":null}"#),
        publish(draft("1"))
    );
    let full = r#"{"op":"PUBLISH","topic":"t.x","payload":{"b":1.0, "a":2},"opts":{"id":"i","ts":0,"key":"k\u00e9",
        "headers":{"h2":"","h1":"v"},"tags":["a",""],"caused_by":["c"],"sid":"s"}}"#;
    let expected = Draft {
        id: Some("i".into()),
        ts: Some(0),
        key: Some("ké".into()),
        headers: vec![("h2".into(), "".into()), ("h1".into(), "v".into())],
        tags: vec!["a".into(), "".into()],
        caused_by: vec!["c".into()],
        sid: Some("s".into()),
        payload: r#"{"b":1.0,"a":2}"#.into(),
    };
    assert_eq!(request(full), publish(expected));
}

#[test]
fn publish_takes_everything_at_its_limit() {
    let of = |bytes: usize| "é".repeat(bytes / 2);
    let label = of(128);
    let labels = vec![format!("{label:?}"); 16].join(",");
    let headers: Vec<String> = (10..74)
        .map(|at| format!("\"{}{at}\":{:?}", of(126), of(4096)))
        .collect();
    let text = format!(
        r#"{{"op":"PUBLISH","topic":"t.x","payload":0,"opts":{{"id":"{label}","ts":{TS_MAX},"key":"{}","sid":"{label}",
        "tags":[{labels}],"caused_by":[{labels}],"headers":{{{}}}}}}}"#,
        of(512),
        headers.join(","),
    );
    let Request::Publish { draft, .. } = request(&text) else {
        panic!()
    };
    assert_eq!(draft.ts, Some(TS_MAX));
    assert_eq!(
        (draft.tags.len(), draft.caused_by.len(), draft.headers.len()),
        (16, 16, 64)
    );
}

#[test]
fn publish_batch() {
    let text =
        r#"{"op":"PUBLISH_BATCH","topic":"t.x","events":[{"payload":1},{"opts":{"id":"a"},"payload":2,"more":0}]}"#;
    let with_id = Draft {
        id: Some("a".into()),
        ..draft("2")
    };
    let drafts = vec![draft("1"), with_id];
    assert_eq!(request(text), Request::PublishBatch { topic: topic(), drafts });

    let events = vec![r#"{"payload":1}"#; 1_000].join(",");
    let text = format!(r#"{{"op":"PUBLISH_BATCH","topic":"t.x","events":[{events}]}}"#);
    assert!(matches!(request(&text), Request::PublishBatch { drafts, .. } if drafts.len() == 1_000));
}

#[test]
fn subscribe_with_defaults() {
    for text in [
        r#"{"op":"SUBSCRIBE","topic":"t.x"}"#,
        r#"{"op":"SUBSCRIBE","topic":"t.x","group":null,"opts":null}"#,
        r#"{"op":"SUBSCRIBE","topic":"t.x","opts":{"from":"latest","assignment":"shared","ts":null,"filter":null}}"#,
    ] {
        let expected = Request::Subscribe {
            topic: topic(),
            group: None,
            opts: SubscribeOpts::default(),
        };
        assert_eq!(request(text), expected);
    }
    assert_eq!(SubscribeOpts::default().from, StartFrom::Latest);
}

#[test]
fn subscribe_from_each_start() {
    assert_eq!(subscribe(r#"{"from":"earliest"}"#).from, StartFrom::Earliest);
    assert_eq!(subscribe(r#"{"from":"ts","ts":12}"#).from, StartFrom::Ts(12));
    assert_eq!(
        subscribe(r#"{"from":"afterId","afterId":"x"}"#).from,
        StartFrom::AfterId("x".into())
    );
}

#[test]
fn subscribe_with_settings() {
    let lowest = subscribe(
        r#"{"maxInFlight":1,"ackTimeoutMs":1000,"maxAttempts":1,"backoffMs":0,"batchSize":1,"autoAck":false,"ordered":false}"#,
    );
    let highest = subscribe(
        r#"{"maxInFlight":10000,"ackTimeoutMs":3600000,"maxAttempts":1000,"backoffMs":30000,"batchSize":1000,"autoAck":true,"ordered":true}"#,
    );
    let settings = |max_in_flight, ack_timeout_ms, max_attempts, backoff_ms, batch_size, yes| SubscribeOpts {
        from: StartFrom::Latest,
        group: GroupSettingsPatch {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(backoff_ms),
            ordered: Some(yes),
            filter: None,
        },
        member: MemberSettings {
            max_in_flight,
            ack_timeout_ms,
            batch_size,
            auto_ack: yes,
        },
    };
    assert_eq!(lowest, settings(1, 1_000, 1, 0, 1, false));
    assert_eq!(highest, settings(10_000, 3_600_000, 1_000, 30_000, 1_000, true));
}

#[test]
fn subscribe_with_a_filter() {
    let filter = r#"{"filter":{"keys":["a","b"],"keyPrefix":"","tags":["t"],"headers":{"h":"1","g":["2","3"]}}}"#;
    let headers = [
        ("h".to_owned(), OneOrMore::One("1".into())),
        ("g".to_owned(), OneOrMore::Many(vec!["2".into(), "3".into()])),
    ];
    let expected = Filter {
        keys: Some(vec!["a".into(), "b".into()]),
        key_prefix: Some(String::new()),
        tags: Some(vec!["t".into()]),
        headers: Some(headers.into()),
    };
    assert_eq!(subscribe(filter).group.filter, Some(expected));
    assert_eq!(subscribe(r#"{"filter":{}}"#).group.filter, Some(Filter::default()));

    let alone = request(r#"{"op":"SUBSCRIBE","topic":"t.x","opts":{"filter":{"keys":["a"]},"maxInFlight":5}}"#);
    let Request::Subscribe { group: None, opts, .. } = alone else {
        panic!()
    };
    assert_eq!(opts.group.filter.unwrap().keys, Some(vec!["a".into()]));
}

#[test]
fn unsubscribe_pause_and_resume() {
    let ephemeral = |op| request(&format!(r#"{{"op":"{op}","topic":"t.x"}}"#));
    let member = |op| request(&format!(r#"{{"op":"{op}","topic":"t.x","group":"team:g"}}"#));
    let (topic, group) = (topic(), Some(group()));
    for (op, expected) in [
        (
            "UNSUBSCRIBE",
            (|topic, group| Request::Unsubscribe { topic, group }) as fn(_, _) -> _,
        ),
        ("PAUSE", |topic, group| Request::Pause { topic, group }),
        ("RESUME", |topic, group| Request::Resume { topic, group }),
    ] {
        assert_eq!(ephemeral(op), expected(topic.clone(), None));
        assert_eq!(member(op), expected(topic.clone(), group.clone()));
    }
}

#[test]
fn ack() {
    let ack = |ids| Request::Ack {
        topic: topic(),
        group: group(),
        ids,
    };
    assert_eq!(
        request(r#"{"op":"ACK","topic":"t.x","group":"team:g","id":"a","ids":null}"#),
        ack(vec!["a".into()])
    );
    assert_eq!(
        request(r#"{"op":"ACK","topic":"t.x","group":"team:g","ids":["a","b\u0041"]}"#),
        ack(vec!["a".into(), "bA".into()])
    );
    let ids = vec!["\"a\""; 10_000].join(",");
    let text = format!(r#"{{"op":"ACK","topic":"t.x","group":"team:g","ids":[{ids}]}}"#);
    assert_eq!(request(&text), ack(vec!["a".into(); 10_000]));
}

#[test]
fn nack() {
    let nack = |reason: Option<&str>, delay_ms| Request::Nack {
        topic: topic(),
        group: group(),
        ids: vec!["a".into()],
        reason: reason.map(Box::from),
        delay_ms,
    };
    assert_eq!(
        request(r#"{"op":"NACK","topic":"t.x","group":"team:g","id":"a"}"#),
        nack(None, None)
    );
    assert_eq!(
        request(r#"{"op":"NACK","topic":"t.x","group":"team:g","ids":["a"],"reason":"no\nidea","delay_ms":86400000}"#),
        nack(Some("no\nidea"), Some(86_400_000))
    );
}

#[test]
fn modack() {
    for extend_ms in [0, 86_400_000] {
        let text = format!(r#"{{"op":"MODACK","topic":"t.x","group":"team:g","id":"a","extend_ms":{extend_ms}}}"#);
        let expected = Request::Modack {
            topic: topic(),
            group: group(),
            id: "a".into(),
            extend_ms,
        };
        assert_eq!(request(&text), expected);
    }
}

#[test]
fn unknown_fields_of_a_frame_are_ignored_even_if_doubled() {
    let text = r#"{"x":1,"op":"AUTH","x":{"op":"ACK"},"X":[],"Op":1}"#;
    assert_eq!(request(text), Request::Auth { token: None });
}

#[test]
fn names_of_fields_may_be_escaped() {
    assert_eq!(request(r#"{"\u006fp":"\u0041UTH"}"#), Request::Auth { token: None });
}

#[test]
fn corr_is_repeated_as_it_was_written() {
    let longest = format!("\"{}\"", "c".repeat(254));
    for corr in [
        "1",
        "-0.50",
        "1e400",
        "\"a\"",
        r#""\u00e9\n\ud83d\ude00""#,
        "\"\"",
        &longest,
    ] {
        let frame = parse(&format!(r#"{{"op":"AUTH","corr": {corr} }}"#));
        assert_eq!(frame.corr.unwrap().as_str(), corr);
        assert!(frame.request.is_ok());
    }
    assert_eq!(parse(r#"{"op":"AUTH","corr":null}"#).corr, None);
}
