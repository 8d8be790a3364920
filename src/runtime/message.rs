//! What a program publishes.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Error;
use crate::domain::TopicName;
use crate::protocol::{Draft, ErrorCode, Failure, Request, parse};

/// An event to publish: a payload, and what else a publisher may say of it.
///
/// ```
/// use tidegate::Message;
/// # #[derive(serde::Serialize)] struct Order { amount: u32 }
///
/// // The id makes it safe to publish again: the topic has it once.
/// let typed = Message::json(&Order { amount: 3 }).id("order-1").key("customer-7").header("trace", "abc");
/// let raw = Message::raw(r#"{"amount": 3.0}"#).tag("imported");
/// # let _ = (typed, raw);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a message does nothing until it is published"]
pub struct Message {
    payload: Result<Box<RawValue>, String>,
    opts: Opts,
}

/// As in a PUBLISH.
#[derive(Debug, Clone, Default, Serialize)]
struct Opts {
    id: Option<String>,
    ts: Option<u64>,
    key: Option<String>,
    #[serde(serialize_with = "as_object")]
    headers: Vec<(String, String)>,
    tags: Vec<String>,
    caused_by: Vec<String>,
}

/// In their order; a doubled one is for the gateway to refuse.
fn as_object<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(headers.len()))?;
    for (name, value) in headers {
        object.serialize_entry(name, value)?;
    }
    object.end()
}

/// Where a published event stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The event's id.
    pub id: String,
    /// Its place in the topic.
    pub seq: u64,
}

impl Message {
    /// A payload that serde can write. Where it cannot, publishing it is an error.
    pub fn json<T: Serialize + ?Sized>(payload: &T) -> Message {
        Message {
            payload: to_raw_value(payload).map_err(|error| error.to_string()),
            opts: Opts::default(),
        }
    }

    /// A payload that is JSON already: its text is kept as it is, white space aside.
    pub fn raw(json: impl Into<String>) -> Message {
        Message {
            payload: RawValue::from_string(json.into()).map_err(|error| error.to_string()),
            opts: Opts::default(),
        }
    }

    /// The publisher's own id: published twice, the event is in the topic once.
    pub fn id(mut self, id: impl Into<String>) -> Message {
        self.opts.id = Some(id.into());
        self
    }

    /// What the event is about: decides its partition, and its order where a group is `ordered`.
    pub fn key(mut self, key: impl Into<String>) -> Message {
        self.opts.key = Some(key.into());
        self
    }

    /// When it happened, in epoch milliseconds; else it is the time at which it is published.
    pub fn ts(mut self, ts: u64) -> Message {
        self.opts.ts = Some(ts);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Message {
        self.opts.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a label.
    pub fn tag(mut self, tag: impl Into<String>) -> Message {
        self.opts.tags.push(tag.into());
        self
    }

    /// Adds an event that led to this one.
    pub fn caused_by(mut self, id: impl Into<String>) -> Message {
        self.opts.caused_by.push(id.into());
        self
    }
}

#[cfg(feature = "testing")]
impl Message {
    /// The same, with an id in any case.
    pub(crate) fn with_own_id(mut self) -> Message {
        self.opts.id.get_or_insert_with(|| uuid::Uuid::now_v7().to_string());
        self
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    op: &'static str,
    topic: &'a str,
    events: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    payload: &'a RawValue,
    opts: &'a Opts,
}

/// What comes from inside the process is checked as what comes over WebSocket is: by the same code.
pub(super) fn check(topic: &str, messages: &[Message], frame_bytes: usize) -> Result<(TopicName, Vec<Draft>), Error> {
    fn entry(message: &Message) -> Result<Entry<'_>, Error> {
        let Message { payload, opts } = message;
        let payload = payload.as_ref().map_err(|error| Error::BadPayload(error.clone()))?;
        Ok(Entry { payload, opts })
    }
    let events = messages.iter().map(entry).collect::<Result<Vec<_>, Error>>()?;
    let frame = Frame {
        op: "PUBLISH_BATCH",
        topic,
        events,
    };
    let frame = serde_json::to_string(&frame).map_err(|error| Error::BadPayload(error.to_string()))?;
    if frame.len() > frame_bytes {
        let msg = format!("{} bytes, and limits.frame_bytes is {frame_bytes}", frame.len());
        return Err(Failure::new(ErrorCode::TooLarge, msg).into());
    }
    match parse(&frame).request? {
        Request::PublishBatch { topic, drafts } => Ok((topic, drafts)),
        other => Err(Error::BadPayload(format!("not understood: {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_checked_like_a_frame() {
        let good = Message::raw(" {\"n\": 1.0} ")
            .id("i")
            .key("k")
            .header("h", "v")
            .tag("t")
            .caused_by("c")
            .ts(5);
        let (topic, drafts) = check("orders", &[good], 1_000).unwrap();
        let draft = &drafts[0];
        assert_eq!((topic.as_str(), &*draft.payload), ("orders", r#"{"n":1.0}"#));
        assert_eq!(
            (draft.id.as_deref(), draft.key.as_deref(), draft.ts),
            (Some("i"), Some("k"), Some(5))
        );
        assert_eq!(draft.headers, [("h".into(), "v".into())]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |message: Message| check("orders", &[message], 1_000).unwrap_err().to_string();
        assert!(refused(Message::raw("{")).starts_with("payload: "));
        assert!(refused(Message::json(&1).key("")).contains("opts.key"));
        assert!(refused(Message::json(&1).header("a", "1").header("a", "2")).contains("given twice"));
        assert!(refused(Message::json(&"x".repeat(1_000))).starts_with("too_large"));
        assert!(check("Orders", &[], 1_000).unwrap_err().to_string().contains("topic"));
        let twice = [Message::json(&1).id("a"), Message::json(&2).id("a")];
        assert!(
            check("orders", &twice, 1_000)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
