//! `tidegate publish`: one event, or one for each line of standard input.
//!
//! Every event gets its id here, so that a batch can be sent again without doubling anything.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::args::ClientArgs;
use super::client::{Client, retry_wait};
use super::failure::Failure;
use super::frames::{Done, PublishEvent, PublishOpts, Request};
use super::input::{BATCH_EVENTS_MAX, batches_of_stdin};
use super::output::write_out;
use crate::domain::TopicName;

/// What an event adds to its payload in a frame, besides the texts it is given.
const EVENT_OVERHEAD: usize = 128;
/// How long a gateway may fail before it is left alone. One that asks to slow down does not fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `publish` takes.
#[derive(Debug, Args)]
pub(super) struct PublishArgs {
    /// Where to.
    topic: TopicName,
    /// A JSON value. Without it: one JSON value a line from standard input.
    payload: Option<String>,
    /// What the event is about; decides its partition.
    #[arg(long)]
    key: Option<String>,
    /// The event's id, unique in its topic. By default a new one.
    #[arg(long, requires = "payload")]
    id: Option<String>,
    /// A header of the event, as name=value. Can be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// A label of the event. Can be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    client: ClientArgs,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected name=value".to_owned()),
    }
}

/// Publishes, and prints a line for each event once it is durable.
pub(super) async fn run(args: &PublishArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    // What is wrong with the command line is said before the gateway is bothered.
    let single = args.payload.as_deref().map(parse_payload).transpose()?;
    let client = Client::connect(&args.client).await?;
    let mut publisher = Publisher {
        args,
        client,
        out,
        batch_max: BATCH_EVENTS_MAX,
        patience: PATIENCE,
    };
    match single {
        Some(payload) => publisher.publish(vec![payload]).await?,
        None => publisher.publish_lines().await?,
    }
    publisher.client.close().await;
    Ok(())
}

fn parse_payload(text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::Usage(format!(
            "PAYLOAD is not a JSON value: {error}; text needs double quotes, as in '\"hello\"'"
        ))
    })
}

struct Publisher<'a> {
    args: &'a PublishArgs,
    client: Client,
    out: &'a mut dyn io::Write,
    /// How many events a batch may have: fewer once a gateway with small buckets said so.
    batch_max: usize,
    patience: Duration,
}

