//! Frames as a benchmark needs them: read without copies, and events that say where and when they come from.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::plan::Plan;

/// A frame from the gateway.
#[derive(Deserialize)]
pub(super) struct FrameIn<'a> {
    pub(super) op: &'a str,
    pub(super) corr: Option<u64>,
    pub(super) seq: Option<u64>,
    pub(super) code: Option<&'a str>,
    pub(super) msg: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
    #[serde(borrow)]
    pub(super) event: Option<EventIn<'a>>,
    pub(super) ctx: Option<Context>,
}

#[derive(Deserialize)]
pub(super) struct EventIn<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    pub(super) seq: u64,
    pub(super) partition: u32,
    #[serde(borrow)]
    pub(super) payload: &'a RawValue,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub(super) attempt: u32,
}

/// What an event of a run says of itself.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Stamp<'a> {
    pub(super) run: &'a str,
    /// Which publisher.
    pub(super) p: usize,
    /// The publisher's own counter.
    pub(super) n: u64,
    /// When it was sent, or was due: nanoseconds of the run.
    pub(super) t: u64,
}

impl<'a> Stamp<'a> {
    /// The stamp of an event, where the run has such a one.
    pub(super) fn of(payload: &'a RawValue, plan: &Plan) -> Option<Stamp<'a>> {
        let stamp: Stamp<'a> = serde_json::from_str(payload.get()).ok()?;
        (stamp.run == plan.name && stamp.p < plan.publishers).then_some(stamp)
    }
}

/// The frame that publishes one event, its payload filled up to the plan's size.
pub(super) fn publish_frame(plan: &Plan, corr: u64, stamp: &Stamp<'_>) -> String {
    let Stamp { run, p, n, t } = stamp;
    let mut frame = String::with_capacity(plan.payload + plan.topic.as_str().len() + 96);
    // Writing into memory cannot fail.
    let _ = write!(
        frame,
        "{{\"op\":\"PUBLISH\",\"corr\":{corr},\"topic\":\"{}\",\"payload\":",
        plan.topic
    );
    let start = frame.len();
    let _ = write!(frame, "{{\"run\":\"{run}\",\"p\":{p},\"n\":{n},\"t\":{t},\"pad\":\"");
    const END: &str = "\"}";
    let missing = (start + plan.payload).saturating_sub(frame.len() + END.len());
    frame.extend(std::iter::repeat_n('x', missing));
    frame.push_str(END);
    frame.push('}');
    frame
}
