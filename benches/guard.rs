//! Counts the instructions that the gateway spends on an event, and fails where they have grown by more than a quarter
//! over the figures in `guard.toml`. Instructions do not depend on what else the machine does: callgrind counts them, in
//! two runs of different length, so that what is not per event cancels out. See `README.md` beside this file.
//!
//! Everything is done but the kernel's part: bytes of WebSocket frames go into the gateway's own connection actors, and
//! bytes come out. The client's part, in [`work`], is counted too: it is small and does not change.

#![allow(missing_docs, reason = "a program of its own")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use support::pipe::Pipe;
use support::{InProcess, Result, ended};

/// Events of the short and of the long run: few enough for a topic to have them all in memory.
const RUNS: [usize; 2] = [800, 4_000];
/// How much a figure may be over the kept one.
const GROWTH_MAX: f64 = 1.25;
/// Frames that come out of a client's socket together.
const TOGETHER: usize = 16;
/// Events that a consumer takes before it acks them: `maxInFlight` of a SUBSCRIBE that says nothing.
const ACKED_TOGETHER: usize = 100;
/// Connections that get every event, where events are spread.
const SUBSCRIBERS: usize = 8;
const PAYLOAD_BYTES: usize = 256;
const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/guard.toml");
const HEADER: &str = "\
# Instructions per event (for fanout: per delivery), by `cargo bench --bench guard -- --save`.
# `cargo bench --bench guard` fails where one has grown by more than a quarter.
";

/// What is measured, and how many times its events count.
const SCENARIOS: [(&str, usize); 5] = [
    ("publish-memory", 1),
    ("publish-embedded", 1),
    ("deliver-ack-memory", 1),
    ("deliver-ack-embedded", 1),
    ("fanout-memory", SUBSCRIBERS),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ended(match words[..] {
        [] => compare(),
        ["--save"] => save(),
        ["--work", scenario, events] => work_alone(scenario, events),
        _ => Err("usage: cargo bench --bench guard [-- --save]".into()),
    })
}

fn compare() -> Result<()> {
    let kept = std::fs::read_to_string(FIGURES).map_err(|error| format!("{FIGURES}: {error}"))?;
    let kept: BTreeMap<String, f64> = toml::from_str(&kept)?;
    println!("| instructions per event | kept | now | ratio |\n|---|---|---|---|");
    let mut grown = Vec::new();
    for (scenario, times) in SCENARIOS {
        let now = measure(scenario, times)?;
        let Some(before) = kept.get(scenario) else {
            return Err(format!("{FIGURES} has no {scenario}: see --save").into());
        };
        let ratio = now / before;
        println!("| {scenario} | {before:.0} | {now:.0} | {ratio:.2} |");
        if ratio > GROWTH_MAX {
            grown.push(format!(
                "{scenario} takes {ratio:.2} times the instructions that it took"
            ));
        }
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}; where that is meant, keep the new figures: cargo bench --bench guard -- --save",
        grown.join(", ")
    )
    .into())
}

fn save() -> Result<()> {
    let mut text = HEADER.to_owned();
    for (scenario, times) in SCENARIOS {
        writeln!(text, "{scenario} = {:.0}", measure(scenario, times)?)?;
    }
    print!("{text}");
    Ok(std::fs::write(FIGURES, text)?)
}

/// Instructions per event: what the long run has more than the short one, by the events that it has more.
fn measure(scenario: &str, times: usize) -> Result<f64> {
    let [short, long] = RUNS;
    let instructions = count(scenario, long)?.saturating_sub(count(scenario, short)?);
    Ok(instructions as f64 / ((long - short) * times) as f64)
}

/// All instructions of a process that does nothing but this.
fn count(scenario: &str, events: usize) -> Result<u64> {
    let valgrind = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--work", scenario, &events.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run, is it installed? (apt-get install valgrind) {error}"))?;
    let said = String::from_utf8_lossy(&valgrind.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    match (valgrind.status.success(), collected) {
        (true, Some((_, number))) => Ok(number.trim().parse()?),
        _ => Err(format!("{scenario} under valgrind: {}\n{said}", valgrind.status).into()),
    }
}

