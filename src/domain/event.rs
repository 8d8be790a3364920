//! Events: as a publisher gives them, and as they stand in a topic's log.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;

use super::TopicName;

/// The latest `ts` an event may carry: the last millisecond of the year 9999.
pub const TS_MAX: u64 = 253_402_300_799_999;

/// An event that was checked and has its id and partition, but no place in the log yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Unique in its topic.
    pub id: Box<str>,
    /// Whether the publisher chose the id. Only then can the topic have it already: ids that the gateway makes are new.
    pub id_given: bool,
    /// Epoch milliseconds, the publisher's or the gateway's.
    pub ts: u64,
    /// What the event is about; decides its partition.
    pub key: Option<Box<str>>,
    /// In the publisher's order.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The payload's JSON text without insignificant white space, so without line breaks.
    pub payload: Box<str>,
    /// Free labels, which filters can ask for.
    pub tags: Vec<Box<str>>,
    /// The ids of the events that led to this one.
    pub caused_by: Vec<Box<str>>,
    /// The publisher's session, where it gave one.
    pub sid: Option<Box<str>>,
}

impl NewEvent {
    /// What the event takes in memory and on the wire, roughly: for bounds on queues and batches.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 6)
            .sum();
        let tags: usize = self.tags.iter().chain(&self.caused_by).map(|text| text.len() + 3).sum();
        let key = self.key.as_ref().map_or(0, |key| key.len());
        self.payload.len() + self.id.len() + key + headers + tags + 160
    }
}

/// An event in its topic's log. Its JSON is made once, here, and shared by everyone it is sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The topic's own counter, from 1, in commit order.
    pub seq: u64,
    /// Unique in its topic.
    pub id: Box<str>,
    /// Epoch milliseconds, the publisher's or the gateway's.
    pub ts: u64,
    /// When it came, in epoch milliseconds by a clock that never steps back: what retention by age counts from.
    pub at: u64,
    /// What the event is about.
    pub key: Option<Box<str>>,
    /// The partition it belongs to.
    pub partition: u32,
    /// The event is the `ordinal`-th of its partition, from 1: how a group's lag is counted without reading.
    pub ordinal: u64,
    /// The whole event as JSON, without line breaks.
    pub json: Bytes,
    /// Where the payload stands in `json`.
    pub payload: Range<usize>,
}

/// Where a new event comes to stand: what only the store can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// See [`Event::seq`].
    pub seq: u64,
    /// See [`Event::at`].
    pub at: u64,
    /// See [`Event::partition`].
    pub partition: u32,
    /// See [`Event::ordinal`].
    pub ordinal: u64,
}

/// The parts of an event that filters look at and that are not kept apart from its JSON.
#[derive(Debug, Default, Deserialize)]
pub struct Labels {
    /// String to string.
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, String>,
    /// Free labels.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Event {
    /// Gives a new event its place in the log.
    pub fn place(topic: &TopicName, new: &NewEvent, place: Place) -> Event {
        let Place {
            seq,
            at,
            partition,
            ordinal,
        } = place;
        let mut json = Vec::with_capacity(new.size() + topic.as_str().len());
        json.extend_from_slice(b"{\"id\":");
        push_string(&mut json, &new.id);
        push_number(&mut json, b",\"seq\":", seq);
        push_number(&mut json, b",\"ts\":", new.ts);
        // A topic's name has nothing that JSON escapes.
        json.extend_from_slice(b",\"topic\":\"");
        json.extend_from_slice(topic.as_str().as_bytes());
        json.push(b'"');
        if let Some(key) = &new.key {
            json.extend_from_slice(b",\"key\":");
            push_string(&mut json, key);
        }
        push_number(&mut json, b",\"partition\":", u64::from(partition));
        if !new.headers.is_empty() {
            json.extend_from_slice(b",\"headers\":{");
            for (at, (name, value)) in new.headers.iter().enumerate() {
                if at > 0 {
                    json.push(b',');
                }
                push_string(&mut json, name);
                json.push(b':');
                push_string(&mut json, value);
            }
            json.push(b'}');
        }
        json.extend_from_slice(b",\"payload\":");
        let start = json.len();
        json.extend_from_slice(new.payload.as_bytes());
        let payload = start..json.len();
        push_list(&mut json, b",\"tags\":[", &new.tags);
        push_list(&mut json, b",\"caused_by\":[", &new.caused_by);
        if let Some(sid) = &new.sid {
            json.extend_from_slice(b",\"sid\":");
            push_string(&mut json, sid);
        }
        json.push(b'}');
        Event {
            seq,
            id: new.id.clone(),
            ts: new.ts,
            at,
            key: new.key.clone(),
            partition,
            ordinal,
            json: json.into(),
            payload,
        }
    }

