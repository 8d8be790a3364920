//! What came of a run: for people and for programs.

use std::fmt::Write as _;
use std::rc::Rc;

use hdrhistogram::Histogram;
use indicatif::HumanCount;
use serde_json::{Value, json};

use super::Run;
use super::figures::Series;
use super::plan::{IN_FLIGHT, Loop};

/// The share of a core from which on the benchmark itself may have been the limit.
const CLIENT_BUSY: f64 = 0.9;
/// The percentiles that are shown.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A run that is over.
pub(super) struct Report {
    run: Rc<Run>,
    missing: u64,
    doubled: u64,
    out_of_order: u64,
    /// The share of a core that the benchmark itself took.
    cpu: f64,
}

impl Report {
    pub(super) fn new(run: &Rc<Run>, cpu: f64) -> Report {
        let sum = |count: fn(&super::GroupLedger) -> u64| run.groups.iter().map(|group| count(&group.borrow())).sum();
        let doubled = sum(|group| group.doubled);
        let out_of_order: u64 = sum(|group| group.out_of_order);
        Report {
            missing: run.missing(),
            doubled,
            out_of_order: out_of_order + run.figures.borrow().answers_out_of_order,
            run: run.clone(),
            cpu,
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    /// Whether everything arrived, once and in order.
    pub(super) fn is_sound(&self) -> bool {
        let figures = self.run.figures.borrow();
        let failed = figures.unsure + figures.acks_refused;
        self.missing + self.doubled + self.out_of_order + failed == 0
    }

    /// What was done, in a line.
    pub(super) fn title(&self) -> String {
        let plan = &self.run.plan;
        let publishers = counted(plan.publishers, "publisher");
        let sending = match plan.sending {
            Loop::Closed(window) => format!("{publishers}, window {window}"),
            Loop::Open(rate) => format!("{publishers}, {:.0} events a second", rate * plan.publishers as f64),
        };
        let consuming = match plan.groups.len() {
            0 => "nobody consumes".to_owned(),
            groups => format!(
                "{} of {}",
                counted(groups, "group"),
                counted(plan.consumers, "consumer")
            ),
        };
        format!(
            "{sending}; {consuming}; payloads of {} bytes; {:.0?}",
            plan.payload, plan.duration
        )
    }

    pub(super) fn to_text(&self) -> String {
        let figures = self.run.figures.borrow();
        let seconds = self.run.plan.duration.as_secs_f64();
        let rate = |events: u64| HumanCount((events as f64 / seconds) as u64).to_string();
        let mut text = format!("{}\ntopic {}\n\n", self.title(), self.run.plan.topic);
        // Writing into memory cannot fail.
        let _ = write!(text, "{:<11}{:>10}", "", "events/s");
        for (name, _) in QUANTILES {
            let _ = write!(text, "{name:>9}");
        }
        let _ = writeln!(text, "{:>9}{:>9}  ms", "max", "avg");
        let rows = [
            ("confirmed", figures.measured.confirmed, Some(&figures.confirm)),
            ("delivered", figures.measured.delivered, Some(&figures.deliver)),
            ("acked", figures.measured.acked, None),
        ];
        let consumed = if self.run.groups.is_empty() { 1 } else { rows.len() };
        for (name, events, latency) in rows.into_iter().take(consumed) {
            let _ = write!(text, "{name:<11}{:>10}", rate(events));
            if let Some(latency) = latency {
                let values = QUANTILES.iter().map(|(_, at)| latency.value_at_quantile(*at) as f64);
                for nanos in values.chain([latency.max() as f64, latency.mean()]) {
                    let _ = write!(text, "{:>9}", short_ms(nanos));
                }
            }
            text.push('\n');
        }
        let _ = writeln!(text, "\n{}", self.verdict());
        for note in self.notes() {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    fn verdict(&self) -> String {
        let figures = self.run.figures.borrow();
        let mut text = format!(
            "{} confirmed: {} missing, {} doubled, {} out of order",
            HumanCount(figures.confirmed.total()),
            self.missing,
            self.doubled,
            self.out_of_order
        );
        for (count, what) in [
            (figures.unsure, "publishes failed and may have happened"),
            (figures.acks_refused, "acks were refused"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        text
    }

    /// What has to be known to read the figures.
    fn notes(&self) -> Vec<String> {
        let figures = self.run.figures.borrow();
        let mut notes = Vec::new();
        let limited = figures.refused.iter().filter(|(kind, _)| kind.code == "rate_limited");
        for (kind, count) in limited {
            notes.push(format!(
                "{count} publishes were refused ({}): this measures the gateway's limits, not its speed. They are 200 \
                 events a second for a connection and 1,000 for a topic unless configured; serve it with \
                 `--set limits.connection=off --set limits.topic=off` to lift them",
                kind.msg
            ));
        }
        for (kind, count) in figures.refused.iter().filter(|(kind, _)| kind.code != "rate_limited") {
            notes.push(format!("{count} publishes were refused: {}: {}", kind.code, kind.msg));
        }
        let in_flight = IN_FLIGHT * (self.run.plan.groups.len() * self.run.plan.consumers) as u64;
        if figures.behind > in_flight {
            notes.push(format!(
                "consumers were {} events behind when publishing ended. A connection is given at most 200 a second unless \
                 `limits.push` or `limits.connection` say otherwise; without limits they were slower than the publishers",
                HumanCount(figures.behind)
            ));
        }
        if self.cpu > CLIENT_BUSY {
            notes.push(format!(
                "this command itself took {:.0}% of a core and has no more than one: the gateway may be faster",
                self.cpu * 100.0
            ));
        }
        if figures.foreign > 0 {
            notes.push(format!("{} events of others were in the topic", figures.foreign));
        }
        notes
    }

    pub(super) fn to_json(&self) -> String {
        let (figures, plan) = (self.run.figures.borrow(), &self.run.plan);
        let seconds = plan.duration.as_secs_f64();
        let kind = |events: u64, latency: Option<&Histogram<u64>>, series: &Series| {
            json!({
                "events": events,
                "per_second": rounded(events as f64 / seconds),
                "latency_ms": latency.filter(|latency| !latency.is_empty()).map(latency_json),
                "over_time": series.per_second().map(|(at, rate)| json!([rounded(at), rounded(rate)])).collect::<Vec<_>>(),
            })
        };
        let (window, rate) = match plan.sending {
            Loop::Closed(window) => (Some(window), None),
            Loop::Open(rate) => (None, Some(rounded(rate * plan.publishers as f64))),
        };
        let refused = figures.refused.iter();
        let refused = refused.map(|(kind, count)| json!({"code": kind.code, "msg": kind.msg, "count": count}));
        let report = json!({
            "topic": plan.topic.as_str(),
            "publishers": plan.publishers, "groups": plan.groups.len(), "consumers": plan.consumers,
            "window": window, "rate": rate, "payload": plan.payload,
            "seconds": seconds, "warm_up_seconds": plan.warm_up.as_secs_f64(),
            "confirmed": kind(figures.measured.confirmed, Some(&figures.confirm), &figures.confirmed),
            "delivered": kind(figures.measured.delivered, Some(&figures.deliver), &figures.delivered),
            "acked": kind(figures.measured.acked, None, &figures.acked),
            "checks": {
                "confirmed": figures.confirmed.total(), "missing": self.missing, "doubled": self.doubled,
                "out_of_order": self.out_of_order, "unsure": figures.unsure, "acks_refused": figures.acks_refused,
            },
            "refused": refused.collect::<Vec<_>>(),
            "behind": figures.behind, "foreign": figures.foreign, "client_cpu": rounded(self.cpu),
            "notes": self.notes(),
        });
        format!("{report}\n")
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn latency_json(latency: &Histogram<u64>) -> Value {
    let at = |quantile| ms(latency.value_at_quantile(quantile) as f64);
    json!({
        "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999),
        "max": ms(latency.max() as f64), "avg": ms(latency.mean()),
    })
}

/// Milliseconds with three digits after the point.
fn ms(nanos: f64) -> f64 {
    (nanos / 1e3).round() / 1e3
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Milliseconds with about three digits that count.
fn short_ms(nanos: f64) -> String {
    let ms = nanos / 1e6;
    let digits = if ms < 1.0 {
        3
    } else if ms < 100.0 {
        2
    } else {
        0
    };
    format!("{ms:.digits$}")
}
