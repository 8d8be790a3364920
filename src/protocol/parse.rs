//! From the text of a frame to a request, or to an error that says what is wrong with it.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::code::ErrorCode;
use super::draft::Draft;
use super::field::{Fields, Wrong, fields, unknown};
use super::limits::{BATCH, CORR, DELAY_MS, IDS, NESTING, REASON};
use super::opts::SubscribeOpts;
use super::reply::{Corr, Failure};
use super::request::{Frame, Op, Request};
use super::scan::{Flaw, check, check_within, minify};
use super::value::{bounded_text, id, integer, list, shown, text};
use super::walk::walk_members;
use crate::domain::{GroupName, TopicName};

fields! {
    /// All fields that a request of any kind can have.
    FrameFields {
        op: "op",
        corr: "corr",
        topic: "topic",
        group: "group",
        payload: "payload",
        opts: "opts",
        events: "events",
        token: "token",
        id: "id",
        ids: "ids",
        reason: "reason",
        delay_ms: "delay_ms",
        extend_ms: "extend_ms",
    }
}

/// Reads a text frame. Any text gives an answer, and takes memory in proportion to its length at most.
///
/// ```
/// use tidegate::protocol::{ErrorCode, Request, parse};
///
/// let frame = parse(r#"{"op": "PUBLISH", "topic": "orders", "payload": {"total": 1.0}, "corr": 7}"#);
/// let Ok(Request::Publish { topic, draft }) = frame.request else { panic!() };
/// assert_eq!(topic.as_str(), "orders");
/// assert_eq!(&*draft.payload, r#"{"total":1.0}"#);
///
/// let frame = parse(r#"{"op": "ACK", "topic": "orders", "group": "billing", "id": 5, "corr": 8}"#);
/// assert_eq!(frame.corr.unwrap().as_str(), "8");
/// let failure = frame.request.unwrap_err();
/// assert_eq!((failure.code, &*failure.msg), (ErrorCode::BadRequest, "id: expected a string"));
/// ```
pub fn parse(text: &str) -> Frame {
    let flaw = check(text);
    let mut fields = FrameFields::none_given();
    let mut doubled = Ok(());
    // Goes on after a doubled field, since `corr` may come later.
    let walked = walk_members(text, |name, value| {
        if let Some(field) = fields.find(name) {
            doubled = doubled.and(field.give(value));
        }
        Ok(())
    });
    let (corr, corr_read) = match fields.corr.optional(read_corr) {
        Ok(corr) => (corr, Ok(())),
        Err(wrong) => (None, Err(wrong)),
    };
    let (json, object) = match walked {
        // Not an object, so nothing of it was read yet: is it JSON at all?
        Err(error) if error.is_data() => (serde_json::from_str::<IgnoredAny>(text).map(drop), Err(not_an_object())),
        walked => (walked, Ok(())),
    };
    let request = json
        .map_err(|error| Failure::new(ErrorCode::BadJson, format!("not JSON: {error}")))
        .and(flaw.map_err(Failure::from))
        .and(object)
        .and(doubled.map_err(|doubled| Wrong::from(doubled).into()))
        .and(corr_read.map_err(Failure::from))
        .and_then(|()| fields.request());
    Frame { corr, request }
}

/// Reads a payload that comes alone, as over HTTP: what a frame could carry, and no deeper.
///
/// ```
/// use tidegate::protocol::parse_payload;
///
/// assert_eq!(&*parse_payload("{ \"total\": 1.0 }").unwrap(), r#"{"total":1.0}"#);
/// assert!(parse_payload("{total: 1}").is_err());
/// ```
pub fn parse_payload(text: &str) -> Result<Box<str>, Failure> {
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| Failure::new(ErrorCode::BadJson, format!("not JSON: {error}")))?;
    check_within(text, NESTING - 1)?;
    Ok(minify(text))
}

