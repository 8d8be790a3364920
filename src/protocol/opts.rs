//! The options of SUBSCRIBE.

use serde_json::value::RawValue;

use super::field::{Wrong, fields, only_known_fields};
use super::limits::{FILTER_KEYS, FILTER_VALUES, HEADER_VALUE, KEY, LABEL};
use super::value::{boolean, bounded_text, headers, id, integer, list, small_integer, word};
use crate::domain::{BACKOFF_MS_MAX, Filter, GroupSettingsPatch, MemberSettings, OneOrMore, StartFrom, TS_MAX};

/// What a subscription asks for. Without a group only `from`, the filter and the batch size have a meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscribeOpts {
    /// Where to begin, where there is no cursor yet.
    pub from: StartFrom,
    /// The settings of the group that are named.
    pub group: GroupSettingsPatch,
    /// The member's own settings, defaults where not named.
    pub member: MemberSettings,
}

fields! {
    RawOpts {
        from: "from",
        ts: "ts",
        after_id: "afterId",
        max_in_flight: "maxInFlight",
        ack_timeout_ms: "ackTimeoutMs",
        max_attempts: "maxAttempts",
        backoff_ms: "backoffMs",
        batch_size: "batchSize",
        auto_ack: "autoAck",
        ordered: "ordered",
        assignment: "assignment",
        filter: "filter",
    }
}

fields! {
    RawFilter {
        keys: "keys",
        key_prefix: "keyPrefix",
        tags: "tags",
        headers: "headers",
    }
}

impl SubscribeOpts {
    pub(super) fn read(raw: &RawValue) -> Result<SubscribeOpts, Wrong> {
        let opts: RawOpts<'_> = only_known_fields(raw)?;
        let defaults = MemberSettings::default();
        opts.assignment.optional(shared_assignment)?;
        Ok(SubscribeOpts {
            from: start_from(&opts)?,
            group: GroupSettingsPatch {
                max_attempts: opts.max_attempts.optional(|raw| small_integer(raw, 1..=1_000))?,
                backoff_ms: opts.backoff_ms.optional(|raw| integer(raw, 0..=BACKOFF_MS_MAX))?,
                ordered: opts.ordered.optional(boolean)?,
                filter: opts.filter.optional(filter)?,
            },
            member: MemberSettings {
                max_in_flight: (opts.max_in_flight)
                    .optional(|raw| small_integer(raw, 1..=10_000))?
                    .unwrap_or(defaults.max_in_flight),
                ack_timeout_ms: (opts.ack_timeout_ms)
                    .optional(|raw| integer(raw, 1_000..=3_600_000))?
                    .unwrap_or(defaults.ack_timeout_ms),
                batch_size: (opts.batch_size)
                    .optional(|raw| small_integer(raw, 1..=1_000))?
                    .unwrap_or(defaults.batch_size),
                auto_ack: opts.auto_ack.optional(boolean)?.unwrap_or(defaults.auto_ack),
            },
        })
    }
}

fn start_from(opts: &RawOpts<'_>) -> Result<StartFrom, Wrong> {
    const STARTS: [&str; 5] = ["latest", "earliest", "ts", "afterId", "snapshot"];
    let from = opts.from.optional(|raw| word(raw, &STARTS))?.unwrap_or("latest");
    // A start that would be ignored is more likely a forgotten `from`.
    if opts.ts.is_given() && from != "ts" {
        return Err(opts.ts.wrong("only goes with `from`: \"ts\""));
    }
    if opts.after_id.is_given() && from != "afterId" {
        return Err(opts.after_id.wrong("only goes with `from`: \"afterId\""));
    }
    match from {
        "earliest" => Ok(StartFrom::Earliest),
        "ts" => opts.ts.required(|raw| integer(raw, 0..=TS_MAX)).map(StartFrom::Ts),
        "afterId" => opts.after_id.required(id).map(StartFrom::AfterId),
        "snapshot" => Err(opts.from.wrong("snapshot is not available yet")),
        _ => Ok(StartFrom::Latest),
    }
}

fn shared_assignment(raw: &RawValue) -> Result<(), Wrong> {
    match word(raw, &["shared", "partitioned"])? {
        "partitioned" => Err(Wrong::new("partitioned is not available yet")),
        _ => Ok(()),
    }
}

fn filter(raw: &RawValue) -> Result<Filter, Wrong> {
    let raw: RawFilter<'_> = only_known_fields(raw)?;
    let key = |raw| bounded_text(raw, 1..=KEY).map(String::from);
    let tag = |raw| bounded_text(raw, 0..=LABEL).map(String::from);
    // An empty list would match nothing, and what a filter leaves out counts as acked: it is refused.
    Ok(Filter {
        keys: raw.keys.optional(|raw| list(raw, 1..=FILTER_KEYS, key))?,
        key_prefix: raw
            .key_prefix
            .optional(|raw| bounded_text(raw, 0..=KEY))?
            .map(String::from),
        tags: raw.tags.optional(|raw| list(raw, 1..=FILTER_VALUES, tag))?,
        headers: raw.headers.optional(|raw| headers(raw, one_or_more))?.map(|headers| {
            let with_strings = headers.into_iter().map(|(name, wanted)| (String::from(name), wanted));
            with_strings.collect()
        }),
    })
}

fn one_or_more(raw: &RawValue) -> Result<OneOrMore, Wrong> {
    let value = |raw| bounded_text(raw, 0..=HEADER_VALUE).map(String::from);
    match raw.get().as_bytes().first() {
        Some(b'[') => list(raw, 1..=FILTER_VALUES, value).map(OneOrMore::Many),
        Some(b'"') => value(raw).map(OneOrMore::One),
        _ => Err(Wrong::new("expected a string or a list of strings")),
    }
}
