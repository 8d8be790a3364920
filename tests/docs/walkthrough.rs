//! The README's commands, run as they are written, and what they print, compared with what the README shows.
//!
//! They run the programs that were built for the tests, with a port and a folder of their own; all else is as written.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::blocks::{Block, marked_blocks};

/// Ends its process, whatever happens to the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_walk_through_works_as_written() {
    let blocks = marked_blocks();
    let mut blocks = blocks
        .iter()
        .filter(|block| ["serve", "run", "shows"].contains(&block.mark.as_str()));
    let folder = tempfile::tempdir().unwrap();
    let serve = blocks
        .next()
        .filter(|block| block.mark == "serve")
        .expect("serve first");
    let (_gateway, url) = serve_in(folder.path(), &serve.text);
    let mut printed = String::new();
    let mut ran = 0;
    for Block { mark, text } in blocks {
        if mark == "shows" {
            compare(text, &printed);
        } else {
            printed = run(text, folder.path(), &url);
            ran += 1;
        }
    }
    assert!(ran >= 4, "only {ran} blocks were run");
}

/// The README's command line, with the programs of this build.
fn with_this_build(commands: &str) -> String {
    let tidegate = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
    let frames = tidegate.with_file_name("examples").join("frames");
    assert!(
        frames.exists(),
        "{} is not built: run `cargo build --examples`",
        frames.display()
    );
    commands
        .replace("cargo run --release --example frames", &frames.display().to_string())
        .replace("cargo run --release --", &tidegate.display().to_string())
        .replace("target/release/tidegate", &tidegate.display().to_string())
}

/// Starts the gateway and gives its address, once it listens.
fn serve_in(folder: &Path, command: &str) -> (Running, String) {
    let mut child = Command::new("bash")
        .args(["-c", &format!("exec {}", with_this_build(command))])
        .current_dir(folder)
        .env("TIDEGATE_GATEWAY__LISTEN", "127.0.0.1:0")
        .env("TIDEGATE_REPLAY__LISTEN", "off")
        .env("TIDEGATE_LOG_FORMAT", "text")
        .env_remove("TIDEGATE_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let mut seen = String::new();
    for line in log.by_ref().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("cli::serve: listening on ") {
            let url = format!("ws://{}/ws", address.trim());
            // The rest is read, so that the gateway never waits for its log.
            std::thread::spawn(move || log.for_each(drop));
            return (running, url);
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    panic!("the gateway ended: {seen}");
}

fn run(commands: &str, folder: &Path, url: &str) -> String {
    let output = Command::new("timeout")
        .args(["60", "bash", "-euo", "pipefail", "-c", &with_this_build(commands)])
        .current_dir(folder)
        .env("TIDEGATE_URL", url)
        .output()
        .expect("the program timeout, of coreutils");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}:\n{commands}\n{out}{err}", output.status);
    out
}

/// Every line that is shown was printed, in that order; ids and times differ from run to run.
fn compare(shown: &str, printed: &str) {
    let printed_lines: Vec<String> = printed.lines().map(without_ids_and_times).collect();
    let shown_lines: Vec<String> = shown.lines().map(without_ids_and_times).collect();
    assert_eq!(
        shown_lines, printed_lines,
        "README.md shows something else than\n{printed}"
    );
}

/// Texts that look like UUIDs and epoch milliseconds are replaced, and the partition where it follows from an id.
fn without_ids_and_times(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut plain = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(first.len_utf8()));
        match word.len() {
            36 if word.matches('-').count() == 4 => plain.push_str("ID"),
            13 if word.chars().all(|c| c.is_ascii_digit()) => plain.push_str("TIME"),
            1 if is_before_free_partition(&plain) => plain.push('P'),
            _ => plain.push_str(word),
        }
        rest = after;
    }
    without_spans(&plain)
}

/// Lengths of time and moments differ too, and with them the width of a table's columns.
fn without_spans(line: &str) -> String {
    if line.starts_with('{') {
        return line.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_matches(['(', ')', ',', '.', ':', ';']);
        let number = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = &bare[number.len()..];
        let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.parse::<f64>().is_ok();
        let is_moment = bare.len() == 20 && bare.ends_with('Z') && bare.contains('T');
        if is_moment {
            words.push(word.replace(bare, "MOMENT"));
        } else if is_number && ["ms", "s", "m"].contains(&unit) {
            words.push(word.replace(bare, "SPAN"));
        } else if ["ms", "s"].contains(&bare) && words.last().is_some_and(|last| last.parse::<f64>().is_ok()) {
            words.pop();
            words.push(word.replace(bare, "SPAN"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

/// Whether a partition follows that no key decides.
fn is_before_free_partition(line: &str) -> bool {
    let before = line.strip_suffix(",\"partition\":");
    before.is_some_and(|before| !before.rsplit(",\"").next().unwrap_or_default().starts_with("key\":"))
}
