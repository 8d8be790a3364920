//! Payloads from standard input, one JSON value a line, in batches as large as they come at once.

use std::io::{BufRead, BufReader, Read};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// The most events in a batch.
pub(super) const BATCH_EVENTS_MAX: usize = 100;
/// The most bytes of a batch; a larger line is a batch of its own.
const BATCH_BYTES_MAX: usize = 256 << 10;
/// The longest line: no gateway takes a larger frame.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line that is no payload.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct BadLine {
    line: u64,
    reason: String,
}

/// Payloads that were there at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub payloads: Vec<Box<RawValue>>,
    /// What ended the input, where it was not its end. Comes after the payloads.
    pub bad: Option<BadLine>,
}

/// Reads standard input on a thread of its own: nothing else can wait for it without blocking, and nobody has to wait
/// for the thread at the end. `overhead` is what each event adds to its payload's bytes.
pub(super) fn batches_of_stdin(overhead: usize) -> std::io::Result<mpsc::Receiver<Batch>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        for batch in Batches::new(std::io::stdin(), overhead) {
            if sender.blocking_send(batch).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Cuts input into batches.
struct Batches<R> {
    input: BufReader<R>,
    overhead: usize,
    line: u64,
    /// A payload that had no room in the batch before.
    left_over: Option<Box<RawValue>>,
    is_over: bool,
}

impl<R: Read> Batches<R> {
    fn new(input: R, overhead: usize) -> Self {
        let input = BufReader::with_capacity(BATCH_BYTES_MAX, input);
        Batches {
            input,
            overhead,
            line: 0,
            left_over: None,
            is_over: false,
        }
    }

    /// The next line that is not empty, as a payload; `None` at the end.
    fn payload(&mut self) -> Result<Option<Box<RawValue>>, BadLine> {
        loop {
            self.line += 1;
            let mut bytes = Vec::new();
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            match read {
                Ok(0) => return Ok(None),
                Ok(_) if bytes.len() as u64 == LINE_BYTES_MAX => {
                    return Err(self.bad(format!("longer than {LINE_BYTES_MAX} bytes")));
                }
                Ok(_) => {}
                Err(error) => return Err(self.bad(format!("cannot be read: {error}"))),
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(&bytes) {
                Ok(payload) => Ok(Some(payload)),
                Err(error) => Err(self.bad(format!("not a JSON value, from column {} on", error.column()))),
            };
        }
    }

    fn bad(&self, reason: String) -> BadLine {
        BadLine {
            line: self.line,
            reason,
        }
    }

    /// Whether a whole line is there without waiting.
    fn line_is_there(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }
}

impl<R: Read> Iterator for Batches<R> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        if self.is_over {
            return None;
        }
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.payloads.len() < BATCH_EVENTS_MAX {
            let payload = match self.left_over.take() {
                Some(payload) => payload,
                None if !batch.payloads.is_empty() && !self.line_is_there() => break,
                None => match self.payload() {
                    Ok(Some(payload)) => payload,
                    Ok(None) => {
                        self.is_over = true;
                        break;
                    }
                    Err(bad) => {
                        self.is_over = true;
                        batch.bad = Some(bad);
                        break;
                    }
                },
            };
            bytes += payload.get().len() + self.overhead;
            if bytes > BATCH_BYTES_MAX && !batch.payloads.is_empty() {
                self.left_over = Some(payload);
                break;
            }
            batch.payloads.push(payload);
        }
        let is_empty = batch.payloads.is_empty() && batch.bad.is_none();
        (!is_empty).then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(input: impl Read, overhead: usize) -> Vec<usize> {
        Batches::new(input, overhead)
            .map(|batch| batch.payloads.len())
            .collect()
    }

    /// Input that comes in pieces: a read gives one of them.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0).as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn a_batch_has_at_most_100_events() {
        assert_eq!(sizes("1\n".repeat(250).as_bytes(), 0), [100, 100, 50]);
        assert_eq!(sizes("1\n".repeat(100).as_bytes(), 0), [100]);
        assert!(sizes("".as_bytes(), 0).is_empty());
        assert!(sizes("\n \n\n".as_bytes(), 0).is_empty());
    }

    #[test]
    fn a_batch_closes_when_nothing_more_is_there() {
        assert_eq!(sizes(Pieces(vec!["1\n2\n", "3\n4", "5\n", "6"]), 0), [2, 1, 1, 1]);
    }

    #[test]
    fn a_batch_has_at_most_256_kib_and_a_large_line_is_alone() {
        let line = format!("\"{}\"\n", "x".repeat(100 << 10));
        let large = format!("\"{}\"\n", "x".repeat(300 << 10));
        assert!(sizes(line.repeat(5).as_bytes(), 0).iter().all(|&size| size <= 2));
        assert_eq!(sizes(format!("1\n{large}2\n").as_bytes(), 0).iter().sum::<usize>(), 3);
        assert!(
            sizes("1\n".repeat(10).as_bytes(), 100 << 10)
                .iter()
                .all(|&size| size <= 2)
        );
        assert_eq!(sizes("1\n".repeat(3).as_bytes(), 300 << 10), [1, 1, 1]);
    }

    #[test]
    fn a_bad_line_is_named_after_what_was_before_it() {
        let batches: Vec<Batch> = Batches::new("1\n\n{\"a\": 2}\nnonsense\n4\n".as_bytes(), 0).collect();
        let payloads: Vec<&str> = batches
            .iter()
            .flat_map(|batch| &batch.payloads)
            .map(|payload| payload.get())
            .collect();
        assert_eq!(payloads, ["1", "{\"a\": 2}"]);
        let bad: Vec<String> = batches
            .iter()
            .filter_map(|batch| batch.bad.as_ref())
            .map(ToString::to_string)
            .collect();
        assert_eq!(bad.len(), 1);
        assert!(bad[0].starts_with("line 4: not a JSON value"), "{bad:?}");
    }

    #[test]
    fn two_values_and_other_bytes_are_no_payload() {
        for wrong in [&b"1 2\n"[..], b"\xff\n", b"\"\xff\"\n", b"{\n}\n"] {
            let batches: Vec<Batch> = Batches::new(wrong, 0).collect();
            assert!(batches[0].bad.is_some() && batches[0].payloads.is_empty());
        }
    }
}
