//! Wrong configurations: each error names the key, where it came from and what was expected, and all come at once.

use super::*;

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    let in_file = refused("[store]\nknid = \"memory\"");
    assert!(
        in_file.starts_with("store.knid (") && in_file.contains("tidegate.toml): no such key"),
        "{in_file}"
    );
    assert!(in_file.ends_with("the nearest is store.kind"), "{in_file}");
    assert_eq!(
        problems_of(&env(&[("TIDEGATE_STORE__KNID", "memory")])),
        "store.knid (TIDEGATE_STORE__KNID): no such key; the nearest is store.kind"
    );
    assert_eq!(
        problems_of(&set(&["store.knid=memory"])),
        "store.knid (--set): no such key; the nearest is store.kind"
    );
    assert!(problems_of(&env(&[("TIDEGATE_STORE_KIND", "memory")])).contains("TIDEGATE_STORE__KIND"));
    assert!(refused("[gatway]\nlisten = \"x\"").contains("gatway ("));
    assert!(refused("[gatway]\nlisten = \"x\"").contains("the nearest is gateway"));
    assert!(refused("[limits]\nconnection = { capacty = 5 }").contains("the nearest is limits.connection.capacity"));
    let in_topic = refused("[[topic]]\nname = \"a\"\nretention = { ages = \"3d\" }");
    assert!(in_topic.contains("topic[0].retention.ages"), "{in_topic}");
    assert!(in_topic.contains("the nearest is topic[0].retention.age"), "{in_topic}");
}

#[test]
fn an_unknown_key_is_found_where_a_later_source_covers_it() {
    let (_folder, mut sources) = folder("[limits]\nconnection = { capacty = 5 }");
    sources.set = vec!["limits.connection=off".into()];
    assert!(problems_of(&sources).contains("capacty"));
}

#[test]
fn keys_with_brackets_are_just_unknown() {
    assert!(refused("\"topic[99999999999]\" = 1").contains("no such key"));
    assert!(problems_of(&set(&["topic[99999999999].name=a"])).contains("no such key"));
    assert!(problems_of(&set(&["..=1"])).contains("no such key"));
}

#[test]
fn all_problems_come_at_once_a_line_each() {
    let problems = refused("[store]\nkind = \"papyrus\"\n[gateway]\nlisten = 5\nmax_topics = 0\nx = 1");
    assert_eq!(problems.lines().count(), 4, "{problems}");
}

