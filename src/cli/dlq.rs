//! `tidegate dlq`: dead letters.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::args::ClientArgs;
use super::failure::Failure;
use super::groups::topic_hint;
use super::http::{HttpClient, Method};
use super::output::{read_answer, write_out};
use super::table::table;
use crate::domain::TopicName;

/// The most dead letters that one request replays.
const PAGE: u64 = 1_000;

/// What `dlq` can do.
#[derive(Debug, Subcommand)]
pub(super) enum DlqCommand {
    /// Print a topic's dead letters.
    List(DlqArgs),
    /// Publish the originals again to their topic, each once however often this is called.
    Replay(ReplayArgs),
}

/// Which topic.
#[derive(Debug, Args)]
pub(super) struct DlqArgs {
    /// The topic whose dead letters are meant, without dlq. before it.
    topic: TopicName,
    #[command(flatten)]
    client: ClientArgs,
}

/// Which topic, and how many.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    dlq: DlqArgs,
    /// At most so many; without it, all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Letter {
    id: String,
    seq: u64,
    payload: Record,
}

#[derive(Deserialize)]
struct Record {
    group: String,
    original: Original,
    err: String,
    ts: u64,
    attempts: u32,
}

#[derive(Deserialize)]
struct Original {
    id: String,
    seq: u64,
}

#[derive(Default, Deserialize)]
struct Replayed {
    replayed: u64,
    skipped: u64,
    left: u64,
}

/// Does it.
pub(super) fn run(command: &DlqCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        DlqCommand::List(args) => list(args, out),
        DlqCommand::Replay(args) => replay(args, out),
    }
}

fn list(args: &DlqArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = HttpClient::new(&args.client)?;
    let mut path = format!("/replay?topic=dlq.{}&limit=1000", args.topic);
    let mut rows = Vec::new();
    loop {
        let text = client.get_text(&path)?;
        let page: Page<'_> = read_answer(&text)?;
        for event in &page.events {
            if args.client.json {
                write_out(out, &format!("{}\n", event.get()))?;
            } else {
                rows.push(row(&read_answer(event.get())?));
            }
        }
        match page.next {
            Some(next) => path = next,
            None => break,
        }
    }
    if args.client.json {
        return Ok(());
    }
    if rows.is_empty() {
        if let Some(hint) = topic_hint(&client, &args.topic) {
            return Err(Failure::Failed(hint));
        }
        return write_out(out, &format!("{} has no dead letters\n", args.topic));
    }
    let titles = ["SEQ", "DIED", "GROUP", "EVENT", "EVENT SEQ", "ATTEMPTS", "WHY", "ID"];
    write_out(out, &table(&titles, &rows))
}

fn row(letter: &Letter) -> Vec<String> {
    let record = &letter.payload;
    let died = std::time::UNIX_EPOCH + std::time::Duration::from_millis(record.ts.min(crate::domain::TS_MAX));
    vec![
        letter.seq.to_string(),
        humantime::format_rfc3339_seconds(died).to_string(),
        record.group.clone(),
        record.original.id.clone(),
        record.original.seq.to_string(),
        record.attempts.to_string(),
        // A reason may have line breaks in it.
        record.err.escape_debug().to_string(),
        letter.id.clone(),
    ]
}

fn replay(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let DlqArgs { topic, client } = &args.dlq;
    let http = HttpClient::new(client)?;
    let mut done = Replayed::default();
    let mut wanted = args.limit.unwrap_or(u64::MAX);
    while wanted > 0 {
        let limit = wanted.min(PAGE);
        let text = http.send_text(Method::POST, &format!("/dlq/{topic}/replay?limit={limit}"), "")?;
        let page: Replayed = read_answer(&text)?;
        let progress = page.replayed + page.skipped;
        wanted = wanted.saturating_sub(progress);
        done = Replayed {
            replayed: done.replayed + page.replayed,
            skipped: done.skipped + page.skipped,
            left: page.left,
        };
        if page.left == 0 || progress == 0 {
            break;
        }
    }
    let Replayed {
        replayed,
        skipped,
        left,
    } = done;
    if replayed + skipped + left == 0
        && let Some(hint) = topic_hint(&http, topic)
    {
        return Err(Failure::Failed(hint));
    }
    if client.json {
        let summary = json!({"replayed": replayed, "skipped": skipped, "left": left});
        return write_out(out, &format!("{summary}\n"));
    }
    let mut text = format!("{replayed} published again to {topic}, {left} left\n");
    if skipped > 0 {
        text.push_str(&format!(
            "{skipped} could not be: they were too large to be kept with their payload\n"
        ));
    }
    write_out(out, &text)
}