impl Publisher<'_> {
    async fn publish_lines(&mut self) -> Result<(), Failure> {
        let batches = batches_of_stdin(self.args.overhead());
        let mut batches = batches.map_err(|error| Failure::Failed(format!("cannot read standard input: {error}")))?;
        while let Some(batch) = self.client.meanwhile(batches.recv()).await? {
            self.publish(batch.payloads).await?;
            if let Some(bad) = batch.bad {
                return Err(Failure::Failed(bad.to_string()));
            }
        }
        Ok(())
    }

    /// Publishes all of them, in their order, as often as the gateway asks to come back.
    async fn publish(&mut self, payloads: Vec<Box<RawValue>>) -> Result<(), Failure> {
        let with_id = |payload| (self.args.id.clone().unwrap_or_else(new_id), payload);
        let events: Vec<(String, Box<RawValue>)> = payloads.into_iter().map(with_id).collect();
        let mut left = events.as_slice();
        let mut failing_since = None;
        while !left.is_empty() {
            let (batch, later) = left.split_at(left.len().min(self.batch_max));
            match self.client.request(&self.args.batch_frame(batch)).await? {
                Ok(done) => {
                    write_out(self.out, &self.args.confirmation(&done)?)?;
                    left = later;
                    failing_since = None;
                }
                Err(refusal) if refusal.is_temporary() => {
                    let wait = retry_wait(&refusal);
                    // A rate limit is the pace that was asked for; anything else is a trouble that somebody should see.
                    if refusal.code == "rate_limited" {
                        tracing::debug!(wait_ms = wait.as_millis(), "the gateway asks to come back");
                        failing_since = None;
                    } else {
                        let since = *failing_since.get_or_insert_with(Instant::now);
                        if since.elapsed() + wait > self.patience {
                            let (seconds, count) = (self.patience.as_secs(), left.len());
                            let text =
                                format!("{refusal}: tried for {seconds} s, and gave up with {count} not published");
                            return Err(Failure::Failed(text));
                        }
                        tracing::warn!(wait_ms = wait.as_millis(), "not published yet, trying again: {refusal}");
                    }
                    self.client.meanwhile(tokio::time::sleep(wait)).await?;
                }
                Err(refusal) if refusal.is_batch_too_large() && batch.len() > 1 => self.batch_max = batch.len() / 2,
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(())
    }
}

impl PublishArgs {
    fn batch_frame<'a>(&'a self, events: &'a [(String, Box<RawValue>)]) -> Request<'a> {
        let headers: BTreeMap<&str, &str> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let event = |(id, payload): &'a (String, Box<RawValue>)| PublishEvent {
            payload,
            opts: PublishOpts {
                id,
                key: self.key.as_deref(),
                headers: headers.clone(),
                tags: &self.tags,
            },
        };
        Request::PublishBatch {
            topic: self.topic.as_str(),
            events: events.iter().map(event).collect(),
        }
    }

    /// About what each event adds to its payload in a frame.
    fn overhead(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 6)
            .sum();
        let tags: usize = self.tags.iter().map(|tag| tag.len() + 3).sum();
        EVENT_OVERHEAD + self.key.as_ref().map_or(0, String::len) + headers + tags
    }

    fn confirmation(&self, done: &Done) -> Result<String, Failure> {
        let mut text = String::new();
        for (id, seq) in done.ids.iter().zip(&done.seqs) {
            // Writing into memory cannot fail.
            let _ = match self.client.json {
                true => writeln!(text, "{}", serde_json::json!({"id": id, "seq": seq})),
                false => writeln!(text, "published {id} seq {seq}"),
            };
        }
        match text.is_empty() {
            true => Err(Failure::Failed("the gateway's OK has no ids".to_owned())),
            false => Ok(text),
        }
    }
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::scripted_gateway::Gateway;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PublishArgs,
    }

    fn args(words: &[&str]) -> Result<PublishArgs, clap::Error> {
        Line::try_parse_from(["publish"].iter().chain(words)).map(|line| line.args)
    }

    #[test]
    fn a_frame_has_what_the_command_line_said() {
        let words = ["orders", "--key", "k", "--header", "a=b=c", "--tag", "x", "--tag", "y"];
        let args = args(&words).unwrap();
        let events = [("i".to_owned(), parse_payload("{\"n\":1.0}").unwrap())];
        let frame: serde_json::Value = serde_json::from_str(&args.batch_frame(&events).to_text(1).unwrap()).unwrap();
        assert_eq!(
            frame,
            serde_json::json!({"op": "PUBLISH_BATCH", "corr": 1, "topic": "orders", "events": [
                {"payload": {"n": 1.0}, "opts": {"id": "i", "key": "k", "headers": {"a": "b=c"}, "tags": ["x", "y"]}}
            ]})
        );
        assert!(args.overhead() > EVENT_OVERHEAD);
    }

    #[test]
    fn an_id_is_for_one_event() {
        assert!(args(&["orders", "1", "--id", "i"]).is_ok());
        assert!(args(&["orders", "--id", "i"]).is_err());
    }

    #[test]
    fn a_payload_must_be_json() {
        let failure = parse_payload("hello").unwrap_err();
        assert!(
            matches!(&failure, Failure::Usage(message) if message.contains("double quotes")),
            "{failure}"
        );
    }

    #[test]
    fn confirmations_are_for_people_or_programs() {
        let done = Done {
            ids: vec!["a".into(), "b\"".into()],
            seqs: vec![1, 2],
        };
        let people = args(&["orders", "1"]).unwrap();
        assert_eq!(
            people.confirmation(&done).unwrap(),
            "published a seq 1\npublished b\" seq 2\n"
        );
        let programs = args(&["orders", "1", "--json"]).unwrap();
        assert_eq!(
            programs.confirmation(&done).unwrap(),
            "{\"id\":\"a\",\"seq\":1}\n{\"id\":\"b\\\"\",\"seq\":2}\n"
        );
        assert!(people.confirmation(&Done::default()).is_err());
    }

    fn payloads(count: usize) -> Vec<Box<RawValue>> {
        (0..count).map(|at| parse_payload(&at.to_string()).unwrap()).collect()
    }

    /// Publishes so many events to the gateway at this address.
    async fn publish(url: &str, count: usize) -> Result<String, Failure> {
        let args = args(&["orders", "--url", url]).unwrap();
        let client = Client::connect(&args.client).await?;
        let mut out = Vec::new();
        let mut publisher = Publisher {
            args: &args,
            client,
            out: &mut out,
            batch_max: BATCH_EVENTS_MAX,
            patience: Duration::from_secs(2),
        };
        publisher.publish(payloads(count)).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn a_batch_is_sent_again_with_the_same_ids() {
        let (url, script) = Gateway::start(|mut gateway| async move {
            let first = gateway.expect("PUBLISH_BATCH").await;
            gateway.err(&first, "rate_limited", "conn publish rate exceeded").await;
            let second = gateway.expect("PUBLISH_BATCH").await;
            gateway.err(&second, "store_unavailable", "").await;
            let third = gateway.expect("PUBLISH_BATCH").await;
            gateway.published(&third, 5).await;
            [first, second, third].map(|batch| batch["events"].clone())
        })
        .await;
        let printed = publish(&url, 2).await.unwrap();
        let [first, second, third] = script.await.unwrap();
        assert_eq!((&first, &second), (&third, &third));
        assert_ne!(first[0]["opts"]["id"], first[1]["opts"]["id"]);
        assert_eq!(printed.lines().count(), 2);
        assert!(printed.ends_with("seq 6\n"), "{printed}");
    }

    #[tokio::test]
    async fn batches_shrink_to_what_a_bucket_holds_and_keep_their_order() {
        let (url, script) = Gateway::start(|mut gateway| async move {
            let mut taken = Vec::new();
            while let Some(batch) = gateway.next().await {
                let events = batch["events"].as_array().unwrap();
                if events.len() > 3 {
                    gateway
                        .err(&batch, "bad_request", "events: above the bucket's capacity of 3")
                        .await;
                    continue;
                }
                let payloads: Vec<u64> = events.iter().map(|event| event["payload"].as_u64().unwrap()).collect();
                gateway.published(&batch, taken.len() + 1).await;
                taken.extend(payloads);
            }
            taken
        })
        .await;
        assert_eq!(publish(&url, 10).await.unwrap().lines().count(), 10);
        assert_eq!(script.await.unwrap(), (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn other_refusals_end_it() {
        let (url, _script) = Gateway::start(|mut gateway| async move {
            let batch = gateway.expect("PUBLISH_BATCH").await;
            gateway.err(&batch, "forbidden", "no").await;
            while gateway.next().await.is_some() {}
        })
        .await;
        let failure = publish(&url, 1).await.unwrap_err();
        assert_eq!(failure.message().as_deref(), Some("forbidden: no"));
    }

    #[tokio::test]
    async fn a_gateway_that_goes_on_failing_is_left_alone() {
        let (url, script) = Gateway::start(|mut gateway| async move {
            let first = gateway.expect("PUBLISH_BATCH").await;
            let half = first["events"].as_array().unwrap().len();
            gateway.err(&first, "rate_limited", "conn publish rate exceeded").await;
            let mut tries = 0;
            while let Some(batch) = gateway.next().await {
                gateway.err(&batch, "store_unavailable", "the disk is full").await;
                tries += 1;
            }
            (half, tries)
        })
        .await;
        let failure = publish(&url, 3).await.unwrap_err();
        let message = failure.message().unwrap_or_default();
        assert!(
            message.contains("store_unavailable: the disk is full") && message.contains("gave up with 3 not published"),
            "{message}"
        );
        let (events, tries) = script.await.unwrap();
        assert!(events == 3 && tries >= 2, "tried {tries} times");
    }

    #[tokio::test]
    async fn where_nobody_listens_it_says_how_to_start_a_gateway() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws", listener.local_addr().unwrap());
        drop(listener);
        let message = publish(&url, 1).await.unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("no gateway at {url}: start one with `tidegate serve`")),
            "{message}"
        );
    }
}
