//! `tidegate groups`: consumer groups, for their operators.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::args::ClientArgs;
use super::failure::Failure;
use super::http::{HttpClient, Method};
use super::output::{read_answer, write_out};
use super::subscribe::parse_from;
use super::table::{span, table};
use super::topics::Topics;
use crate::domain::{GroupName, StartFrom, TopicName};

/// What `groups` can do.
#[derive(Debug, Subcommand)]
pub(super) enum GroupsCommand {
    /// All groups, of one topic or of all, also those nobody is connected to.
    List(ListArgs),
    /// How far a group is.
    Lag(GroupArgs),
    /// Why a group moves or does not, and what happens next.
    Explain(GroupArgs),
    /// Deliver nothing to the group until it is resumed, over restarts too.
    Pause(GroupArgs),
    /// Let a paused group go on.
    Resume(GroupArgs),
    /// Go on from another place; what its members hold goes back.
    Seek(SeekArgs),
    /// Forget a group, which nobody may be connected to.
    Delete(GroupArgs),
}

/// Of which topic.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// One topic; without it, all.
    topic: Option<TopicName>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Which group.
#[derive(Debug, Args)]
pub(super) struct GroupArgs {
    /// Its topic.
    topic: TopicName,
    /// The group.
    group: GroupName,
    #[command(flatten)]
    client: ClientArgs,
}

/// Which group, and where to.
#[derive(Debug, Args)]
pub(super) struct SeekArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// Where to go on: earliest, latest, ts:MS or after:ID.
    #[arg(long, value_parser = parse_from)]
    from: StartFrom,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    topic: String,
    group: String,
    lag: u64,
    #[serde(rename = "lagMs")]
    lag_ms: u64,
    inflight: u64,
    paused: bool,
    members: u64,
    floor: Option<u64>,
    tail: Option<u64>,
}

#[derive(Deserialize)]
struct Explanation {
    sentence: String,
}

/// Does it.
pub(super) fn run(command: &GroupsCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        GroupsCommand::List(args) => list(args, out),
        GroupsCommand::Lag(args) => args.show(out, &args.query("/lag"), |text| {
            let group: Group = read_answer(text)?;
            Ok(groups_table(&[group]))
        }),
        GroupsCommand::Explain(args) => args.show(out, &args.path("/explain"), |text| {
            let explanation: Explanation = read_answer(text)?;
            Ok(format!("{}\n", explanation.sentence))
        }),
        GroupsCommand::Pause(args) => args.change(out, Method::POST, "/pause", "", "is paused"),
        GroupsCommand::Resume(args) => args.change(out, Method::POST, "/resume", "", "goes on"),
        GroupsCommand::Delete(args) => args.change(out, Method::DELETE, "", "", "is deleted"),
        GroupsCommand::Seek(args) => {
            let body = match &args.from {
                StartFrom::Earliest => json!({"from": "earliest"}),
                StartFrom::Ts(ts) => json!({"from": "ts", "ts": ts}),
                StartFrom::AfterId(id) => json!({"from": "afterId", "afterId": id}),
                _ => json!({"from": "latest"}),
            };
            args.group
                .change(out, Method::POST, "/seek", &body.to_string(), "goes on from there")
        }
    }
}

fn list(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = HttpClient::new(&args.client)?;
    let path = match &args.topic {
        Some(topic) => format!("/groups?topic={topic}"),
        None => "/groups".to_owned(),
    };
    let text = client.get_text(&path)?;
    let Groups { groups } = read_answer(&text)?;
    if let (true, Some(topic)) = (groups.is_empty(), &args.topic)
        && let Some(hint) = topic_hint(&client, topic)
    {
        return Err(Failure::Failed(hint));
    }
    if args.client.json {
        return write_out(out, &format!("{text}\n"));
    }
    match groups.is_empty() {
        true => write_out(out, "no groups yet: the first subscription with a group makes one\n"),
        false => write_out(out, &groups_table(&groups)),
    }
}

