//! `tidegate subscribe`: a topic's events, one a line, each acked after it was printed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Write;
use std::pin::Pin;

use clap::Args;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::args::ClientArgs;
use super::client::{Client, retry_wait};
use super::failure::Failure;
use super::frames::{Incoming, Request};
use super::output::write_out;
use crate::domain::{GroupName, StartFrom, TopicName};

/// The most events that are printed and acked together.
const ACKED_TOGETHER_MAX: usize = 100;

/// What `subscribe` takes.
#[derive(Debug, Args)]
pub(super) struct SubscribeArgs {
    /// Which topic.
    topic: TopicName,
    /// The consumer group to take part in. Without it: every event, nothing remembered.
    #[arg(long)]
    group: Option<GroupName>,
    /// Where to begin if the group is new: earliest, latest, ts:MS or after:ID.
    #[arg(long, default_value = "latest", value_parser = parse_from)]
    from: StartFrom,
    /// End after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Leave the events unacked.
    #[arg(long)]
    no_ack: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) fn parse_from(text: &str) -> Result<StartFrom, String> {
    match text.split_once(':') {
        None if text == "earliest" => Ok(StartFrom::Earliest),
        None if text == "latest" => Ok(StartFrom::Latest),
        Some(("ts", ms)) => ms
            .parse()
            .map(StartFrom::Ts)
            .map_err(|_| "expected ts:MS, in epoch milliseconds".to_owned()),
        Some(("after", id)) if !id.is_empty() => Ok(StartFrom::AfterId(id.into())),
        _ => Err("expected earliest, latest, ts:MS or after:ID".to_owned()),
    }
}

/// Prints events until there were enough, the gateway ends it, or an interrupt comes.
pub(super) async fn run(args: &SubscribeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut client = Client::connect(&args.client).await?;
    // What is beyond the count would only wait here, out of other members' reach.
    let max_in_flight = args.count.filter(|&count| count < 100 && args.group.is_some());
    let subscribe = Request::subscribe(&args.topic, args.group.as_ref(), &args.from, max_in_flight);
    client.request(&subscribe).await??;
    let mut subscription = Subscription {
        args,
        client,
        out,
        interrupt: Box::pin(tokio::signal::ctrl_c()),
        printed: 0,
        unsent: Vec::new(),
        unsent_until: None,
        sent: HashMap::new(),
    };
    let printed = subscription.print_events().await;
    match printed {
        // Where the reader went away, what it has not seen goes back to the group.
        Ok(()) | Err(Failure::OutputClosed) => {}
        Err(failure) => return Err(failure),
    }
    tokio::select! {
        ended = subscription.end() => ended?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::Failed("interrupted".to_owned())),
    }
    printed
}

/// What a subscription goes on with.
enum Step {
    Frame(Incoming),
    /// Acks that had to wait may be sent again.
    AcksDue,
    Interrupted,
}

struct Subscription<'a> {
    args: &'a SubscribeArgs,
    client: Client,
    out: &'a mut dyn Write,
    interrupt: Pin<Box<dyn Future<Output = std::io::Result<()>>>>,
    printed: u64,
    /// Printed, and not yet acked.
    unsent: Vec<String>,
    /// Set while the gateway wants no acks.
    unsent_until: Option<Instant>,
    /// Acks on their way, by their request's number.
    sent: HashMap<u64, Vec<String>>,
}

impl Subscription<'_> {
    /// Prints and acks until there were enough.
    async fn print_events(&mut self) -> Result<(), Failure> {
        while !self.has_enough() {
            match self.next().await? {
                Step::Frame(incoming) => self.print_all_there(incoming)?,
                Step::AcksDue => {}
                Step::Interrupted => return Ok(()),
            }
            self.send_acks().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Step, Failure> {
        let due = self.unsent_until;
        let acks_due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            incoming = self.client.next() => incoming.map(Step::Frame),
            _ = &mut self.interrupt => Ok(Step::Interrupted),
            () = acks_due => {
                self.unsent_until = None;
                Ok(Step::AcksDue)
            }
        }
    }

    /// Prints what is there without waiting, together.
    fn print_all_there(&mut self, first: Incoming) -> Result<(), Failure> {
        let mut lines = String::new();
        let mut ids = Vec::new();
        let mut next = Some(first);
        while let Some(incoming) = next {
            if let Incoming::Event { id, json } = incoming {
                lines.push_str(&json);
                lines.push('\n');
                ids.push(id);
                self.printed += 1;
            } else {
                self.settle(incoming)?;
            }
            if self.has_enough() || ids.len() >= ACKED_TOGETHER_MAX {
                break;
            }
            next = self.client.next().now_or_never().transpose()?;
        }
        if !lines.is_empty() {
            write_out(self.out, &lines)?;
        }
        if self.args.group.is_some() && !self.args.no_ack {
            self.unsent.append(&mut ids);
        }
        Ok(())
    }

    async fn send_acks(&mut self) -> Result<(), Failure> {
        let Some(group) = &self.args.group else {
            return Ok(());
        };
        while !self.unsent.is_empty() && self.unsent_until.is_none() {
            let ids: Vec<String> = self.unsent.drain(..self.unsent.len().min(ACKED_TOGETHER_MAX)).collect();
            let (topic, group) = (self.args.topic.as_str(), group.as_str());
            let corr = self
                .client
                .send(&Request::Ack {
                    topic,
                    group,
                    ids: &ids,
                })
                .await?;
            self.sent.insert(corr, ids);
        }
        Ok(())
    }

    /// Takes the answer to an ack; an error that is to no request ends the subscription.
    fn settle(&mut self, incoming: Incoming) -> Result<(), Failure> {
        let Incoming::Answer { corr, result } = incoming else {
            return Ok(());
        };
        let ids = corr.and_then(|corr| self.sent.remove(&corr));
        match (result, ids) {
            (Err(refusal), Some(ids)) if refusal.is_temporary() => {
                self.unsent.extend(ids);
                self.unsent_until = Some(Instant::now() + retry_wait(&refusal));
                Ok(())
            }
            (Err(refusal), _) => Err(refusal.into()),
            (Ok(_), _) => Ok(()),
        }
    }

    fn has_enough(&self) -> bool {
        self.args.count.is_some_and(|count| self.printed >= count)
    }

    /// Waits until all acks are durable, then leaves the group in good order.
    async fn end(mut self) -> Result<(), Failure> {
        // A second interrupt is the caller's: it does not wait for an answer.
        self.interrupt = Box::pin(std::future::pending());
        while !self.sent.is_empty() || !self.unsent.is_empty() {
            self.send_acks().await?;
            if let Step::Frame(incoming) = self.next().await? {
                self.settle(incoming)?;
            }
        }
        let topic = self.args.topic.as_str();
        let group = self.args.group.as_ref().map(GroupName::as_str);
        self.client.request(&Request::Unsubscribe { topic, group }).await??;
        self.client.close().await;
        Ok(())
    }
}
