//! Topics as documents of `topics`.

use mongodb::bson::{Bson, Document, RawDocument, doc};

use super::event_row::{number, numbers};
use super::keys;
use crate::domain::TopicName;
use crate::store::placing::LogEnd;
use crate::store::{StoreError, TopicState};

/// What is kept of a topic beside its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicRow {
    pub end: LogEnd,
    /// The highest `ts` of all events ever.
    pub ts_max: u64,
    /// The bytes of the JSON of all events ever, the digits of their seqs not counted: so an append can add its own
    /// before it knows its seqs.
    pub bytes: u64,
    /// The lowest seq that is kept.
    pub first: u64,
    /// The ordinals just below it.
    pub first_ordinals: Vec<u64>,
    /// The part of `bytes` below it.
    pub bytes_before: u64,
    /// Below this seq nothing is in `events` any more.
    pub swept: u64,
    /// The topic was removed, and its events are on their way out: for everybody it is not there.
    pub removing: bool,
}

impl TopicRow {
    pub fn new(partitions: u32) -> TopicRow {
        let end = LogEnd::new(partitions);
        TopicRow {
            first_ordinals: end.ordinals.clone(),
            end,
            ts_max: 0,
            bytes: 0,
            first: 1,
            bytes_before: 0,
            swept: 1,
            removing: false,
        }
    }

    pub fn document(&self, topic: &TopicName) -> Document {
        let mut document = doc! { "_id": topic.as_str(), "partitions": self.end.partitions() as i32 };
        document.extend(self.end_fields());
        document.extend(self.first_fields());
        document.insert("swept", keys::signed(self.swept));
        document
    }

    /// What an append changes.
    pub fn end_fields(&self) -> Document {
        doc! {
            "seq": keys::signed(self.end.tail),
            "at": keys::signed(self.end.at),
            "ordinals": signed_list(&self.end.ordinals),
            "tsMax": keys::signed(self.ts_max),
            "bytes": keys::signed(self.bytes),
        }
    }

    /// What retention changes.
    pub fn first_fields(&self) -> Document {
        doc! {
            "first": keys::signed(self.first),
            "firstOrdinals": signed_list(&self.first_ordinals),
            "bytesBefore": keys::signed(self.bytes_before),
        }
    }

    pub fn decode(row: &RawDocument) -> Result<(TopicName, TopicRow), StoreError> {
        decode(row).ok_or_else(|| {
            let id = row.get_str("_id").unwrap_or("without a readable _id");
            StoreError::Corrupt(format!("the document {id:?} in `topics` is not a topic of Tidegate's"))
        })
    }

    pub fn state(&self) -> TopicState {
        let tail = self.end.tail;
        let digits = digits_through(tail).saturating_sub(digits_through(self.first - 1));
        TopicState {
            partitions: self.end.partitions(),
            first: self.first,
            tail,
            events: (tail + 1).saturating_sub(self.first),
            bytes: self.bytes.saturating_sub(self.bytes_before) + digits,
            ordinals: self.end.ordinals.clone(),
        }
    }

    pub fn keeps(&self, seq: u64) -> bool {
        (self.first..=self.end.tail).contains(&seq)
    }
}

fn decode(row: &RawDocument) -> Option<(TopicName, TopicRow)> {
    let field = |name: &str| row.get(name).ok().flatten();
    let read = |name: &str| field(name).and_then(number);
    let topic = row.get_str("_id").ok()?.parse().ok()?;
    let ordinals = numbers(field("ordinals")?)?;
    let first_ordinals = numbers(field("firstOrdinals")?)?;
    if ordinals.is_empty() || first_ordinals.len() != ordinals.len() {
        return None;
    }
    let row = TopicRow {
        end: LogEnd {
            tail: read("seq")?,
            at: read("at")?,
            ordinals,
        },
        ts_max: read("tsMax")?,
        bytes: read("bytes")?,
        first: read("first")?.max(1),
        first_ordinals,
        bytes_before: read("bytesBefore")?,
        swept: read("swept")?,
        removing: field("removing").is_some(),
    };
    Some((topic, row))
}

fn signed_list(numbers: &[u64]) -> Vec<Bson> {
    numbers
        .iter()
        .map(|number| Bson::Int64(keys::signed(*number)))
        .collect()
}

/// How many digits a number has.
pub(super) fn digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

/// How many digits the numbers from 1 to this one have together.
pub(super) fn digits_through(number: u64) -> u64 {
    let (mut sum, mut lowest) = (0_u64, 1_u64);
    for length in 1.. {
        if lowest > number {
            break;
        }
        let highest = lowest.saturating_mul(10).saturating_sub(1).min(number);
        sum = sum.saturating_add((highest - lowest + 1).saturating_mul(length));
        match lowest.checked_mul(10) {
            Some(next) => lowest = next,
            None => break,
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted() {
        let mut sum = 0;
        for number in 1..=12_345_u64 {
            assert_eq!(digits(number), number.to_string().len() as u64);
            sum += digits(number);
            assert_eq!(digits_through(number), sum);
        }
        assert_eq!(digits_through(0), 0);
        assert!(digits_through(u64::MAX) > u64::MAX / 2, "no overflow");
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let topic: TopicName = "orders".parse().unwrap();
        let mut row = TopicRow::new(3);
        row.end.tail = 99;
        row.end.ordinals = vec![40, 9, 50];
        row.first = 12;
        row.bytes = 1 << 40;
        let mut bytes = Vec::new();
        row.document(&topic).to_writer(&mut bytes).unwrap();
        let document = RawDocument::from_bytes(&bytes).unwrap();
        assert_eq!(TopicRow::decode(document), Ok((topic, row)));
    }
}
