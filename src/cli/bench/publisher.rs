//! One publisher: a task that sends and a task that reads the answers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::client::{Client, FramesIn, Outgoing, no_frame};
use super::super::failure::Failure;
use super::figures::RefusalKind;
use super::pace::Pace;
use super::plan::Loop;
use super::wire::{FrameIn, Stamp, publish_frame};
use super::{Run, broken};

/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// The longest wait of events that were refused together, where each alone would come back sooner.
const TOGETHER_AGAIN: Duration = Duration::from_millis(50);

/// An event that was sent and not answered.
struct Pending {
    corr: u64,
    n: u64,
    t: u64,
}

/// What the two tasks share.
#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    /// Events to be sent again, and from when on.
    again: VecDeque<u64>,
    again_at: Option<Instant>,
    newest_seq: u64,
}

/// Publishes as the plan says, until its time is over and everything is answered.
pub(super) async fn publish(run: Rc<Run>, number: usize, client: Client) -> Result<(), Failure> {
    let (out, frames) = client.split();
    let state = Rc::new(RefCell::new(State::default()));
    let answered = Rc::new(Notify::new());
    let reading = Reader {
        run: run.clone(),
        number,
        state: state.clone(),
        answered: answered.clone(),
    };
    let mut reading = tokio::task::spawn_local(reading.read(frames));
    let mut sender = Sender {
        run: &run,
        number,
        out,
        state: &state,
        answered: &answered,
        corr: 0,
        n: 0,
    };
    let sending = async {
        match run.plan.sending {
            Loop::Closed(window) => sender.send_in_window(window).await?,
            Loop::Open(rate) => sender.send_at_rate(rate).await?,
        }
        let rest = async {
            while !state.borrow().pending.is_empty() {
                answered.notified().await;
            }
        };
        let in_time = timeout(LAST_ANSWERS, rest).await;
        in_time.map_err(|_| Failure::Failed("publishes were not answered".to_owned()))
    };
    tokio::select! {
        sent = sending => sent?,
        // Reading only ends where it failed.
        ended = &mut reading => return ended.map_err(broken)?,
    }
    reading.abort();
    sender.out.close().await;
    Ok(())
}

struct Sender<'a> {
    run: &'a Run,
    number: usize,
    out: Outgoing,
    state: &'a RefCell<State>,
    answered: &'a Notify,
    corr: u64,
    n: u64,
}

impl Sender<'_> {
    /// Closed loop: as soon as an event is answered the next one is sent.
    async fn send_in_window(&mut self, window: usize) -> Result<(), Failure> {
        let end = self.run.start + self.run.plan.publishing();
        loop {
            let over = Instant::now() >= end;
            while self.state.borrow().pending.len() < window
                && let Some(n) = self.next_number(over)
            {
                let now = self.run.now();
                self.feed(n, now).await?;
            }
            self.out.flush().await?;
            let (again_at, done) = {
                let state = self.state.borrow();
                (state.again_at, state.pending.is_empty() && state.again.is_empty())
            };
            if over && done {
                return Ok(());
            }
            let wake = again_at.unwrap_or(if over { end + LAST_ANSWERS } else { end });
            tokio::select! {
                () = self.answered.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// The next event to send: one that was refused, once its time has come, or else a new one.
    fn next_number(&mut self, over: bool) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        if state.again_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        state.again_at = None;
        if let Some(n) = state.again.pop_front() {
            return Some(n);
        }
        self.n += u64::from(!over);
        (!over).then(|| self.n - 1)
    }

    /// Open loop: every event is sent when it is due, whatever became of those before it.
    async fn send_at_rate(&mut self, rate: f64) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("no timer: {error}"));
        let mut pace = Pace::new().map_err(failed)?;
        let interval = 1e9 / rate;
        let offset = interval * self.number as f64 / self.run.plan.publishers as f64;
        let end = self.run.plan.publishing().as_nanos() as f64;
        loop {
            let due = offset + self.n as f64 * interval;
            if due >= end {
                return self.out.flush().await;
            }
            let (due, now) = (due as u64, self.run.now());
            if due <= now {
                self.n += 1;
                self.feed(self.n - 1, due).await?;
                continue;
            }
            self.out.flush().await?;
            let left = Duration::from_nanos(due.saturating_sub(self.run.now()));
            pace.wait(left).await.map_err(failed)?;
        }
    }

    async fn feed(&mut self, n: u64, t: u64) -> Result<(), Failure> {
        self.corr += 1;
        let corr = self.corr;
        let (run, p) = (self.run.plan.name.as_str(), self.number);
        let frame = publish_frame(&self.run.plan, corr, &Stamp { run, p, n, t });
        self.state.borrow_mut().pending.push_back(Pending { corr, n, t });
        self.out.feed(frame).await
    }
}

struct Reader {
    run: Rc<Run>,
    number: usize,
    state: Rc<RefCell<State>>,
    answered: Rc<Notify>,
}

impl Reader {
    async fn read(self, mut frames: FramesIn) -> Result<(), Failure> {
        loop {
            let text = frames.next().await?;
            let frame: FrameIn<'_> = serde_json::from_str(&text).map_err(|error| no_frame(&error))?;
            self.on_answer(&frame)?;
            self.answered.notify_one();
        }
    }

    fn on_answer(&self, frame: &FrameIn<'_>) -> Result<(), Failure> {
        let now = self.run.now();
        let mut state = self.state.borrow_mut();
        let mut figures = self.run.figures.borrow_mut();
        let at = state
            .pending
            .iter()
            .position(|pending| Some(pending.corr) == frame.corr);
        // Answers to publishes to one topic come in the order of the requests.
        figures.answers_out_of_order += u64::from(at.is_some_and(|at| at > 0));
        let Some(Pending { n, t, .. }) = at.and_then(|at| state.pending.remove(at)) else {
            let msg = frame.msg.as_deref().unwrap_or("an answer to nothing");
            return Err(Failure::Failed(msg.to_owned()));
        };
        if frame.op == "OK" {
            if frame.seq.is_none_or(|seq| seq <= state.newest_seq) {
                figures.answers_out_of_order += 1;
            }
            state.newest_seq = frame.seq.unwrap_or(state.newest_seq);
            if let Some(confirmed) = self.run.confirmed.borrow_mut().get_mut(self.number) {
                confirmed.add(n);
            }
            figures.confirmed.add(now, 1);
            figures.measured.confirmed += u64::from(self.run.plan.measures(now));
            if self.run.plan.measures(t) {
                figures.confirm.saturating_record(now.saturating_sub(t));
            }
            return Ok(());
        }
        let kind = RefusalKind {
            code: frame.code.unwrap_or_default().to_owned(),
            msg: frame.msg.clone().unwrap_or_default(),
        };
        match (kind.code.as_str(), self.run.plan.sending) {
            // These were not published for certain. In an open loop there is no second time.
            ("rate_limited" | "overloaded", Loop::Closed(_)) => {
                state.again.push_back(n);
                let wait = Duration::from_millis(frame.retry_after_ms.unwrap_or(100));
                // Every one of them needs a token of its own.
                let all = wait.saturating_mul(state.again.len() as u32).min(TOGETHER_AGAIN);
                let at = Instant::now() + wait.max(all);
                state.again_at = Some(state.again_at.map_or(at, |known| known.max(at)));
            }
            ("rate_limited" | "overloaded", Loop::Open(_)) => {}
            ("store_unavailable" | "publish_failed", _) => figures.unsure += 1,
            _ => return Err(Failure::Failed(format!("{}: {}", kind.code, kind.msg))),
        }
        *figures.refused.entry(kind).or_default() += 1;
        Ok(())
    }
}
