//! Standard output, with a reader that may go away at any time.

use std::io::{ErrorKind, Write};

use super::failure::Failure;

/// Writes a text to standard output.
pub(super) fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Failed(format!("standard output cannot be written: {error}")),
        })
}
