//! `tidegate topics`.

use std::io::Write;

use clap::Args;
use serde::Deserialize;

use super::args::ClientArgs;
use super::failure::Failure;
use super::http::HttpClient;
use super::output::{read_answer, write_out};
use super::table::{bytes, span, table};

/// What `topics` takes.
#[derive(Debug, Args)]
pub(super) struct TopicsArgs {
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Deserialize)]
pub(super) struct Topics {
    pub topics: Vec<Topic>,
}

#[derive(Deserialize)]
pub(super) struct Topic {
    pub topic: String,
    first: u64,
    tail: u64,
    events: u64,
    bytes: u64,
    rate: f64,
    limit: Limit,
    retention: Retention,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Limit {
    Off(String),
    Bucket { capacity: u64, refill_per_sec: f64 },
}

#[derive(Deserialize)]
struct Retention {
    age_ms: Option<u64>,
    count: Option<u64>,
    bytes: Option<u64>,
}

impl Retention {
    fn words(&self) -> String {
        let parts = [
            self.age_ms.map(span),
            self.count.map(|count| format!("{count} events")),
            self.bytes.map(bytes),
        ];
        let words: Vec<String> = parts.into_iter().flatten().collect();
        if words.is_empty() {
            "all".to_owned()
        } else {
            words.join(", ")
        }
    }
}

/// Prints the topics that the caller may see.
pub(super) fn run(args: &TopicsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = HttpClient::new(&args.client)?;
    let text = client.get_text("/topics")?;
    if args.client.json {
        return write_out(out, &format!("{text}\n"));
    }
    let Topics { topics } = read_answer(&text)?;
    if topics.is_empty() {
        return write_out(out, "no topics yet: the first publish makes one\n");
    }
    let row = |topic: &Topic| {
        let limit = match &topic.limit {
            Limit::Off(word) => word.clone(),
            Limit::Bucket {
                capacity,
                refill_per_sec,
            } => format!("{refill_per_sec}/s, bursts of {capacity}"),
        };
        vec![
            topic.topic.clone(),
            topic.events.to_string(),
            topic.first.to_string(),
            topic.tail.to_string(),
            bytes(topic.bytes),
            format!("{:.1}/s", topic.rate),
            limit,
            topic.retention.words(),
        ]
    };
    let rows: Vec<Vec<String>> = topics.iter().map(row).collect();
    let titles = ["TOPIC", "EVENTS", "FIRST", "TAIL", "BYTES", "RATE", "LIMIT", "KEEPS"];
    write_out(out, &table(&titles, &rows))
}
