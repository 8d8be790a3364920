//! Events as documents of `events`.

use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::document::{Kind, Writer};
use super::keys;
use super::payload::{self, Encoded};
use super::topic_row::digits;
use crate::domain::{Event, NewEvent, Place, TopicName};
use crate::store::{Refused, StoreError};

/// Every so many events one carries the ordinals of all partitions: from there others are counted.
pub(super) const BLOCK: u64 = 256;
/// The largest document is 16 MiB; this is left for what is not counted.
const DOCUMENT_BYTES_MAX: usize = (16 << 20) - (64 << 10);

/// An event that is ready to be written, but for its place.
pub(super) struct Draft {
    pub new: NewEvent,
    value: Option<Encoded>,
    /// Whether the payload's text is stored too.
    keeps_text: bool,
    /// The length of its JSON without the digits of its seq and partition: those are known only with its place.
    json_bytes: u64,
}

impl Draft {
    pub fn new(topic: &TopicName, new: NewEvent) -> Result<Draft, Refused> {
        let text = new.payload.len();
        let around = new.size() - text;
        let mut value = if text < DOCUMENT_BYTES_MAX {
            payload::encode(&new.payload)
        } else {
            None
        };
        let keeps_text = |value: &Option<Encoded>| !value.as_ref().is_some_and(|value| value.exact);
        let size = |value: &Option<Encoded>| {
            let text = if keeps_text(value) { text } else { 0 };
            around + text + value.as_ref().map_or(0, |value| value.bytes.len())
        };
        if size(&value) > DOCUMENT_BYTES_MAX {
            value = None;
        }
        if size(&value) > DOCUMENT_BYTES_MAX {
            return Err(Refused::TooLarge {
                bytes: new.size(),
                max: DOCUMENT_BYTES_MAX,
            });
        }
        let nowhere = Place {
            seq: 1,
            at: 0,
            partition: 0,
            ordinal: 0,
        };
        let json_bytes = Event::place(topic, &new, nowhere).json.len() as u64 - 2;
        Ok(Draft {
            keeps_text: keeps_text(&value),
            value,
            new,
            json_bytes,
        })
    }

    /// What it adds to its topic's `bytes`.
    pub fn json_bytes(&self, partition: u32) -> u64 {
        self.json_bytes + digits(u64::from(partition))
    }

    /// What the document takes, roughly.
    pub fn size(&self) -> usize {
        self.new.size() + self.value.as_ref().map_or(0, |value| value.bytes.len()) + 128
    }

    /// The document of the event in its place. `ordinals` are those of all partitions, the event counted.
    pub fn document(
        &self,
        topic: &TopicName,
        event: &Event,
        ts_max: u64,
        bytes_through: u64,
        ordinals: &[u64],
    ) -> Result<RawDocumentBuf, StoreError> {
        let new = &self.new;
        let mut row = Writer::new(self.size() + 384);
        row.string("_id", &keys::event(topic, &new.id));
        row.string("topic", topic.as_str());
        row.string("id", &new.id);
        row.int64("seq", keys::signed(event.seq));
        row.int64("ts", keys::signed(event.ts));
        row.int64("at", keys::signed(event.at));
        if let Some(key) = &new.key {
            row.string("key", key);
        }
        row.int32("partition", event.partition as i32);
        row.int64("ordinal", keys::signed(event.ordinal));
        if new.headers.iter().any(|(name, _)| name.contains('\0')) {
            // No document can have such a name: a list of names and values instead.
            row.nested("headers", Kind::Array, |list| {
                let texts = new.headers.iter().flat_map(|(name, value)| [name, value]);
                texts
                    .enumerate()
                    .for_each(|(at, text)| list.string(&at.to_string(), text));
            });
        } else if !new.headers.is_empty() {
            row.nested("headers", Kind::Document, |headers| {
                new.headers.iter().for_each(|(name, value)| headers.string(name, value));
            });
        }
        if let Some(value) = &self.value {
            row.raw("payload", value.kind, &value.bytes);
        }
        if self.keeps_text {
            row.string("payloadText", &new.payload);
        }
        for (name, texts) in [("tags", &new.tags), ("caused_by", &new.caused_by)] {
            if !texts.is_empty() {
                row.nested(name, Kind::Array, |list| {
                    texts
                        .iter()
                        .enumerate()
                        .for_each(|(at, text)| list.string(&at.to_string(), text));
                });
            }
        }
        if let Some(sid) = &new.sid {
            row.string("sid", sid);
        }
        row.int64("tsMax", keys::signed(ts_max));
        row.int64("bytesThrough", keys::signed(bytes_through));
        if event.seq.is_multiple_of(BLOCK) {
            row.nested("ordinals", Kind::Array, |list| {
                let numbers = ordinals.iter().enumerate();
                numbers.for_each(|(at, ordinal)| list.int64(&at.to_string(), keys::signed(*ordinal)));
            });
        }
        let broken = || StoreError::Corrupt(format!("the event {} makes no document", new.id));
        row.finish().ok_or_else(broken)
    }
}