fn work_alone(scenario: &str, events: &str) -> Result<()> {
    let events = events.parse()?;
    let (what, store) = scenario.rsplit_once('-').ok_or("what, on which store?")?;
    actix::System::new().block_on(async move {
        let gateway = InProcess::start(store).await?;
        work(&gateway, what, events).await?;
        gateway.end().await
    })
}

/// Each step waits for all that follows from it: so the sizes of all batches are the same in every run.
async fn work(gateway: &InProcess, what: &str, events: usize) -> Result<()> {
    let mut publisher = gateway.connect().await?;
    match what {
        "publish" => publish(&mut publisher, "long", events).await,
        "deliver-ack" => {
            // Both runs publish as much and take a different part of it.
            let [short, long] = RUNS;
            publish(&mut publisher, "short", short).await?;
            publish(&mut publisher, "long", long).await?;
            let topic = if events == short { "short" } else { "long" };
            deliver_and_ack(&mut gateway.connect().await?, topic, events).await
        }
        "fanout" => {
            let mut subscribers = Vec::new();
            for _ in 0..SUBSCRIBERS {
                let mut subscriber = gateway.connect().await?;
                subscriber.send(["{\"op\":\"SUBSCRIBE\",\"topic\":\"long\"}".to_owned()])?;
                subscriber.oks(1).await?;
                subscribers.push(subscriber);
            }
            for _ in 0..events / TOGETHER {
                publish(&mut publisher, "long", TOGETHER).await?;
                for subscriber in &mut subscribers {
                    for _ in 0..TOGETHER {
                        subscriber.next().await?;
                    }
                }
            }
            Ok(())
        }
        other => Err(format!("{other} is not known").into()),
    }
}

async fn publish(publisher: &mut Pipe, topic: &str, events: usize) -> Result<()> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let frame = |n| {
        format!(
            "{{\"op\":\"PUBLISH\",\"topic\":\"{topic}\",\"payload\":{{\"text\":\"{payload}\"}},\"opts\":{{\"key\":\"key-{}\"}},\"corr\":{n}}}",
            n % 100
        )
    };
    for first in (0..events).step_by(TOGETHER) {
        publisher.send((first..first + TOGETHER).map(frame))?;
        publisher.oks(TOGETHER).await?;
    }
    Ok(())
}

async fn deliver_and_ack(consumer: &mut Pipe, topic: &str, events: usize) -> Result<()> {
    let about = format!("\"topic\":\"{topic}\",\"group\":\"guard\"");
    consumer.send([format!(
        "{{\"op\":\"SUBSCRIBE\",{about},\"opts\":{{\"from\":\"earliest\"}}}}"
    )])?;
    consumer.oks(1).await?;
    let mut early = Vec::new();
    for _ in 0..events / ACKED_TOGETHER {
        let mut ids = std::mem::take(&mut early);
        while ids.len() < ACKED_TOGETHER {
            ids.push(id_of(&consumer.next().await?)?);
        }
        consumer.send([format!("{{\"op\":\"ACK\",{about},\"ids\":[{}]}}", ids.join(","))])?;
        loop {
            let frame = consumer.next().await?;
            if frame.starts_with(b"{\"op\":\"OK\"") {
                break;
            }
            early.push(id_of(&frame)?);
        }
    }
    Ok(())
}

/// The event's id, in its quotes.
fn id_of(frame: &[u8]) -> Result<String> {
    const BEFORE: &str = "\"event\":{\"id\":";
    let frame = std::str::from_utf8(frame)?;
    let start = frame.find(BEFORE).ok_or_else(|| format!("{frame} is no EVENT"))? + BEFORE.len();
    let id = frame[start..].split(',').next();
    Ok(id.ok_or("an EVENT without an id")?.to_owned())
}