impl FrameFields<'_> {
    fn request(&self) -> Result<Request, Failure> {
        match self.op()? {
            Op::Auth => Ok(Request::Auth {
                token: self.token.optional(text)?.map(Box::from),
            }),
            Op::Publish => Ok(Request::Publish {
                topic: self.topic()?,
                draft: Draft::read(self.payload, self.opts)?,
            }),
            Op::PublishBatch => Ok(Request::PublishBatch {
                topic: self.topic()?,
                drafts: self.events.required(batch)?,
            }),
            Op::Subscribe => Ok(Request::Subscribe {
                topic: self.topic()?,
                group: self.group.optional(group)?,
                opts: self.opts.optional(SubscribeOpts::read)?.unwrap_or_default(),
            }),
            Op::Unsubscribe => Ok(Request::Unsubscribe {
                topic: self.topic()?,
                group: self.group.optional(group)?,
            }),
            Op::Ack => Ok(Request::Ack {
                topic: self.topic()?,
                group: self.group.required(group)?,
                ids: self.id_or_ids()?,
            }),
            Op::Nack => Ok(Request::Nack {
                topic: self.topic()?,
                group: self.group.required(group)?,
                ids: self.id_or_ids()?,
                reason: self.reason.optional(|raw| bounded_text(raw, 0..=REASON))?,
                delay_ms: self.delay_ms.optional(|raw| integer(raw, 0..=DELAY_MS))?,
            }),
            Op::Modack => Ok(Request::Modack {
                topic: self.topic()?,
                group: self.group.required(group)?,
                id: self.id.required(id)?,
                extend_ms: self.extend_ms.required(|raw| integer(raw, 0..=DELAY_MS))?,
            }),
            Op::Pause => Ok(Request::Pause {
                topic: self.topic()?,
                group: self.group.optional(group)?,
            }),
            Op::Resume => Ok(Request::Resume {
                topic: self.topic()?,
                group: self.group.optional(group)?,
            }),
        }
    }

    fn op(&self) -> Result<Op, Wrong> {
        let given = self.op.required(text)?;
        let found = Op::ALL.iter().find(|op| op.as_str() == given);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Op::ALL.iter().map(|op| op.as_str()).collect();
            self.op
                .wrong(format!("`{}` is {}", shown(&given), unknown(&given, &names)))
        })
    }

    fn topic(&self) -> Result<TopicName, Failure> {
        let name = self.topic.required(text)?;
        name.parse::<TopicName>()
            .map_err(|bad| Failure::new(ErrorCode::BadTopic, format!("topic: {bad}")))
    }

    fn id_or_ids(&self) -> Result<Vec<Box<str>>, Wrong> {
        match (self.id.optional(id)?, self.ids.optional(|raw| list(raw, 1..=IDS, id))?) {
            (Some(one), None) => Ok(vec![one]),
            (None, Some(several)) => Ok(several),
            _ => Err(self.id.wrong("expected either `id` or `ids`")),
        }
    }
}

fn group(raw: &RawValue) -> Result<GroupName, Wrong> {
    text(raw)?
        .parse()
        .map_err(|bad: crate::domain::BadName| Wrong::new(bad.0))
}

fn batch(raw: &RawValue) -> Result<Vec<Draft>, Wrong> {
    let drafts = list(raw, 1..=BATCH, Draft::from_batch_entry)?;
    let mut ids = HashSet::new();
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(id) = draft.id.as_deref()
            && !ids.insert(id)
        {
            let problem = format!("`{id}` stands twice in the batch");
            return Err(Wrong::new(problem).inside(&format!("[{at}].opts.id")));
        }
    }
    Ok(drafts)
}

fn read_corr(raw: &RawValue) -> Result<Corr, Wrong> {
    let json = raw.get();
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    // A string must be one that can be decoded: it is sent back as it is.
    if json.len() > CORR || !(is_number || text(raw).is_ok()) {
        let problem = format!("expected a string or a number of at most {CORR} bytes");
        return Err(Wrong::new(problem));
    }
    Ok(Corr::from_json(json))
}

fn not_an_object() -> Failure {
    Failure::new(ErrorCode::BadRequest, "a frame is one JSON object with `op`")
}

impl From<Flaw> for Failure {
    fn from(flaw: Flaw) -> Failure {
        match flaw {
            Flaw::LoneSurrogate => Failure::new(ErrorCode::BadJson, "not JSON: a string has half of a surrogate pair"),
            Flaw::TooDeep => {
                let msg = format!("nesting: expected at most {NESTING} levels in a frame");
                Failure::new(ErrorCode::BadRequest, msg)
            }
        }
    }
}