/// An event as it is stored.
pub(super) struct EventRow {
    pub event: Event,
    /// The highest `ts` of all events up to this one.
    pub ts_max: u64,
    /// The bytes of the JSON of all events up to this one, the digits of their seqs not counted.
    pub bytes_through: u64,
}

impl EventRow {
    pub fn decode(topic: &TopicName, row: &RawDocument) -> Result<EventRow, StoreError> {
        decode(topic, row).ok_or_else(|| {
            let id = row.get_str("_id").unwrap_or("without a readable _id");
            StoreError::Corrupt(format!("the document {id:?} in `events` is not an event of Tidegate's"))
        })
    }

    /// The bytes of all events before this one, counted as in `bytes_through`.
    pub fn bytes_before(&self) -> u64 {
        let own = self.event.json.len() as u64 - digits(self.event.seq);
        self.bytes_through.saturating_sub(own)
    }
}

fn decode(topic: &TopicName, row: &RawDocument) -> Option<EventRow> {
    let mut new = NewEvent {
        id: Box::default(),
        id_given: true,
        ts: 0,
        key: None,
        headers: Vec::new(),
        payload: Box::default(),
        tags: Vec::new(),
        caused_by: Vec::new(),
        sid: None,
    };
    let mut place = Place {
        seq: 0,
        at: 0,
        partition: 0,
        ordinal: 0,
    };
    let (mut value, mut text, mut ts_max, mut bytes_through) = (None, None, 0, 0);
    for element in row.iter_elements() {
        let element = element.ok()?;
        match element.key().as_str() {
            "id" => new.id = element.value().ok()?.as_str()?.into(),
            "seq" => place.seq = number(element.value().ok()?)?,
            "ts" => new.ts = number(element.value().ok()?)?,
            "at" => place.at = number(element.value().ok()?)?,
            "key" => new.key = Some(element.value().ok()?.as_str()?.into()),
            "partition" => place.partition = u32::try_from(number(element.value().ok()?)?).ok()?,
            "ordinal" => place.ordinal = number(element.value().ok()?)?,
            "headers" => new.headers = headers(element.value().ok()?)?,
            "payload" => value = Some(element.value().ok()?),
            "payloadText" => text = Some(element.value().ok()?.as_str()?),
            "tags" => new.tags = texts(element.value().ok()?)?,
            "caused_by" => new.caused_by = texts(element.value().ok()?)?,
            "sid" => new.sid = Some(element.value().ok()?.as_str()?.into()),
            "tsMax" => ts_max = number(element.value().ok()?)?,
            "bytesThrough" => bytes_through = number(element.value().ok()?)?,
            _ => {}
        }
    }
    new.payload = match text {
        Some(text) => text.into(),
        None => {
            let mut json = Vec::with_capacity(row.as_bytes().len());
            payload::render(value?, &mut json)?;
            String::from_utf8(json).ok()?.into()
        }
    };
    if place.seq == 0 || new.id.is_empty() {
        return None;
    }
    Some(EventRow {
        event: Event::place(topic, &new, place),
        ts_max,
        bytes_through,
    })
}

/// A whole number, whatever type a person's hand gave it.
pub(super) fn number(value: RawBsonRef<'_>) -> Option<u64> {
    match value {
        RawBsonRef::Int64(number) => Some(number as u64),
        RawBsonRef::Int32(number) => u64::try_from(number).ok(),
        RawBsonRef::Double(number) if number >= 0.0 && number.fract() == 0.0 => Some(number as u64),
        _ => None,
    }
}

/// Whole numbers in a list.
pub(super) fn numbers(value: RawBsonRef<'_>) -> Option<Vec<u64>> {
    value.as_array()?.into_iter().map(|one| number(one.ok()?)).collect()
}

fn texts(value: RawBsonRef<'_>) -> Option<Vec<Box<str>>> {
    let texts = value.as_array()?.into_iter();
    texts.map(|text| Some(text.ok()?.as_str()?.into())).collect()
}

fn headers(value: RawBsonRef<'_>) -> Option<Vec<(Box<str>, Box<str>)>> {
    if let Some(document) = value.as_document() {
        let headers = document.iter_elements().map(|element| {
            let element = element.ok()?;
            Some((element.key().as_str().into(), element.value().ok()?.as_str()?.into()))
        });
        return headers.collect();
    }
    let mut texts = texts(value)?.into_iter();
    let mut headers = Vec::new();
    while let Some(name) = texts.next() {
        headers.push((name, texts.next()?));
    }
    Some(headers)
}
