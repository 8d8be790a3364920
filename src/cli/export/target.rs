//! Where an export goes: whole lines only, so that one that broke off can be gone on with.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Deserialize;

use super::super::failure::Failure;
use super::super::output::write_out;
use crate::domain::TopicName;

/// What is read at once when the last line is looked for.
const BLOCK: u64 = 64 << 10;

/// What is read of a line.
#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    #[serde(borrow)]
    topic: std::borrow::Cow<'a, str>,
}

enum Sink<'a> {
    File(File),
    Standard(&'a mut dyn Write),
}

/// Takes an export.
pub(super) struct Target<'a> {
    sink: Sink<'a>,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    events: u64,
    after_seq: Option<u64>,
}

impl<'a> Target<'a> {
    pub(super) fn standard(out: &'a mut dyn Write) -> Target<'a> {
        Target::new(Sink::Standard(out), None)
    }

    /// A new file; or, to go on, one that may be there, cut off behind its last whole line.
    pub(super) fn open(path: &Path, resume: bool, topic: &TopicName) -> Result<Target<'a>, Failure> {
        let cannot = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match resume {
            true => options.create(true).truncate(false),
            false => options.create_new(true),
        };
        let mut file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::Usage(format!(
                "{} is there already: go on with it by --resume, or name another file",
                path.display()
            )),
            _ => cannot(error),
        })?;
        let (length, line) = last_line(&mut file).map_err(cannot)?;
        let after_seq = match line {
            Some(line) => match serde_json::from_slice::<Line<'_>>(&line) {
                Ok(last) if last.topic == topic.as_str() => Some(last.seq),
                _ => {
                    let path = path.display();
                    return Err(Failure::Usage(format!(
                        "{path} is no export of {topic}: its last line is none"
                    )));
                }
            },
            None => None,
        };
        file.set_len(length).map_err(cannot)?;
        file.seek(SeekFrom::End(0)).map_err(cannot)?;
        Ok(Target::new(Sink::File(file), after_seq))
    }

    fn new(sink: Sink<'a>, after_seq: Option<u64>) -> Target<'a> {
        Target {
            sink,
            rest: Vec::new(),
            events: 0,
            after_seq,
        }
    }

    /// How many events were written.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// The seq of the last whole line.
    pub(super) fn after_seq(&self) -> Option<u64> {
        self.after_seq
    }

    /// Takes the next piece, and writes the lines that are whole with it.
    pub(super) fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(piece);
            return Ok(());
        };
        let (whole, rest) = piece.split_at(end + 1);
        let mut lines = std::mem::take(&mut self.rest);
        lines.extend_from_slice(whole);
        self.rest.extend_from_slice(rest);
        let last = lines.split(|byte| *byte == b'\n').rev().nth(1).unwrap_or_default();
        let last: Line<'_> = serde_json::from_slice(last)
            .map_err(|error| Failure::Failed(format!("the gateway sent a line that is no event: {error}")))?;
        self.put(&lines)?;
        self.after_seq = Some(last.seq);
        self.events += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(())
    }

    fn put(&mut self, lines: &[u8]) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::File(file) => file
                .write_all(lines)
                .map_err(|error| Failure::Failed(format!("the file cannot be written: {error}"))),
            Sink::Standard(out) => write_out(*out, &String::from_utf8_lossy(lines)),
        }
    }

    /// The answer has ended: nothing may be left over.
    pub(super) fn check_whole(&self) -> Result<(), Failure> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(Failure::Failed("the last line is not whole".to_owned())),
        }
    }

    /// Makes sure that a file is on disk.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.sink {
            Sink::File(file) => file
                .sync_all()
                .map_err(|error| Failure::Failed(format!("the file cannot be written: {error}"))),
            Sink::Standard(_) => Ok(()),
        }
    }
}

/// The length of a file up to its last line break, and the line before it.
fn last_line(file: &mut File) -> std::io::Result<(u64, Option<Vec<u8>>)> {
    let mut start = file.seek(SeekFrom::End(0))?;
    // From the end of the file back to the line break before the last whole line.
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let mut breaks = tail.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        let (last, before) = (breaks.next(), breaks.next());
        let line_start = match before {
            Some((before, _)) => Some(before + 1),
            None if start == 0 => Some(0),
            None => None,
        };
        if let Some(line_start) = line_start {
            let Some((end, _)) = last else { return Ok((0, None)) };
            let line = tail.get(line_start..end).unwrap_or_default().to_vec();
            return Ok((start + end as u64 + 1, Some(line)));
        }
        let block = start.min(BLOCK);
        start -= block;
        file.seek(SeekFrom::Start(start))?;
        let mut longer = vec![0; usize::try_from(block).unwrap_or(0)];
        file.read_exact(&mut longer)?;
        longer.append(&mut tail);
        tail = longer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, padding: usize) -> String {
        format!(
            "{{\"id\":\"i\",\"seq\":{seq},\"topic\":\"t\",\"payload\":\"{}\"}}\n",
            "x".repeat(padding)
        )
    }

    /// What is left of a file that has this text, and where an export goes on.
    fn reopened(text: &str) -> Result<(String, Option<u64>), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.ndjson");
        std::fs::write(&path, text).unwrap();
        let target = Target::open(&path, true, &"t".parse().unwrap());
        let after = target
            .map(|target| target.after_seq())
            .map_err(|failure| failure.to_string())?;
        Ok((std::fs::read_to_string(&path).unwrap(), after))
    }

    #[test]
    fn a_file_is_cut_off_behind_its_last_whole_line() {
        let two = line(1, 0) + &line(2, 0);
        assert_eq!(reopened(""), Ok((String::new(), None)));
        assert_eq!(reopened("{\"id\":\"i\",\"se"), Ok((String::new(), None)));
        assert_eq!(reopened(&two), Ok((two.clone(), Some(2))));
        assert_eq!(reopened(&format!("{two}{{\"id")), Ok((two, Some(2))));
        for padding in [0, 65_000, 65_480, 65_500, 65_536, 200_000] {
            let long = line(1, 10) + &line(2, padding);
            assert_eq!(reopened(&long).unwrap(), (long.clone(), Some(2)), "{padding}");
            let cut = format!("{long}{}", line(3, padding).trim_end());
            assert_eq!(reopened(&cut).unwrap(), (long, Some(2)), "{padding}");
        }
    }

    #[test]
    fn what_is_no_export_of_the_topic_is_left_alone() {
        for other in [
            "notes\n",
            "{\"seq\":1,\"topic\":\"other\"}\n",
            "{\"seq\":\"1\",\"topic\":\"t\"}\n",
        ] {
            assert!(reopened(other).unwrap_err().contains("no export of t"), "{other}");
        }
    }

    #[test]
    fn only_whole_lines_are_written() {
        let mut out = Vec::new();
        let mut target = Target::standard(&mut out);
        let text = line(1, 3) + &line(2, 3);
        for piece in text.as_bytes().chunks(7) {
            target.write(piece).unwrap();
        }
        target.write(b"{\"id").unwrap();
        assert_eq!((target.events(), target.after_seq()), (2, Some(2)));
        assert!(target.check_whole().is_err());
        drop(target);
        assert_eq!(out, text.as_bytes());
    }
}
