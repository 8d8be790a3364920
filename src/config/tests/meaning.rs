//! What a configuration means: topics' settings, tokens, and who can reach the gateway.

use super::*;
use crate::config::{Auth, Exposure, JwtKey, Limit, exposure};
use crate::domain::{Durability, Retention, TopicSettings, WriteConcern};

#[test]
fn every_key_of_the_example_is_taken() {
    let config = loaded(EVERYTHING).config;
    assert_eq!(config.replay.listen, None);
    assert!(matches!(config.auth, Auth::Jwt(ref jwt) if matches!(jwt.key, JwtKey::Secret(_))));
    assert_eq!(config.tls.map(|tls| tls.key), Some("key.pem".into()));
    let rule = &config.topics[0];
    assert_eq!(
        rule.settings,
        TopicSettings {
            partitions: 16,
            durability: Durability::Os,
            write_concern: WriteConcern::One,
            retention: Retention {
                age_ms: Some(3 * 24 * 3_600_000),
                count: Some(10),
                bytes: Some(20),
            },
            compact: true,
        }
    );
    assert_eq!(config.topics[1].limit, Some(Limit::Off));
    assert_eq!(config.topics[1].settings, TopicSettings::default());
}

#[test]
fn the_first_rule_that_matches_decides() {
    let config = loaded(
        "[[topic]]\nname = \"a.b\"\npartitions = 1\nlimit = \"off\"\n\
         [[topic]]\nname = \"a.*\"\npartitions = 2\n[[topic]]\nname = \"**\"\npartitions = 3\nlimit = \"off\"",
    )
    .config;
    let partitions = |name: &str| config.topic_settings(&name.parse().unwrap()).partitions;
    assert_eq!((partitions("a.b"), partitions("a.c"), partitions("z")), (1, 2, 3));
    let limit = |name: &str| config.topic_limit(&name.parse().unwrap());
    assert_eq!(limit("a.b"), Limit::Off);
    assert_eq!(
        limit("a.c"),
        config.limits.topic,
        "a rule without a limit leaves the general one"
    );
}

#[test]
fn dead_letters_are_at_least_as_durable_as_their_topic() {
    use Durability::{Fsync, Memory, Os};
    let word = |durability| match durability {
        Memory => "memory",
        Os => "os",
        Fsync => "fsync",
    };
    let cases = [
        (Memory, Memory, Memory),
        (Memory, Os, Memory),
        (Memory, Fsync, Memory),
        (Os, Memory, Os),
        (Os, Os, Os),
        (Os, Fsync, Fsync),
        (Fsync, Memory, Fsync),
        (Fsync, Os, Fsync),
        (Fsync, Fsync, Fsync),
    ];
    for (topic, dead_letters, expected) in cases {
        let config = loaded(&format!(
            "[[topic]]\nname = \"x\"\ndurability = \"{}\"\n[[topic]]\nname = \"dlq.x\"\ndurability = \"{}\"\npartitions = 2",
            word(topic),
            word(dead_letters)
        ))
        .config;
        let settings = config.topic_settings(&"dlq.x".parse().unwrap());
        assert_eq!(settings.durability, expected, "{topic:?} {dead_letters:?}");
        assert_eq!(settings.partitions, 2, "all else is its own");
        assert_eq!(config.topic_settings(&"x".parse().unwrap()).durability, topic);
    }
}

#[test]
fn dead_letters_have_at_least_their_topics_write_concern() {
    let config =
        loaded("[[topic]]\nname = \"x\"\nwrite_concern = \"1\"\n[[topic]]\nname = \"dlq.**\"\nwrite_concern = \"1\"")
            .config;
    let concern = |name: &str| config.topic_settings(&name.parse().unwrap()).write_concern;
    assert_eq!(concern("dlq.x"), WriteConcern::One);
    assert_eq!(concern("dlq.y"), WriteConcern::Majority);
}

#[test]
fn a_tokens_file_is_read_without_its_last_line_break() {
    let (folder, mut sources) = folder("");
    let file = folder.path().join("token");
    std::fs::write(&file, "hunter2 \r\n").unwrap();
    sources.set = vec!["auth.mode=token".into(), format!("auth.token_file={}", file.display())];
    let Auth::Token { token } = load(&sources).unwrap().config.auth else {
        panic!("another mode");
    };
    assert_eq!(token.reveal(), "hunter2 ");
    std::fs::write(&file, "\n").unwrap();
    assert!(problems_of(&sources).contains("not empty"));
}

#[test]
fn no_listener_leaves_loopback_without_authentication() {
    let judge = |entries: &[&str]| exposure(&load(&set(entries)).unwrap().config);
    assert_eq!(judge(&[]), Exposure::Local);
    assert_eq!(
        judge(&["gateway.listen=localhost:1", "replay.listen=[::1]:2"]),
        Exposure::Local
    );
    for entry in [
        "gateway.listen=0.0.0.0:8090",
        "replay.listen=[::]:8083",
        "gateway.listen=192.168.0.1:1",
    ] {
        let Exposure::Refused(message) = judge(&[entry]) else {
            panic!("{entry} was taken");
        };
        let key = entry.split('=').next().unwrap_or_default();
        assert!(
            message.contains(key) && message.contains("--insecure") && message.contains("auth.mode"),
            "{message}"
        );
        assert_eq!(judge(&[entry, "gateway.insecure=true"]), Exposure::OpenInsecure);
        assert_eq!(
            judge(&[entry, "auth.mode=token", "auth.token=t"]),
            Exposure::OpenWithAuth
        );
    }
}