fn groups_table(groups: &[Group]) -> String {
    let place = groups.iter().any(|group| group.tail.is_some());
    let row = |group: &Group| {
        let mut row = vec![
            group.topic.clone(),
            group.group.clone(),
            group.lag.to_string(),
            if group.lag == 0 {
                "-".to_owned()
            } else {
                span(group.lag_ms)
            },
            group.inflight.to_string(),
            group.members.to_string(),
            if group.paused { "yes" } else { "no" }.to_owned(),
        ];
        if let (Some(floor), Some(tail)) = (group.floor, group.tail) {
            row.extend([floor.to_string(), tail.to_string()]);
        }
        row
    };
    let mut titles = vec!["TOPIC", "GROUP", "LAG", "OLDEST", "INFLIGHT", "MEMBERS", "PAUSED"];
    if place {
        titles.extend(["FLOOR", "TAIL"]);
    }
    let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
    table(&titles, &rows)
}

impl GroupArgs {
    fn path(&self, what: &str) -> String {
        // Neither name has anything that an address escapes, but for the colon, which a path may have.
        format!("/groups/{}/{}{what}", self.topic, self.group)
    }

    fn query(&self, path: &str) -> String {
        format!("{path}?topic={}&group={}", self.topic, self.group)
    }

    fn show(
        &self,
        out: &mut dyn Write,
        path: &str,
        for_people: impl FnOnce(&str) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let client = HttpClient::new(&self.client)?;
        let text = client
            .get_text(path)
            .map_err(|failure| self.with_hint(&client, failure))?;
        match self.client.json {
            true => write_out(out, &format!("{text}\n")),
            false => write_out(out, &for_people(&text)?),
        }
    }

    fn change(&self, out: &mut dyn Write, method: Method, what: &str, body: &str, done: &str) -> Result<(), Failure> {
        let client = HttpClient::new(&self.client)?;
        let sent = client.send_text(method, &self.path(what), body);
        sent.map_err(|failure| self.with_hint(&client, failure))?;
        match self.client.json {
            true => {
                let (topic, group) = (self.topic.as_str(), self.group.as_str());
                write_out(
                    out,
                    &format!("{}\n", json!({"topic": topic, "group": group, "ok": true})),
                )
            }
            false => write_out(out, &format!("{} of {} {done}\n", self.group, self.topic)),
        }
    }

    /// Says which name was probably meant, where there is no such group.
    fn with_hint(&self, client: &HttpClient, failure: Failure) -> Failure {
        match &failure {
            Failure::Refused(refusal) if refusal.code == "not_found" => {}
            _ => return failure,
        }
        if let Some(hint) = topic_hint(client, &self.topic) {
            return Failure::Failed(hint);
        }
        let text = client
            .get_text(&format!("/groups?topic={}", self.topic))
            .unwrap_or_default();
        let Ok(Groups { groups }) = read_answer(&text) else {
            return failure;
        };
        let names = groups.iter().map(|group| group.group.as_str());
        let (topic, group) = (&self.topic, &self.group);
        match nearest(group.as_str(), names) {
            Some(name) => Failure::Failed(format!("{topic} has no group {group}: did you mean {name}?")),
            None => Failure::Failed(format!("{topic} has no group {group}, and no others")),
        }
    }
}

/// What to say of a topic that is not there; None where it is, or where that cannot be told.
pub(super) fn topic_hint(client: &HttpClient, topic: &TopicName) -> Option<String> {
    let text = client.get_text("/topics").ok()?;
    let Topics { topics } = read_answer(&text).ok()?;
    if topics.iter().any(|known| known.topic == topic.as_str()) {
        return None;
    }
    let names = topics.iter().map(|known| known.topic.as_str());
    Some(match nearest(topic.as_str(), names) {
        Some(name) => format!("there is no topic {topic}: did you mean {name}?"),
        None => format!("there is no topic {topic}, and there are no others"),
    })
}

/// The name that is most like a wrong one.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.min_by_key(|name| strsim::damerau_levenshtein(name, wrong))
}
