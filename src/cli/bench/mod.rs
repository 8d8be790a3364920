//! `tidegate bench`: puts load on a running gateway, measures what it makes of it, and checks that all of it arrives, once
//! and in order.
//!
//! All connections are served by one thread, so that their stamps come from one clock; a note says where that thread was
//! the limit.

mod consumer;
mod figures;
mod ledger;
mod pace;
mod plan;
mod plot;
mod publisher;
mod report;
#[cfg(test)]
mod tests;
mod wire;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::figures::Figures;
use self::ledger::{Bits, GroupLedger};
pub(super) use self::plan::BenchArgs;
use self::plan::{IN_FLIGHT, Plan};
use super::client::Client;
use super::failure::Failure;
use super::frames::Request;
use super::output::write_out;
use crate::domain::StartFrom;

/// How often the progress is shown, and the end of the run is looked for.
const TICK: Duration = Duration::from_millis(50);

/// What the tasks of a run have in common. They run on one thread.
struct Run {
    plan: Plan,
    start: Instant,
    figures: RefCell<Figures>,
    /// What each publisher was answered `OK` to.
    confirmed: RefCell<Vec<Bits>>,
    groups: Vec<RefCell<GroupLedger>>,
    /// Set when nothing more will come.
    over: tokio::sync::watch::Sender<bool>,
}

impl Run {
    /// Nanoseconds since the beginning: what events are stamped with.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Confirmed events that no member of some group was given.
    fn missing(&self) -> u64 {
        let confirmed = self.confirmed.borrow();
        let groups = self.groups.iter();
        groups.map(|group| group.borrow().missing(&confirmed)).sum()
    }
}

/// Runs the load and says what came of it. What is wrong with the deliveries makes it fail.
pub(super) async fn run(args: &BenchArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let (run, cpu) = LocalSet::new().run_until(drive(args, plan)).await?;
    let report = report::Report::new(&run, cpu);
    if let Some(file) = &args.plot {
        plot::draw(&report, file)?;
    }
    let text = if args.client.json {
        report.to_json()
    } else {
        report.to_text()
    };
    write_out(out, &text)?;
    if report.is_sound() {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

/// Connects everybody, then publishes and waits until everything has arrived. The share of a core that this took, too.
async fn drive(args: &BenchArgs, plan: Plan) -> Result<(Rc<Run>, f64), Failure> {
    let mut publishing = Vec::new();
    for _ in 0..plan.publishers {
        publishing.push(Client::connect(&args.client).await?);
    }
    let mut consuming = Vec::new();
    for (number, group) in plan.groups.iter().enumerate() {
        for _ in 0..plan.consumers {
            let mut client = Client::connect(&args.client).await?;
            let subscribe = Request::subscribe(&plan.topic, Some(group), &StartFrom::Latest, Some(IN_FLIGHT));
            client.request(&subscribe).await??;
            consuming.push((number, client));
        }
    }
    let run = Rc::new(Run {
        figures: RefCell::new(Figures::new(&plan)?),
        confirmed: RefCell::new(vec![Bits::default(); plan.publishers]),
        groups: plan
            .groups
            .iter()
            .map(|_| RefCell::new(GroupLedger::new(plan.publishers)))
            .collect(),
        over: tokio::sync::watch::Sender::new(false),
        start: Instant::now(),
        plan,
    });
    let cpu_before = cpu_seconds();
    let mut consumers = JoinSet::new();
    for (group, client) in consuming {
        consumers.spawn_local(consumer::consume(run.clone(), group, client));
    }
    let mut publishers = JoinSet::new();
    for (number, client) in publishing.into_iter().enumerate() {
        publishers.spawn_local(publisher::publish(run.clone(), number, client));
    }
    let bar = progress_bar(&run.plan);
    watch(&run, &bar, &mut publishers, &mut consumers).await?;
    let cpu = (cpu_seconds() - cpu_before) / run.start.elapsed().as_secs_f64();
    run.over.send_replace(true);
    while let Some(ended) = consumers.join_next().await {
        ended.map_err(broken)??;
    }
    bar.finish_and_clear();
    Ok((run, cpu))
}

/// Waits until the publishers are done and everything has arrived, or until nothing comes any more.
async fn watch(
    run: &Run,
    bar: &ProgressBar,
    publishers: &mut JoinSet<Result<(), Failure>>,
    consumers: &mut JoinSet<Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut delivered, mut since) = (0, Instant::now());
    loop {
        tokio::select! {
            Some(ended) = publishers.join_next() => {
                ended.map_err(broken)??;
                if publishers.is_empty() {
                    let behind = run.missing();
                    run.figures.borrow_mut().behind = behind;
                    since = Instant::now();
                }
            }
            // A consumer only ends by itself where it failed.
            Some(ended) = consumers.join_next() => ended.map_err(broken)??,
            _ = ticks.tick() => {
                show(run, bar);
                let now = run.figures.borrow().delivered.total();
                if now != delivered {
                    (delivered, since) = (now, Instant::now());
                }
                if publishers.is_empty() && (run.missing() == 0 || since.elapsed() > run.plan.stall) {
                    return Ok(());
                }
            }
        }
    }
}

fn broken(error: tokio::task::JoinError) -> Failure {
    Failure::Failed(format!("the benchmark broke down: {error}"))
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let length = u64::try_from(plan.publishing().as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(length);
    // The template is a constant of ours: were it wrong, the bar would look plain.
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {elapsed} of {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(run: &Run, bar: &ProgressBar) {
    let elapsed = run.start.elapsed();
    bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    let figures = run.figures.borrow();
    let rate = |series: &figures::Series| HumanCount(series.newest_per_second(elapsed) as u64);
    bar.set_message(format!(
        "{:.0?}: {} confirmed a second, {} delivered",
        run.plan.publishing(),
        rate(&figures.confirmed),
        rate(&figures.delivered)
    ));
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
