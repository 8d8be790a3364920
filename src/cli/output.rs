//! A command's output, whose reader may go away at any time.

use std::io::{ErrorKind, Write};

use super::failure::Failure;

/// Writes a text and makes sure that it has left the process.
pub(super) fn write_out(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Failed(format!("the output cannot be written: {error}")),
    })
}

/// Reads an answer of the gateway.
pub(super) fn read_answer<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Failed(format!("no answer of a gateway: {error}")))
}
