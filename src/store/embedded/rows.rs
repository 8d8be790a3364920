//! What the stored values hold, and how they are written and read.

use bytes::Bytes;
use fjall::Slice;

use super::codec::{Decoder, Encoder};
use super::keys::{self, Space};
use crate::domain::{Event, GroupSettings, PartitionCursor, Retry, SeqRange};
use crate::store::placing::LogEnd;
use crate::store::{Pause, StoreError, TopicState};

/// Something rows can be read from: what is on disk, or what a batch is about to make of it.
pub(super) trait Rows {
    /// The value of a key.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, StoreError>;

    /// The value of a key, decoded.
    fn row<T>(
        &self,
        space: Space,
        key: &[u8],
        decode: impl FnOnce(&mut Decoder) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(value) = self.get(space, key)? else {
            return Ok(None);
        };
        let decoded = Decoder::whole(key, &value, decode);
        decoded.ok_or_else(|| damaged(space, key)).map(Some)
    }
}

/// The error for a row that cannot be read.
pub(super) fn damaged(space: Space, key: &[u8]) -> StoreError {
    StoreError::Corrupt(format!(
        "the row {} of {} is not what was written",
        key.escape_ascii(),
        space.name()
    ))
}

/// The newest commit: written with every batch, so that what it says is as old as what it speaks of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CommitRow {
    /// Counts all commits, from 1.
    pub number: u64,
    /// The newest commit that was known to be on disk when this one was written.
    pub durable: u64,
    /// The database's own count, which this commit's is not below.
    pub engine_seqno: u64,
    /// For each keyspace, the newest commit that wrote to it.
    pub last_in_space: [u64; 4],
    /// For each keyspace, what `engine_seqno` was for the newest commit before this one that wrote to it: where the
    /// journal begins with this commit, tables must reach that far. 0 where there was none.
    pub seqnos_before: [u64; 4],
    /// The number of the topic that was made last.
    pub topic_number: u32,
    /// The epoch that was given last. A group's number is the epoch it was made with.
    pub epoch: u64,
    /// The tails of all topics together: where a topic's row is lost or stale, the sum shows it.
    pub tails: u64,
}

impl CommitRow {
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let encoder = Encoder::with_capacity(128).u64(self.number).u64(self.durable);
        let encoder = encoder.u64(self.engine_seqno).numbers(&self.last_in_space);
        let encoder = encoder.numbers(&self.seqnos_before);
        encoder.u32(self.topic_number).u64(self.epoch).u64(self.tails).seal(key)
    }

    /// What the next commit has as its `seqnos_before`.
    pub fn seqnos(&self) -> [u64; 4] {
        let mut seqnos = self.seqnos_before;
        for (seqno, last) in seqnos.iter_mut().zip(self.last_in_space) {
            if last == self.number {
                *seqno = self.engine_seqno;
            }
        }
        seqnos
    }

    /// The same for a copy of the rows in a database of its own, whose counts begin anew.
    pub fn in_a_new_database(self) -> CommitRow {
        CommitRow {
            engine_seqno: 0,
            seqnos_before: [0; 4],
            durable: self.number,
            ..self
        }
    }

    pub fn decode(decoder: &mut Decoder) -> Option<CommitRow> {
        Some(CommitRow {
            number: decoder.u64()?,
            durable: decoder.u64()?,
            engine_seqno: decoder.u64()?,
            last_in_space: decoder.numbers()?.try_into().ok()?,
            seqnos_before: decoder.numbers()?.try_into().ok()?,
            topic_number: decoder.u32()?,
            epoch: decoder.u64()?,
            tails: decoder.u64()?,
        })
    }
}

/// A topic: all that the next append and every search begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicRow {
    /// What its rows in `events` and `index` begin with.
    pub number: u32,
    /// The commit that changed it last.
    pub commit: u64,
    /// The lowest kept seq; what is below is gone, whether its rows are still there or not.
    pub first: u64,
    /// Each partition's newest ordinal below `first`.
    pub first_ordinals: Vec<u64>,
    /// The bytes of JSON of all events below `first`, and of all events ever.
    pub bytes_before: u64,
    pub bytes_through: u64,
    /// The highest `ts` of all events ever, and of those in the block that the tail is in.
    pub ts_max: u64,
    pub block_ts_max: u64,
    pub end: LogEnd,
}