    /// The payload's JSON text.
    pub fn payload(&self) -> &[u8] {
        self.json.get(self.payload.clone()).unwrap_or_default()
    }

    /// What the event takes in memory, roughly: for bounds on queues and caches.
    pub fn size(&self) -> usize {
        self.json.len() + self.id.len() + self.key.as_ref().map_or(0, |key| key.len()) + 128
    }

    /// Headers and tags, read from the JSON: only filters on them need this.
    pub fn labels(&self) -> Labels {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

/// Appends a JSON string, escaped where it must be.
pub(crate) fn push_string(json: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(json, text);
}

/// Appends a label (with its comma, quotes and colon) and a number.
pub(crate) fn push_number(json: &mut Vec<u8>, label: &[u8], number: u64) {
    use std::io::Write;
    json.extend_from_slice(label);
    // Writing into memory cannot fail.
    let _ = write!(json, "{number}");
}

fn push_list(json: &mut Vec<u8>, open: &[u8], texts: &[Box<str>]) {
    if texts.is_empty() {
        return;
    }
    json.extend_from_slice(open);
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        push_string(json, text);
    }
    json.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> NewEvent {
        NewEvent {
            id: "a\"b".into(),
            id_given: true,
            ts: 5,
            key: Some("k\n".into()),
            headers: vec![("h".into(), "v\u{1}".into())],
            payload: r#"{"n":1.0,"s":"\u00e9"}"#.into(),
            tags: vec!["t".into()],
            caused_by: vec!["c".into()],
            sid: Some("s".into()),
        }
    }

    #[test]
    fn json_has_every_field_and_keeps_the_payloads_text() {
        let topic = "t".parse().unwrap();
        let event = Event::place(
            &topic,
            &full(),
            Place {
                seq: 7,
                at: 9,
                partition: 3,
                ordinal: 2,
            },
        );
        assert_eq!(event.payload(), full().payload.as_bytes());
        let value: serde_json::Value = serde_json::from_slice(&event.json).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "id": "a\"b", "seq": 7, "ts": 5, "topic": "t", "key": "k\n", "partition": 3,
                "headers": {"h": "v\u{1}"}, "payload": {"n": 1.0, "s": "é"},
                "tags": ["t"], "caused_by": ["c"], "sid": "s"
            })
        );
        assert!(!event.json.contains(&b'\n'));
        assert_eq!(event.labels().headers["h"], "v\u{1}");
    }

    #[test]
    fn what_was_not_given_is_not_there() {
        let topic = "t".parse().unwrap();
        let bare = NewEvent {
            id: "i".into(),
            id_given: false,
            ts: 1,
            key: None,
            headers: vec![],
            payload: "null".into(),
            tags: vec![],
            caused_by: vec![],
            sid: None,
        };
        let event = Event::place(
            &topic,
            &bare,
            Place {
                seq: 1,
                at: 1,
                partition: 0,
                ordinal: 1,
            },
        );
        assert_eq!(
            &event.json[..],
            br#"{"id":"i","seq":1,"ts":1,"topic":"t","partition":0,"payload":null}"#
        );
    }
}