#[test]
fn every_wrong_value_says_what_was_expected() {
    let cases = [
        ("gateway.listen=somewhere:80", "an address and a port"),
        ("gateway.listen=", "got an empty text"),
        ("gateway.max_connections=0", "a whole number from 1 to 1000000, got 0"),
        (
            "gateway.max_connections=many",
            "a whole number from 1 to 1000000, got \"many\"",
        ),
        ("gateway.max_connections=-1", "a whole number"),
        ("gateway.max_connections=1.5", "a whole number"),
        ("gateway.max_topics=99999999999999999999", "a whole number"),
        ("gateway.max_groups_per_topic=true", "a whole number"),
        (
            "gateway.auth_timeout=10",
            "a duration such as \"10s\", from 100ms to 1h",
        ),
        ("gateway.write_timeout=2h", "from 100ms to 1h"),
        ("gateway.write_buffer=8MiB", "a whole number from 4096 to"),
        ("gateway.write_budget=1", "a whole number"),
        ("gateway.shutdown_grace=soon", "a duration"),
        ("gateway.allowed_origins=https://a", "a list, each of it an origin"),
        (
            "gateway.allowed_origins=[\"*\"]",
            "an origin such as \"https://app.example\", got \"*\"",
        ),
        ("gateway.allowed_hosts=[\"a:80\"]", "without a port"),
        ("gateway.trusted_proxies=[\"10.0.0.0/99\"]", "an IP address or a range"),
        ("gateway.trusted_proxies=[1]", "an IP address or a range"),
        ("gateway.insecure=1", "true or false"),
        ("gateway=5", "expected a table"),
        ("tls.cert=a.pem", "both or none"),
        ("tls.key=a.pem", "both or none"),
        ("replay.listen=8083", "or \"off\""),
        ("replay.listen=127.0.0.1:8090", "another address than gateway.listen's"),
        (
            "store.kind=papyrus",
            "one of memory, embedded, mongodb, got \"papyrus\"",
        ),
        ("store.path=", "the path of a folder"),
        ("store.url=postgres://h", "begins with mongodb://"),
        ("store.database=a.b", "at most 63 bytes"),
        ("store.migrate=sometimes", "one of manual, auto"),
        ("store.sweep_interval=0s", "from 10ms to 1day"),
        ("cluster.lease=1ms", "from 1s to 1h"),
        ("auth.mode=trust", "one of none, token, jwt"),
        ("auth.mode=token", "needs auth.token or auth.token_file"),
        ("auth.mode=jwt", "exactly one of auth.jwt.secret"),
        ("auth.token=", "got an empty text"),
        ("auth.jwt.jwks_url=ftp://h", "https://"),
        ("limits.connection=on", "\"off\" or {"),
        ("limits.connection=5", "\"off\" or {"),
        ("limits.connection.capacity=0", "a whole number from 1 to 1000000"),
        (
            "limits.connection.refill_per_sec=0",
            "a number from 0.000001 to 1000000",
        ),
        ("limits.connection.refill_per_sec=nan", "a number from"),
        ("limits.connection.refill_per_sec=inf", "a number from"),
        ("limits.connection.refill_per_sec=-1", "a number from"),
        ("limits.push=own", "\"shared\", \"off\" or {"),
        (
            "limits.push={capacity=5}",
            "limits.push.refill_per_sec (not set): missing",
        ),
        ("limits.frame_bytes=1023", "from 1024 to 16777216"),
        ("topic=5", "a list of tables"),
        ("topic=[5]", "a list of tables"),
        ("topic={name=\"a\"}", "topic (--set): expected a value, got a table"),
        (
            "gateway.max_topics={a=1}",
            "gateway.max_topics (--set): expected a value, got a table",
        ),
        ("topic=[{}]", "topic[0].name (not set): missing"),
        ("topic=[{name=\"A\"}]", "a pattern of topic names"),
        ("topic=[{name=\"a\",partitions=0}]", "a whole number from 1 to 1024"),
        ("topic=[{name=\"a\",partitions=1025}]", "a whole number from 1 to 1024"),
        ("topic=[{name=\"a\",durability=\"disk\"}]", "one of fsync, os, memory"),
        ("topic=[{name=\"a\",write_concern=1}]", "one of majority, 1"),
        (
            "topic=[{name=\"a\",retention=\"3d\"}]",
            "topic[0].retention (--set): expected a table",
        ),
        ("topic=[{name=\"a\",retention={age=\"0s\"}}]", "from 1ms to"),
        ("topic=[{name=\"a\",retention={count=0}}]", "a whole number from 1"),
        ("topic=[{name=\"a\",retention={bytes=\"1\"}}]", "a whole number from 1"),
        ("topic=[{name=\"a\",compact=\"yes\"}]", "true or false"),
        (
            "topic=[{name=\"a\",limit={capacity=1}}]",
            "topic[0].limit.refill_per_sec",
        ),
    ];
    for (entry, expected) in cases {
        let problems = problems_of(&set(&[entry]));
        assert!(problems.contains(expected), "{entry} gave: {problems}");
        assert_eq!(problems.lines().count(), 1, "{entry} gave: {problems}");
        let key = entry.split(['=', '[', '{']).next().unwrap_or_default();
        assert!(problems.contains(key), "{entry} gave: {problems}");
    }
}

#[test]
fn what_is_no_pair_is_named_by_its_place() {
    let problems = problems_of(&set(&["store.kind=memory", "nonsense", "=5"]));
    assert!(
        problems.contains("--set number 2 (command line): expected key=value"),
        "{problems}"
    );
    assert_eq!(problems.lines().count(), 2, "{problems}");
}

#[test]
fn broken_toml_names_the_line_but_does_not_show_it() {
    let problems = refused("[auth]\nmode = \"token\"\ntoken = \"hunter2\n");
    assert!(problems.starts_with("line 3 ("), "{problems}");
    assert!(!problems.contains("hunter2"), "{problems}");
}

#[test]
fn problems_never_show_a_secret() {
    let cases = [
        "[auth]\ntoken = [\"hunter2\"]",
        "[auth]\ntokn = \"hunter2\"",
        "[auth.jwt]\nsecret = { a = \"hunter2\" }",
        "[store]\nurl = \"postgres://u:hunter2@h\"",
        "[auth.jwt]\njwks_url = \"ftp://u:hunter2@h\"",
        "[auth]\nmode = \"token\"\ntoken = \"hunter2\\n\"",
    ];
    for case in cases {
        let problems = refused(case);
        assert!(!problems.contains("hunter2"), "{problems}");
    }
    assert!(!problems_of(&set(&["auth.token:hunter2"])).contains("hunter2"));
}

#[test]
fn token_and_token_file_exclude_each_other() {
    let problems = refused("[auth]\nmode = \"token\"\ntoken = \"a\"\ntoken_file = \"b\"");
    assert!(problems.contains("not both"), "{problems}");
    let problems = refused("[auth]\nmode = \"token\"\ntoken_file = \"no-such-file\"");
    assert!(problems.contains("no-such-file cannot be read"), "{problems}");
}

#[test]
fn jwt_takes_exactly_one_key() {
    let problems = refused("[auth]\nmode = \"jwt\"\n[auth.jwt]\nsecret = \"a\"\njwks_file = \"b\"");
    assert!(problems.contains("exactly one of"), "{problems}");
}