impl TopicRow {
    pub fn new(number: u32, partitions: u32) -> TopicRow {
        let end = LogEnd::new(partitions);
        TopicRow {
            number,
            commit: 0,
            first: 1,
            first_ordinals: end.ordinals.clone(),
            bytes_before: 0,
            bytes_through: 0,
            ts_max: 0,
            block_ts_max: 0,
            end,
        }
    }

    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let encoder = Encoder::with_capacity(80 + 16 * self.end.ordinals.len());
        let encoder = encoder.u32(self.number).u64(self.commit).u64(self.first);
        let encoder = encoder.numbers(&self.first_ordinals).u64(self.bytes_before);
        let encoder = encoder.u64(self.bytes_through).u64(self.ts_max).u64(self.block_ts_max);
        let encoder = encoder.u64(self.end.tail).u64(self.end.at);
        encoder.numbers(&self.end.ordinals).seal(key)
    }

    pub fn decode(decoder: &mut Decoder) -> Option<TopicRow> {
        Some(TopicRow {
            number: decoder.u32()?,
            commit: decoder.u64()?,
            first: decoder.u64()?,
            first_ordinals: decoder.numbers()?,
            bytes_before: decoder.u64()?,
            bytes_through: decoder.u64()?,
            ts_max: decoder.u64()?,
            block_ts_max: decoder.u64()?,
            end: LogEnd {
                tail: decoder.u64()?,
                at: decoder.u64()?,
                ordinals: decoder.numbers()?,
            },
        })
    }

    pub fn state(&self) -> TopicState {
        TopicState {
            partitions: self.end.partitions(),
            first: self.first,
            tail: self.end.tail,
            events: (self.end.tail + 1).saturating_sub(self.first),
            bytes: self.bytes_through.saturating_sub(self.bytes_before),
            ordinals: self.end.ordinals.clone(),
        }
    }

    /// Whether an event with this seq is kept.
    pub fn keeps(&self, seq: u64) -> bool {
        (self.first..=self.end.tail).contains(&seq)
    }
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventRow {
    pub event: Event,
    /// The commit it came with.
    pub commit: u64,
    /// The bytes of JSON of the topic's events up to and with this one.
    pub bytes_through: u64,
}

/// The partition of an event that is known to be lost: no topic has so many.
const LOST: u32 = u32::MAX;

impl EventRow {
    /// Stands for an event that a repair did not find, so that the log has no gap. Readers leave it out.
    pub fn lost(seq: u64, at: u64, commit: u64, bytes_through: u64) -> EventRow {
        let event = Event {
            seq,
            ts: 0,
            at,
            partition: LOST,
            ordinal: 0,
            payload: 0..0,
            id: "".into(),
            key: None,
            json: Bytes::new(),
        };
        EventRow {
            event,
            commit,
            bytes_through,
        }
    }

    /// Whether it stands for a lost event.
    pub fn is_lost(&self) -> bool {
        self.event.partition == LOST
    }

    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let event = &self.event;
        let texts = event.json.len() + event.id.len() + event.key.as_ref().map_or(0, |key| key.len());
        let encoder = Encoder::with_capacity(72 + texts);
        let encoder = encoder.u64(self.commit).u64(self.bytes_through);
        let encoder = encoder
            .u64(event.ts)
            .u64(event.at)
            .u32(event.partition)
            .u64(event.ordinal);
        let encoder = encoder.u32(event.payload.start as u32).u32(event.payload.end as u32);
        let encoder = encoder.bytes(event.id.as_bytes()).optional(event.key.as_deref());
        encoder.bytes(&event.json).seal(key)
    }

    /// The `ts` and the JSON alone; `Some(None)` for what stands for a lost event.
    pub fn decode_json<'a>(decoder: &mut Decoder<'a>) -> Option<Option<(u64, &'a [u8])>> {
        let (_commit, _bytes_through) = (decoder.u64()?, decoder.u64()?);
        let (ts, _at) = (decoder.u64()?, decoder.u64()?);
        let (partition, _ordinal) = (decoder.u32()?, decoder.u64()?);
        let (_payload_start, _payload_end) = (decoder.u32()?, decoder.u32()?);
        let (_id, _key) = (decoder.bytes()?, decoder.optional_bytes()?);
        let json = decoder.bytes()?;
        Some((partition != LOST).then_some((ts, json)))
    }

    pub fn decode(seq: u64, decoder: &mut Decoder) -> Option<EventRow> {
        let commit = decoder.u64()?;
        let bytes_through = decoder.u64()?;
        let ts = decoder.u64()?;
        let at = decoder.u64()?;
        let partition = decoder.u32()?;
        let ordinal = decoder.u64()?;
        let payload = decoder.u32()? as usize..decoder.u32()? as usize;
        let event = Event {
            seq,
            ts,
            at,
            partition,
            ordinal,
            payload,
            id: decoder.text()?.into(),
            key: decoder.optional()?.map(Into::into),
            json: Bytes::copy_from_slice(decoder.bytes()?),
        };
        Some(EventRow {
            event,
            commit,
            bytes_through,
        })
    }
}

