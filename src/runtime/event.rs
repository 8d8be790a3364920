//! Events as a program sees them, typed by serde.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Error;
use crate::domain;

/// An event with its payload as a `T`, or as the publisher's own text: `Event<Box<RawValue>>`, which is [`RawEvent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<T> {
    /// Unique in its topic. The key for everything that must happen once.
    pub id: String,
    /// The topic's own counter, from 1.
    pub seq: u64,
    /// Epoch milliseconds, the publisher's or the gateway's.
    pub ts: u64,
    /// Where it was published.
    pub topic: String,
    /// What it is about; events of one key are in one partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its partition.
    pub partition: u32,
    /// String to string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What it says.
    pub payload: T,
    /// Free labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The ids of the events that led to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caused_by: Vec<String>,
    /// The publisher's session, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
}

/// An event whose payload is the publisher's own JSON text.
pub type RawEvent = Event<Box<RawValue>>;

impl<T: DeserializeOwned> Event<T> {
    /// From the log. The error says where in the payload something else was expected.
    pub(crate) fn read(event: &domain::Event) -> Result<Event<T>, Error> {
        let unexpected = |message: String| Error::UnexpectedPayload {
            id: event.id.to_string(),
            message,
        };
        let raw: RawEvent = serde_json::from_slice(&event.json).map_err(|error| unexpected(error.to_string()))?;
        let payload = serde_json::from_str(raw.payload.get()).map_err(|error| unexpected(error.to_string()))?;
        Ok(raw.with_payload(payload))
    }
}

impl<T> Event<T> {
    /// The same event with another payload.
    pub fn with_payload<U>(self, payload: U) -> Event<U> {
        let Event {
            id,
            seq,
            ts,
            topic,
            key,
            partition,
            headers,
            payload: _,
            tags,
            caused_by,
            sid,
        } = self;
        Event {
            id,
            seq,
            ts,
            topic,
            key,
            partition,
            headers,
            payload,
            tags,
            caused_by,
            sid,
        }
    }
}
