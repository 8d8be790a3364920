//! One member of a group: a task that reads events and a task that acks what has come, all of it in one frame.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::client::{Client, FramesIn, Outgoing, no_frame};
use super::super::failure::Failure;
use super::super::frames::Request;
use super::ledger::Order;
use super::wire::{FrameIn, Stamp};
use super::{Run, broken};

/// How long the last acks may take.
const LAST_ACKS: Duration = Duration::from_secs(10);

/// What the two tasks share.
#[derive(Default)]
struct State {
    /// Events that came and are not acked.
    ids: Vec<String>,
    /// How many events each ACK without an answer has.
    acking: VecDeque<u64>,
}

/// Consumes until the run is over and everything is acked.
pub(super) async fn consume(run: Rc<Run>, group: usize, client: Client) -> Result<(), Failure> {
    let (out, frames) = client.split();
    let state = Rc::new(RefCell::new(State::default()));
    let news = Rc::new(Notify::new());
    let reader = Reader {
        run: run.clone(),
        group,
        state: state.clone(),
        news: news.clone(),
    };
    let mut reading = tokio::task::spawn_local(reader.read(frames));
    let acking = ack(&run, group, out, &state, &news);
    tokio::select! {
        done = acking => done?,
        // Reading only ends where it failed.
        ended = &mut reading => return ended.map_err(broken)?,
    }
    reading.abort();
    Ok(())
}

async fn ack(run: &Run, group: usize, mut out: Outgoing, state: &RefCell<State>, news: &Notify) -> Result<(), Failure> {
    let (topic, group) = (run.plan.topic.as_str(), run.plan.groups[group].as_str());
    let unwritable = |error: serde_json::Error| Failure::Failed(error.to_string());
    let mut over = run.over.subscribe();
    let (mut corr, mut is_over) = (0, false);
    loop {
        let ids = std::mem::take(&mut state.borrow_mut().ids);
        if !ids.is_empty() {
            corr += 1;
            let ids = ids.as_slice();
            let frame = Request::Ack { topic, group, ids }.to_text(corr).map_err(unwritable)?;
            state.borrow_mut().acking.push_back(ids.len() as u64);
            out.feed(frame).await?;
            out.flush().await?;
        }
        if is_over && state.borrow().acking.is_empty() {
            break;
        }
        tokio::select! {
            () = news.notified() => {}
            // The sender lives as long as the run.
            _ = over.wait_for(|over| *over), if !is_over => is_over = true,
            () = sleep(LAST_ACKS), if is_over => {
                return Err(Failure::Failed("acks were not answered".to_owned()));
            }
        }
    }
    let group = Some(group);
    let leave = Request::Unsubscribe { topic, group }
        .to_text(corr + 1)
        .map_err(unwritable)?;
    out.feed(leave).await?;
    out.flush().await?;
    out.close().await;
    Ok(())
}

struct Reader {
    run: Rc<Run>,
    group: usize,
    state: Rc<RefCell<State>>,
    news: Rc<Notify>,
}

impl Reader {
    async fn read(self, mut frames: FramesIn) -> Result<(), Failure> {
        let mut order = Order::default();
        loop {
            let text = frames.next().await?;
            let frame: FrameIn<'_> = serde_json::from_str(&text).map_err(|error| no_frame(&error))?;
            match frame.op {
                "EVENT" => self.on_event(frame, &mut order),
                "OK" | "ERR" => self.on_answer(&frame)?,
                _ => {}
            }
            self.news.notify_one();
        }
    }

    fn on_event(&self, frame: FrameIn<'_>, order: &mut Order) {
        let Some(event) = frame.event else { return };
        let now = self.run.now();
        let mut figures = self.run.figures.borrow_mut();
        match Stamp::of(event.payload, &self.run.plan) {
            Some(stamp) => {
                let mut group = self.run.groups[self.group].borrow_mut();
                group.note(stamp.p, stamp.n);
                let is_first = frame.ctx.is_none_or(|ctx| ctx.attempt == 1);
                if is_first && !order.note(event.partition, event.seq) {
                    group.out_of_order += 1;
                }
                figures.delivered.add(now, 1);
                figures.measured.delivered += u64::from(self.run.plan.measures(now));
                if self.run.plan.measures(stamp.t) {
                    figures.deliver.saturating_record(now.saturating_sub(stamp.t));
                }
            }
            None => figures.foreign += 1,
        }
        self.state.borrow_mut().ids.push(event.id.into_owned());
    }

    fn on_answer(&self, frame: &FrameIn<'_>) -> Result<(), Failure> {
        let Some(events) = self.state.borrow_mut().acking.pop_front() else {
            let msg = frame.msg.as_deref().unwrap_or("an answer to nothing");
            return Err(Failure::Failed(msg.to_owned()));
        };
        let now = self.run.now();
        let mut figures = self.run.figures.borrow_mut();
        if frame.op == "OK" {
            figures.acked.add(now, events);
            figures.measured.acked += if self.run.plan.measures(now) { events } else { 0 };
        } else {
            figures.acks_refused += events;
        }
        Ok(())
    }
}
