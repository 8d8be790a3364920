//! What the gateway says: answers, errors and events as text frames.

use std::borrow::Cow;

use super::code::ErrorCode;
use crate::domain::{Event, GroupName, TopicName, push_number, push_string};

/// Why a request failed, as its client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For programs.
    pub code: ErrorCode,
    /// For people.
    pub msg: Cow<'static, str>,
    /// How long to wait before it is worth trying again.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure that names no time to come back.
    pub fn new(code: ErrorCode, msg: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            code,
            msg: msg.into(),
            retry_after_ms: None,
        }
    }

    /// The same, with a time to come back.
    pub fn retry_after(mut self, ms: u64) -> Failure {
        self.retry_after_ms = Some(ms);
        self
    }
}

/// The `corr` of a request: the JSON text of a string or number, at most 256 bytes, repeated as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corr(Box<str>);

impl Corr {
    /// From JSON text that was checked.
    pub(super) fn from_json(json: &str) -> Corr {
        Corr(json.into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What `OK` carries, by kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it is done.
    Ok,
    /// To AUTH.
    Authenticated {
        /// When the token expires, from now.
        expires_ms: Option<u64>,
    },
    /// To PUBLISH.
    Published {
        /// The event's.
        id: Box<str>,
        /// The event's.
        seq: u64,
    },
    /// To PUBLISH_BATCH.
    PublishedBatch {
        /// The events', in their order.
        ids: Vec<Box<str>>,
        /// The events', in their order.
        seqs: Vec<u64>,
    },
    /// To MODACK.
    LeaseExtended {
        /// When the lease ends, from now.
        ack_deadline_ms: u64,
    },
}

/// What a client is told of the lease on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// After so many deliveries the event is a dead letter.
    pub max_attempts: u32,
    /// When the lease ends, from now.
    pub ack_deadline_ms: u64,
}

/// The frame that says that a request was done.
pub fn encode_ok(corr: Option<&Corr>, answer: &Answer) -> String {
    let mut json = Vec::with_capacity(128);
    json.extend_from_slice(b"{\"op\":\"OK\"");
    push_corr(&mut json, corr);
    match answer {
        Answer::Ok | Answer::Authenticated { expires_ms: None } => {}
        Answer::Authenticated { expires_ms: Some(ms) } => push_number(&mut json, b",\"expires_ms\":", *ms),
        Answer::Published { id, seq } => {
            json.extend_from_slice(b",\"id\":");
            push_string(&mut json, id);
            push_number(&mut json, b",\"seq\":", *seq);
        }
        Answer::PublishedBatch { ids, seqs } => {
            json.extend_from_slice(b",\"ids\":[");
            for (at, id) in ids.iter().enumerate() {
                json.extend_from_slice(if at > 0 { b"," } else { b"" });
                push_string(&mut json, id);
            }
            json.extend_from_slice(b"],\"seqs\":[");
            for (at, seq) in seqs.iter().enumerate() {
                push_number(&mut json, if at > 0 { b"," } else { b"" }, *seq);
            }
            json.push(b']');
        }
        Answer::LeaseExtended { ack_deadline_ms } => push_number(&mut json, b",\"ack_deadline_ms\":", *ack_deadline_ms),
    }
    json.push(b'}');
    into_text(json)
}

/// The frame that says why a request failed, or why a subscription ended.
pub fn encode_err(
    corr: Option<&Corr>,
    failure: &Failure,
    subscription: Option<(&TopicName, Option<&GroupName>)>,
) -> String {
    let mut json = Vec::with_capacity(128 + failure.msg.len());
    json.extend_from_slice(b"{\"op\":\"ERR\",\"code\":");
    push_string(&mut json, failure.code.as_str());
    json.extend_from_slice(b",\"msg\":");
    push_string(&mut json, &failure.msg);
    push_corr(&mut json, corr);
    if let Some(ms) = failure.retry_after_ms {
        push_number(&mut json, b",\"retry_after_ms\":", ms);
    }
    if let Some((topic, group)) = subscription {
        json.extend_from_slice(b",\"topic\":");
        push_string(&mut json, topic.as_str());
        json.extend_from_slice(b",\"group\":");
        push_group(&mut json, group);
    }
    json.push(b'}');
    into_text(json)
}

/// The frame that brings an event to a subscription: the event's own JSON between a head and a tail, copied once.
///
/// ```
/// use tidegate::domain::{Event, NewEvent, Place};
/// use tidegate::protocol::{Lease, encode_event};
///
/// let topic = "orders".parse()?;
/// let new = NewEvent {
///     id: "a1".into(), id_given: true, ts: 5, key: None, headers: vec![], payload: "1.0".into(), tags: vec![],
///     caused_by: vec![], sid: None,
/// };
/// let event = Event::place(&topic, &new, Place { seq: 7, at: 5, partition: 3, ordinal: 1 });
/// let lease = Lease { max_attempts: 5, ack_deadline_ms: 30_000 };
/// assert_eq!(
///     encode_event(&topic, Some(&"billing".parse()?), &event, 1, Some(lease)),
///     concat!(
///         r#"{"op":"EVENT","topic":"orders","group":"billing","#,
///         r#""event":{"id":"a1","seq":7,"ts":5,"topic":"orders","partition":3,"payload":1.0},"#,
///         r#""ctx":{"attempt":1,"max_attempts":5,"ack_deadline_ms":30000}}"#
///     )
/// );
/// # Ok::<(), tidegate::domain::BadName>(())
/// ```
pub fn encode_event(
    topic: &TopicName,
    group: Option<&GroupName>,
    event: &Event,
    attempt: u32,
    lease: Option<Lease>,
) -> String {
    const HEAD: &[u8] = b"{\"op\":\"EVENT\",\"topic\":";
    const GROUP: &[u8] = b",\"group\":";
    const EVENT: &[u8] = b",\"event\":";
    const ATTEMPT: &[u8] = b",\"ctx\":{\"attempt\":";
    const MAX_ATTEMPTS: &[u8] = b",\"max_attempts\":";
    const ACK_DEADLINE: &[u8] = b",\"ack_deadline_ms\":";
    const TAIL: &[u8] = b"}}";

    // Names have nothing that JSON escapes: two quotes are all that is added.
    let group_size = group.map_or("null".len(), |group| group.as_str().len() + 2);
    let lease_size = lease.map_or(0, |lease| {
        let numbers = digits(u64::from(lease.max_attempts)) + digits(lease.ack_deadline_ms);
        MAX_ATTEMPTS.len() + ACK_DEADLINE.len() + numbers
    });
    let names_size = HEAD.len() + topic.as_str().len() + 2 + GROUP.len() + group_size;
    let ctx_size = ATTEMPT.len() + digits(u64::from(attempt)) + lease_size + TAIL.len();
    let mut json = Vec::with_capacity(names_size + EVENT.len() + event.json.len() + ctx_size);

    json.extend_from_slice(HEAD);
    push_string(&mut json, topic.as_str());
    json.extend_from_slice(GROUP);
    push_group(&mut json, group);
    json.extend_from_slice(EVENT);
    json.extend_from_slice(&event.json);
    push_number(&mut json, ATTEMPT, u64::from(attempt));
    if let Some(lease) = lease {
        push_number(&mut json, MAX_ATTEMPTS, u64::from(lease.max_attempts));
        push_number(&mut json, ACK_DEADLINE, lease.ack_deadline_ms);
    }
    json.extend_from_slice(TAIL);
    into_text(json)
}

fn push_corr(json: &mut Vec<u8>, corr: Option<&Corr>) {
    if let Some(corr) = corr {
        json.extend_from_slice(b",\"corr\":");
        json.extend_from_slice(corr.as_str().as_bytes());
    }
}

fn push_group(json: &mut Vec<u8>, group: Option<&GroupName>) {
    match group {
        Some(group) => push_string(json, group.as_str()),
        None => json.extend_from_slice(b"null"),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// All that is put into a frame is text; only a store that gives back something else could break that, and then the
/// client gets the replacement characters that any reader would make of it.
fn into_text(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{NewEvent, Place};

    fn corr() -> Corr {
        Corr::from_json("\"\\u00e9\"")
    }

    #[test]
    fn ok_carries_what_the_request_asks_for() {
        let published = Answer::Published {
            id: "a\"".into(),
            seq: u64::MAX,
        };
        let batch = Answer::PublishedBatch {
            ids: vec!["a".into(), "b".into()],
            seqs: vec![1, 2],
        };
        for (answer, expected) in [
            (Answer::Ok, ""),
            (Answer::Authenticated { expires_ms: None }, ""),
            (Answer::Authenticated { expires_ms: Some(9) }, r#","expires_ms":9"#),
            (published, r#","id":"a\"","seq":18446744073709551615"#),
            (batch, r#","ids":["a","b"],"seqs":[1,2]"#),
            (
                Answer::LeaseExtended { ack_deadline_ms: 1000 },
                r#","ack_deadline_ms":1000"#,
            ),
        ] {
            let with_corr = format!(r#"{{"op":"OK","corr":"\u00e9"{expected}}}"#);
            assert_eq!(encode_ok(Some(&corr()), &answer), with_corr);
            assert_eq!(encode_ok(None, &answer), format!(r#"{{"op":"OK"{expected}}}"#));
        }
    }

    #[test]
    fn err_carries_what_is_known() {
        let failure = Failure::new(ErrorCode::BadRequest, "a \"quoted\"\nline");
        let expected = r#"{"op":"ERR","code":"bad_request","msg":"a \"quoted\"\nline"}"#;
        assert_eq!(encode_err(None, &failure, None), expected);

        let failure = Failure::new(ErrorCode::RateLimited, "conn publish rate exceeded").retry_after(15);
        let expected = concat!(
            r#"{"op":"ERR","code":"rate_limited","msg":"conn publish rate exceeded","corr":"\u00e9","#,
            r#""retry_after_ms":15}"#
        );
        assert_eq!(encode_err(Some(&corr()), &failure, None), expected);

        let (topic, group) = ("t".parse().unwrap(), "g".parse().unwrap());
        let failure = Failure::new(ErrorCode::Forbidden, "no");
        let expected = r#"{"op":"ERR","code":"forbidden","msg":"no","topic":"t","group":"g"}"#;
        assert_eq!(encode_err(None, &failure, Some((&topic, Some(&group)))), expected);
        let expected = r#"{"op":"ERR","code":"forbidden","msg":"no","topic":"t","group":null}"#;
        assert_eq!(encode_err(None, &failure, Some((&topic, None))), expected);
    }

    fn event(topic: &TopicName) -> Event {
        let new = NewEvent {
            id: "i".into(),
            id_given: true,
            ts: 1,
            key: None,
            headers: vec![],
            payload: r#"{"n":1e400,"s":"\u00e9 ü"}"#.into(),
            tags: vec![],
            caused_by: vec![],
            sid: None,
        };
        let place = Place {
            seq: 1,
            at: 1,
            partition: 0,
            ordinal: 1,
        };
        Event::place(topic, &new, place)
    }

    #[test]
    fn an_event_frame_is_as_large_as_it_was_computed() {
        let topic = "a.b-c".parse().unwrap();
        let group: GroupName = "team:billing".parse().unwrap();
        let event = event(&topic);
        let lease = |max_attempts, ack_deadline_ms| Lease {
            max_attempts,
            ack_deadline_ms,
        };
        for (group, attempt, lease) in [
            (None, 0, None),
            (Some(&group), 9, None),
            (Some(&group), 10, Some(lease(1_000, 3_600_000))),
            (Some(&group), u32::MAX, Some(lease(u32::MAX, u64::MAX))),
            (Some(&group), 1, Some(lease(0, 0))),
        ] {
            let frame = encode_event(&topic, group, &event, attempt, lease);
            assert_eq!(frame.capacity(), frame.len(), "{frame}");
            assert!(frame.contains(std::str::from_utf8(&event.json).unwrap()));
        }
        let ephemeral = encode_event(&topic, None, &event, 1, None);
        assert!(
            ephemeral.starts_with(r#"{"op":"EVENT","topic":"a.b-c","group":null,"event":{"id":"i""#),
            "{ephemeral}"
        );
        assert!(ephemeral.ends_with(r#","ctx":{"attempt":1}}"#), "{ephemeral}");
    }

    #[test]
    fn an_event_that_is_no_text_gives_a_frame_all_the_same() {
        let topic = "t".parse().unwrap();
        let mut event = event(&topic);
        event.json = vec![b'"', 0xff, b'"'].into();
        assert!(encode_event(&topic, None, &event, 1, None).contains("\"\u{fffd}\""));
    }
}