/// A run of [`keys::BLOCK`] seqs, written with its last event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockRow {
    /// Each partition's newest ordinal at its end.
    pub ordinals: Vec<u64>,
    /// The highest `ts` of all events ever up to its end, and of its own.
    pub ts_max: u64,
    pub block_ts_max: u64,
}

impl BlockRow {
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let encoder = Encoder::with_capacity(24 + 8 * self.ordinals.len());
        encoder
            .numbers(&self.ordinals)
            .u64(self.ts_max)
            .u64(self.block_ts_max)
            .seal(key)
    }

    pub fn decode(decoder: &mut Decoder) -> Option<BlockRow> {
        Some(BlockRow {
            ordinals: decoder.numbers()?,
            ts_max: decoder.u64()?,
            block_ts_max: decoder.u64()?,
        })
    }
}

/// The value of a row that holds one number.
pub(super) fn encode_number(key: &[u8], number: u64) -> Vec<u8> {
    Encoder::with_capacity(8).u64(number).seal(key)
}

/// A group without its cursors and retries, which have rows of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub number: u64,
    pub epoch: u64,
    pub seeks: u64,
    /// How many cursors it has.
    pub partitions: u32,
    pub settings: GroupSettings,
    pub paused: Option<Pause>,
}

impl GroupRow {
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        // Settings are plain data: making JSON of them cannot fail.
        let settings = serde_json::to_vec(&self.settings).unwrap_or_default();
        let encoder = Encoder::with_capacity(64 + settings.len());
        let encoder = encoder
            .u64(self.number)
            .u64(self.epoch)
            .u64(self.seeks)
            .u32(self.partitions);
        let encoder = encoder
            .bytes(&settings)
            .optional(self.paused.as_ref().map(|pause| &*pause.by));
        encoder
            .u64(self.paused.as_ref().map_or(0, |pause| pause.since_ms))
            .seal(key)
    }

    pub fn decode(decoder: &mut Decoder) -> Option<GroupRow> {
        let number = decoder.u64()?;
        let epoch = decoder.u64()?;
        let seeks = decoder.u64()?;
        let partitions = decoder.u32()?;
        let settings = serde_json::from_slice(decoder.bytes()?).ok()?;
        let by = decoder.optional()?;
        let since_ms = decoder.u64()?;
        Some(GroupRow {
            number,
            epoch,
            seeks,
            partitions,
            settings,
            paused: by.map(|by| Pause {
                by: by.into(),
                since_ms,
            }),
        })
    }
}

pub(super) fn encode_cursor(key: &[u8], cursor: &PartitionCursor) -> Vec<u8> {
    let encoder = Encoder::with_capacity(32 + 16 * cursor.acked.len());
    let encoder = encoder
        .u64(cursor.floor)
        .u64(cursor.floor_ordinal)
        .u64(cursor.acked_count);
    let ranges: Vec<u64> = cursor
        .acked
        .iter()
        .flat_map(|range| [range.first, range.last])
        .collect();
    encoder.numbers(&ranges).seal(key)
}

pub(super) fn decode_cursor(decoder: &mut Decoder) -> Option<PartitionCursor> {
    let floor = decoder.u64()?;
    let floor_ordinal = decoder.u64()?;
    let acked_count = decoder.u64()?;
    let numbers = decoder.numbers()?;
    let (ranges, rest) = numbers.as_chunks::<2>();
    let acked = ranges.iter().map(|&[first, last]| SeqRange { first, last }).collect();
    rest.is_empty().then_some(PartitionCursor {
        floor,
        floor_ordinal,
        acked,
        acked_count,
    })
}

pub(super) fn encode_retry(key: &[u8], retry: &Retry) -> Vec<u8> {
    let encoder = Encoder::with_capacity(24 + retry.reason.len());
    encoder
        .u32(retry.attempts)
        .u64(retry.due_ms)
        .bytes(retry.reason.as_bytes())
        .seal(key)
}

pub(super) fn decode_retry(key: &[u8], decoder: &mut Decoder) -> Option<Retry> {
    Some(Retry {
        seq: keys::seq_of_retry(key)?,
        attempts: decoder.u32()?,
        due_ms: decoder.u64()?,
        reason: decoder.text()?.into(),
    })
}
