//! `tidegate export`: all of a topic's history, to a file or to standard output, one event a line.

mod progress;
mod target;

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use self::progress::Progress;
use self::target::Target;
use super::args::ClientArgs;
use super::failure::Failure;
use super::http::HttpClient;
use super::output::write_out;
use crate::domain::TopicName;

/// What is read from the socket at once.
const READ_BYTES: usize = 256 << 10;

/// What `export` takes.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Which topic.
    topic: TopicName,
    /// Only events from this time on, in epoch milliseconds.
    #[arg(long, value_name = "MS")]
    from_ts: Option<u64>,
    /// Only events up to this time, in epoch milliseconds.
    #[arg(long, value_name = "MS")]
    to_ts: Option<u64>,
    /// The file to write; it must not be there yet. Without it: standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on after the last whole line of the file, where an export broke off.
    #[arg(long, requires = "output")]
    resume: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Exports, and says how much.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut target = match &args.output {
        Some(file) => Target::open(file, args.resume, &args.topic)?,
        None => Target::standard(out),
    };
    let client = HttpClient::new(&args.client)?;
    let response = client.get(&path(args, target.after_seq()))?;
    let progress = Progress::new(response.headers());
    let copied = copy(response.into_body().into_reader(), &mut target, &progress);
    progress.end();
    let (events, last_seq) = (target.events(), target.after_seq());
    let ended = copied.and_then(|()| target.finish());
    match (ended, &args.output) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(file)) => {
            let text = match args.client.json {
                true => json!({"events": events, "last_seq": last_seq, "output": file}).to_string(),
                false => format!("exported {events} events to {}", file.display()),
            };
            write_out(out, &format!("{text}\n"))
        }
        (Err(Failure::OutputClosed), _) => Err(Failure::OutputClosed),
        (Err(failure), None) => Err(Failure::Failed(format!(
            "the export is not complete: {failure} (with --output FILE it can be gone on with by --resume)"
        ))),
        (Err(failure), Some(_)) => Err(Failure::Failed(format!(
            "the export is not complete: {failure}\n{events} events were written; run it again with --resume to go on"
        ))),
    }
}

fn path(args: &ExportArgs, after_seq: Option<u64>) -> String {
    let mut path = format!("/export?topic={}", args.topic);
    let parameters = [("fromTs", args.from_ts), ("toTs", args.to_ts), ("afterSeq", after_seq)];
    for (name, value) in parameters {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={value}"));
        }
    }
    path
}

/// Copies to the end. An answer that breaks off is an error of its reader.
fn copy(mut from: impl Read, to: &mut Target<'_>, progress: &Progress) -> Result<(), Failure> {
    let mut piece = vec![0; READ_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return to.check_whole(),
            Ok(length) => {
                to.write(piece.get(..length).unwrap_or_default())?;
                progress.reached(to.after_seq());
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Failed(format!("the connection is lost: {error}"))),
        }
    }
}
