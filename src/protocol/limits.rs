//! How much of what a frame may hold: the bounds of the contract that are checked while a frame is read.

/// Objects and lists inside one another, the frame itself counted.
pub(crate) const NESTING: usize = 64;
/// Bytes of a `corr`, as JSON text: it is kept for as long as its request runs.
pub(crate) const CORR: usize = 256;
/// Bytes of an id, a session or a tag.
pub(crate) const LABEL: usize = 128;
/// Bytes of a key.
pub(crate) const KEY: usize = 512;
/// Headers of an event, and of a filter.
pub(crate) const HEADERS: usize = 64;
/// Bytes of a header's name.
pub(crate) const HEADER_NAME: usize = 128;
/// Bytes of a header's value.
pub(crate) const HEADER_VALUE: usize = 4096;
/// Tags of an event.
pub(crate) const TAGS: usize = 16;
/// Causes of an event.
pub(crate) const CAUSES: usize = 16;
/// Events of a batch.
pub(crate) const BATCH: usize = 1_000;
/// Ids of an ACK or NACK: as many as a group can have in flight.
pub(crate) const IDS: usize = 10_000;
/// Bytes of a NACK's reason, which is kept with the event's retry.
pub(crate) const REASON: usize = 4_096;
/// Milliseconds of `delay_ms` and `extend_ms`: a day.
pub(crate) const DELAY_MS: u64 = 86_400_000;
/// Keys of a filter.
pub(crate) const FILTER_KEYS: usize = 1_000;
/// Tags of a filter, and the values it gives for one header.
pub(crate) const FILTER_VALUES: usize = 64;
