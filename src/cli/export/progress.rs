//! How far an export is: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use ureq::http::HeaderMap;

use crate::server::{EXPORT_FIRST_SEQ, EXPORT_LAST_SEQ};

const TEMPLATE: &str = "{bar:40} {human_pos} of {human_len}  {per_sec}  {eta} left";

/// A progress bar over the seqs of an export.
pub(super) struct Progress {
    bar: ProgressBar,
    first: u64,
}

impl Progress {
    /// From what the gateway says of an export that begins.
    pub(super) fn new(headers: &HeaderMap) -> Progress {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        let first = number(EXPORT_FIRST_SEQ).unwrap_or(1);
        let last = number(EXPORT_LAST_SEQ).unwrap_or(0);
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new((last + 1).saturating_sub(first));
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Progress { bar, first }
    }

    /// The events up to this seq are there.
    pub(super) fn reached(&self, seq: Option<u64>) {
        if let Some(seq) = seq {
            self.bar.set_position((seq + 1).saturating_sub(self.first));
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
