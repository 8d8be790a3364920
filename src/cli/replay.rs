//! `tidegate replay`: a topic's history, one event a line.

use std::io::Write;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::args::ClientArgs;
use super::failure::Failure;
use super::http::{HttpClient, escaped};
use super::output::write_out;
use crate::domain::{StartFrom, TopicName};

/// The most events that are asked for at once.
const PAGE: u64 = 1_000;

/// What `replay` takes.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Which topic.
    topic: TopicName,
    /// Where to begin: earliest, ts:MS or after:ID.
    #[arg(long, default_value = "earliest", value_parser = parse_from)]
    from: StartFrom,
    /// End after so many events; without it, after the newest one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

fn parse_from(text: &str) -> Result<StartFrom, String> {
    match super::subscribe::parse_from(text) {
        Ok(StartFrom::Latest) | Err(_) => Err("expected earliest, ts:MS or after:ID".to_owned()),
        from => from,
    }
}

/// A page of the gateway's.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    next: Option<String>,
}

/// Prints page after page.
pub(super) fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = HttpClient::new(&args.client)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let limit = left.min(PAGE);
    let mut path = format!("/replay?topic={}&limit={limit}{}", args.topic, start(&args.from));
    loop {
        let text = client.get_text(&path)?;
        let no_page = |error| Failure::Failed(format!("no answer of a gateway: {error}"));
        let page: Page<'_> = serde_json::from_str(&text).map_err(no_page)?;
        let mut lines = String::with_capacity(text.len());
        for event in page.events.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            lines.push_str(event.get());
            lines.push('\n');
        }
        write_out(out, &lines)?;
        left = left.saturating_sub(page.events.len() as u64);
        match page.next {
            Some(next) if left > 0 => path = next,
            _ => return Ok(()),
        }
    }
}

fn start(from: &StartFrom) -> String {
    match from {
        StartFrom::Earliest | StartFrom::Latest => String::new(),
        StartFrom::Ts(ms) => format!("&from=ts&ts={ms}"),
        StartFrom::AfterId(id) => format!("&from=afterId&afterId={}", escaped(id)),
    }
}
