//! `actors.md` leaves no message out, and names none that is not there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::blocks::read;

#[test]
fn every_message_is_in_actors_md_and_the_other_way_round() {
    let in_code = messages_in_code();
    assert!(
        in_code.len() > 20,
        "the messages were not found in the code: {in_code:?}"
    );
    let in_text = messages_in_table(&read("actors.md"));
    let unnamed: Vec<_> = in_code.difference(&in_text).collect();
    assert!(
        unnamed.is_empty(),
        "actors.md lacks {unnamed:?} in its table of messages"
    );
    let unknown: Vec<_> = in_text.difference(&in_code).collect();
    assert!(
        unknown.is_empty(),
        "actors.md names {unknown:?}, which src/actors/messages does not have"
    );
}

/// Every pub struct in `src/actors/messages` that derives `Message`.
fn messages_in_code() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/actors/messages");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut is_message = false;
        for line in text.lines() {
            if line.starts_with("#[derive(") {
                is_message = line.contains("Message");
            } else if let Some(rest) = line.strip_prefix("pub struct ").filter(|_| is_message) {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
                is_message = false;
            }
        }
    }
    names
}

/// The first column of the table under "## Messages".
fn messages_in_table(text: &str) -> BTreeSet<String> {
    let section = text.split("\n## ").find(|section| section.starts_with("Messages\n"));
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section.expect("a section Messages").lines().filter_map(name).collect()
}
