//! The README's reference: the configuration it shows is the default one, its frames are frames, its codes are complete.

use tidegate::config::{Config, Sources, load};

use crate::blocks::{block, read};

fn load_text(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("readme.toml");
    std::fs::write(&file, text).unwrap();
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    match load(&sources) {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_configuration_shown_is_the_default_one() {
    assert_eq!(load_text(&block("defaults")), load_text(""));
}

#[test]
fn every_key_of_the_defaults_is_shown() {
    let shown = block("defaults");
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources {
        directory: folder.path().to_owned(),
        ..Sources::default()
    };
    let printed = load(&sources).unwrap().origins.to_toml();
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.trim().to_owned());
    for key in printed.lines().filter_map(key) {
        let is_shown = shown.lines().any(|line| line.contains(&format!("{key} = ")));
        assert!(is_shown, "README.md does not show {key}");
    }
}

#[test]
fn the_rules_shown_for_topics_are_good() {
    assert_eq!(load_text(&block("topic rules")).topics.len(), 2);
}

#[test]
fn the_frames_shown_are_frames() {
    let frames = block("frames");
    for line in frames.lines() {
        if let Err(failure) = tidegate::protocol::parse(line).request {
            panic!("{line}: {}", failure.msg);
        }
    }
    let requests = read("src/protocol/parse.rs");
    for op in requests.split('"').filter(|word| is_op(word)) {
        assert!(frames.contains(&format!("\"op\": \"{op}\"")), "README.md shows no {op}");
    }
}

fn is_op(word: &str) -> bool {
    word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[test]
fn every_code_is_explained() {
    let readme = read("README.md");
    let codes = read("src/protocol/code.rs");
    let errors = codes
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ErrorCode::")?.split('"').nth(1));
    let closes = codes
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ").map(|(_, code)| code));
    let all: Vec<&str> = errors.chain(closes).collect();
    assert!(all.len() > 25, "the codes were not found: {all:?}");
    for code in all {
        assert!(
            readme.contains(&format!("| `{code}`")),
            "README.md does not explain {code}"
        );
    }
}
