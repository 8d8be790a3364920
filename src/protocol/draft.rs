//! Events as publishers send them, before the gateway adds what they left out.

use serde_json::value::RawValue;

use super::field::{Field, Wrong, fields, known_fields, only_known_fields};
use super::limits::{CAUSES, HEADER_VALUE, KEY, LABEL, TAGS};
use super::scan::minify;
use super::value::{bounded_text, headers, id, integer, list};
use crate::domain::TS_MAX;

/// An event to publish, its bounds checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The publisher's own id.
    pub id: Option<Box<str>>,
    /// Epoch milliseconds by the publisher's clock.
    pub ts: Option<u64>,
    /// What the event is about.
    pub key: Option<Box<str>>,
    /// In the publisher's order, each name once.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Free labels.
    pub tags: Vec<Box<str>>,
    /// The ids of the events that led to this one.
    pub caused_by: Vec<Box<str>>,
    /// The publisher's session.
    pub sid: Option<Box<str>>,
    /// The payload's JSON text as it came, without insignificant white space.
    pub payload: Box<str>,
}

impl Draft {
    /// About how many bytes it takes in memory.
    pub fn size(&self) -> usize {
        const FIXED: usize = 256;
        let texts = |texts: &[Box<str>]| texts.iter().map(|text| text.len() + 16).sum::<usize>();
        let pair = |(name, value): &(Box<str>, Box<str>)| name.len() + value.len() + 32;
        let headers: usize = self.headers.iter().map(pair).sum();
        FIXED + self.payload.len() + headers + texts(&self.tags) + texts(&self.caused_by)
    }
}

fields! {
    /// One event of a batch.
    BatchEntry { payload: "payload", opts: "opts" }
}

fields! {
    PublishOpts {
        id: "id",
        ts: "ts",
        key: "key",
        headers: "headers",
        tags: "tags",
        caused_by: "caused_by",
        sid: "sid",
    }
}

impl Draft {
    /// From the two fields of a PUBLISH, or of an event in a batch.
    pub(super) fn read(payload: Field<'_>, opts: Field<'_>) -> Result<Draft, Wrong> {
        let payload = payload.required_json()?;
        let mut draft = opts.optional(Draft::from_opts)?.unwrap_or_default();
        draft.payload = minify(payload);
        Ok(draft)
    }

    /// From an event of a batch.
    pub(super) fn from_batch_entry(raw: &RawValue) -> Result<Draft, Wrong> {
        let entry: BatchEntry<'_> = known_fields(raw)?;
        Draft::read(entry.payload, entry.opts)
    }

    fn from_opts(raw: &RawValue) -> Result<Draft, Wrong> {
        let opts: PublishOpts<'_> = only_known_fields(raw)?;
        let header_value = |raw| bounded_text(raw, 0..=HEADER_VALUE);
        let tag = |raw| bounded_text(raw, 0..=LABEL);
        Ok(Draft {
            id: opts.id.optional(id)?,
            ts: opts.ts.optional(|raw| integer(raw, 0..=TS_MAX))?,
            key: opts.key.optional(|raw| bounded_text(raw, 1..=KEY))?,
            headers: opts
                .headers
                .optional(|raw| headers(raw, header_value))?
                .unwrap_or_default(),
            tags: opts.tags.optional(|raw| list(raw, 0..=TAGS, tag))?.unwrap_or_default(),
            caused_by: opts
                .caused_by
                .optional(|raw| list(raw, 0..=CAUSES, id))?
                .unwrap_or_default(),
            sid: opts.sid.optional(|raw| bounded_text(raw, 0..=LABEL))?,
            payload: Box::default(),
        })
    }
}
