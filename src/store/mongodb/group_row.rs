//! Groups, cursors and retries as documents of `groups`, `cursors` and `retries`.

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, deserialize_from_slice, doc, serialize_to_bson};

use super::event_row::{number, numbers};
use super::keys;
use crate::domain::{GroupName, GroupSettings, PartitionCursor, Retry, SeqRange, TopicName};
use crate::store::{Pause, StoreError};

/// What is kept of a group beside its cursors and retries.
#[derive(Debug)]
pub(super) struct GroupRow {
    pub name: GroupName,
    /// The epoch it was made with: what is left of a group of the same name is not taken for this one's.
    pub number: u64,
    pub epoch: u64,
    pub seeks: u64,
    pub settings: GroupSettings,
    pub paused: Option<Pause>,
}

/// A new group.
pub(super) fn group_document(
    topic: &TopicName,
    group: &GroupName,
    epoch: u64,
    settings: &GroupSettings,
) -> Result<Document, StoreError> {
    let mut document = doc! {
        "_id": keys::group(topic, group),
        "topic": topic.as_str(),
        "group": group.as_str(),
        "number": keys::signed(epoch),
        "epoch": keys::signed(epoch),
        "seeks": 0_i64,
    };
    document.extend(settings_fields(settings)?);
    Ok(document)
}

/// The settings as a document; as text where a name in a filter has a NUL, which no document can have, or begins with `$`,
/// which the library may take for a type of its own.
pub(super) fn settings_fields(settings: &GroupSettings) -> Result<Document, StoreError> {
    let broken =
        |error: &dyn std::fmt::Display| StoreError::Corrupt(format!("settings that cannot be stored: {error}"));
    let text = serde_json::to_string(settings).map_err(|error| broken(&error))?;
    Ok(if text.contains("\\u0000") || text.contains("\"$") {
        doc! { "settings": Bson::Null, "settingsText": text }
    } else {
        let value = serialize_to_bson(settings).map_err(|error| broken(&error))?;
        doc! { "settings": value, "settingsText": Bson::Null }
    })
}

pub(super) fn pause_field(paused: &Option<Pause>) -> Bson {
    match paused {
        Some(pause) => Bson::Document(doc! { "by": &*pause.by, "since": keys::signed(pause.since_ms) }),
        None => Bson::Null,
    }
}

/// What a save of a cursor changes.
pub(super) fn cursor_fields(cursor: &PartitionCursor) -> Document {
    let range = |range: &SeqRange| Bson::from([keys::signed(range.first), keys::signed(range.last)]);
    doc! {
        "floor": keys::signed(cursor.floor),
        "floorOrdinal": keys::signed(cursor.floor_ordinal),
        "acked": cursor.acked.iter().map(range).collect::<Vec<Bson>>(),
        "ackedCount": keys::signed(cursor.acked_count),
    }
}

/// A cursor whole.
pub(super) fn cursor_document(
    topic: &TopicName,
    group: &GroupName,
    partition: u32,
    epoch: u64,
    cursor: &PartitionCursor,
) -> Document {
    let mut document = doc! {
        "_id": keys::cursor(topic, group, partition),
        "topic": topic.as_str(),
        "group": group.as_str(),
        "partition": partition as i32,
        "epoch": keys::signed(epoch),
    };
    document.extend(cursor_fields(cursor));
    document
}

/// What is stored of a retry, but for its `_id`.
pub(super) fn retry_fields(topic: &TopicName, group: &GroupName, retry: &Retry) -> Document {
    doc! {
        "topic": topic.as_str(),
        "group": group.as_str(),
        "seq": keys::signed(retry.seq),
        "attempts": i64::from(retry.attempts),
        "due": keys::signed(retry.due_ms),
        "reason": &*retry.reason,
    }
}

fn field<'a>(row: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    row.get(name).ok().flatten()
}

fn read(row: &RawDocument, name: &str) -> Option<u64> {
    number(field(row, name)?)
}

fn corrupt(row: &RawDocument, collection: &str) -> StoreError {
    let id = row.get_str("_id").unwrap_or("without a readable _id");
    StoreError::Corrupt(format!(
        "the document {id:?} in `{collection}` is not one of Tidegate's"
    ))
}

impl GroupRow {
    pub fn decode(row: &RawDocument) -> Result<GroupRow, StoreError> {
        let decode = || {
            let settings = match field(row, "settingsText").and_then(RawBsonRef::as_str) {
                Some(text) => serde_json::from_str(text).ok()?,
                None => deserialize_from_slice(field(row, "settings")?.as_document()?.as_bytes()).ok()?,
            };
            let paused = match field(row, "paused").and_then(RawBsonRef::as_document) {
                Some(pause) => Some(Pause {
                    by: pause.get_str("by").ok()?.into(),
                    since_ms: read(pause, "since")?,
                }),
                None => None,
            };
            Some(GroupRow {
                name: row.get_str("group").ok()?.parse().ok()?,
                number: read(row, "number")?,
                epoch: read(row, "epoch")?,
                seeks: read(row, "seeks")?,
                settings,
                paused,
            })
        };
        decode().ok_or_else(|| corrupt(row, keys::GROUPS))
    }
}

/// A cursor, with the number of its partition.
pub(super) fn decode_cursor(row: &RawDocument) -> Result<(usize, PartitionCursor), StoreError> {
    let decode = || {
        let ranges = field(row, "acked")?.as_array()?.into_iter().map(|range| {
            let [first, last] = numbers(range.ok()?)?.try_into().ok()?;
            Some(SeqRange { first, last })
        });
        let cursor = PartitionCursor {
            floor: read(row, "floor")?,
            floor_ordinal: read(row, "floorOrdinal")?,
            acked: ranges.collect::<Option<_>>()?,
            acked_count: read(row, "ackedCount")?,
        };
        Some((usize::try_from(read(row, "partition")?).ok()?, cursor))
    };
    let sensible = decode().filter(|(partition, _)| *partition < 1 << 16);
    sensible.ok_or_else(|| corrupt(row, keys::CURSORS))
}

pub(super) fn decode_retry(row: &RawDocument) -> Result<Retry, StoreError> {
    let decode = || {
        Some(Retry {
            seq: read(row, "seq")?,
            attempts: u32::try_from(read(row, "attempts")?).ok()?,
            due_ms: read(row, "due")?,
            reason: row.get_str("reason").ok()?.into(),
        })
    };
    decode().ok_or_else(|| corrupt(row, keys::RETRIES))
}
