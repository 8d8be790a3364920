//! Frames kept as files, for this test and for fuzzers to start from. A file's name begins with what becomes of it: `ok`
//! or the code of the error, up to the first dash.

use std::path::Path;

use crate::protocol::parse;

/// The names and texts of all frames.
pub(super) fn frames() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/frames");
    let mut frames: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    frames.sort();
    frames
}

#[test]
fn each_frame_ends_as_its_name_says() {
    let frames = frames();
    assert!(frames.len() > 40);
    for (name, text) in frames {
        let outcome = match &parse(&text).request {
            Ok(_) => "ok",
            Err(failure) => failure.code.as_str(),
        };
        assert_eq!(
            name.split('-').next(),
            Some(outcome),
            "{name}: {:?}",
            parse(&text).request
        );
    }
}
