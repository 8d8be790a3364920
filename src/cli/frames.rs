//! Frames as a client writes and reads them: pure text in, text out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::{GroupName, StartFrom, TopicName};

/// What the gateway said no with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {msg}")]
pub(super) struct Refusal {
    pub code: String,
    pub msg: String,
    pub retry_after_ms: Option<u64>,
}

impl Refusal {
    /// Whether the same request may be taken later.
    pub fn is_temporary(&self) -> bool {
        matches!(self.code.as_str(), "rate_limited" | "overloaded" | "store_unavailable")
    }

    /// Whether the batch has more events than a bucket can ever hold.
    pub fn is_batch_too_large(&self) -> bool {
        self.code == "bad_request" && self.msg.contains("capacity")
    }
}

/// What an `OK` may carry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub ids: Vec<String>,
    pub seqs: Vec<u64>,
}

/// A frame from the gateway, as far as a client cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Incoming {
    /// To the request with this number; an error may be to none.
    Answer {
        corr: Option<u64>,
        result: Result<Done, Refusal>,
    },
    /// An event, whole, as JSON.
    Event { id: String, json: String },
    /// Something that this client did not ask for.
    Other,
}

#[derive(Deserialize)]
struct RawFrame {
    op: String,
    corr: Option<serde_json::Value>,
    code: Option<String>,
    msg: Option<String>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    seqs: Vec<u64>,
    event: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RawEvent {
    id: String,
}

/// Reads a frame from the gateway.
pub(super) fn parse(text: &str) -> Result<Incoming, serde_json::Error> {
    let frame: RawFrame = serde_json::from_str(text)?;
    let corr = frame.corr.and_then(|corr| corr.as_u64());
    Ok(match (frame.op.as_str(), frame.event) {
        ("OK", _) => Incoming::Answer {
            corr,
            result: Ok(Done {
                ids: frame.ids,
                seqs: frame.seqs,
            }),
        },
        ("ERR", _) => Incoming::Answer {
            corr,
            result: Err(Refusal {
                code: frame.code.unwrap_or_default(),
                msg: frame.msg.unwrap_or_default(),
                retry_after_ms: frame.retry_after_ms,
            }),
        },
        ("EVENT", Some(event)) => {
            let RawEvent { id } = serde_json::from_str(event.get())?;
            Incoming::Event {
                id,
                json: event.get().to_owned(),
            }
        }
        _ => Incoming::Other,
    })
}

/// A request, without the number that its answer repeats.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Request<'a> {
    Auth {
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<&'a str>,
    },
    PublishBatch {
        topic: &'a str,
        events: Vec<PublishEvent<'a>>,
    },
    Subscribe {
        topic: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<&'a str>,
        opts: SubscribeOpts<'a>,
    },
    Unsubscribe {
        topic: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<&'a str>,
    },
    Ack {
        topic: &'a str,
        group: &'a str,
        ids: &'a [String],
    },
}

/// One event of a batch.
#[derive(Debug, Serialize)]
pub(super) struct PublishEvent<'a> {
    pub payload: &'a RawValue,
    pub opts: PublishOpts<'a>,
}

/// What an event has besides its payload.
#[derive(Debug, Serialize)]
pub(super) struct PublishOpts<'a> {
    pub id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub tags: &'a [String],
}

/// Where a subscription begins, and how much it takes at a time.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubscribeOpts<'a> {
    from: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u64>,
}

impl<'a> Request<'a> {
    /// A request to subscribe.
    pub fn subscribe(
        topic: &'a TopicName,
        group: Option<&'a GroupName>,
        start: &'a StartFrom,
        max_in_flight: Option<u64>,
    ) -> Self {
        let (from, ts, after_id) = match start {
            StartFrom::Latest => ("latest", None, None),
            StartFrom::Earliest => ("earliest", None, None),
            StartFrom::Ts(ts) => ("ts", Some(*ts), None),
            StartFrom::AfterId(id) => ("afterId", None, Some(id.as_ref())),
        };
        Request::Subscribe {
            topic: topic.as_str(),
            group: group.map(GroupName::as_str),
            opts: SubscribeOpts {
                from,
                ts,
                after_id,
                max_in_flight,
            },
        }
    }

    /// The frame's text.
    pub fn to_text(&self, corr: u64) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Numbered<'a> {
            #[serde(flatten)]
            request: &'a Request<'a>,
            corr: u64,
        }
        serde_json::to_string(&Numbered { request: self, corr })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(request: &Request<'_>) -> serde_json::Value {
        serde_json::from_str(&request.to_text(7).unwrap()).unwrap()
    }

    #[test]
    fn requests_have_what_was_given_and_no_more() {
        assert_eq!(text(&Request::Auth { token: None }), json!({"op": "AUTH", "corr": 7}));
        assert_eq!(
            text(&Request::Auth { token: Some("t") }),
            json!({"op": "AUTH", "corr": 7, "token": "t"})
        );
        let topic = "a.b".parse().unwrap();
        let group = "g".parse().unwrap();
        let after = StartFrom::AfterId("x".into());
        assert_eq!(
            text(&Request::subscribe(&topic, Some(&group), &after, Some(3))),
            json!({"op": "SUBSCRIBE", "corr": 7, "topic": "a.b", "group": "g",
                "opts": {"from": "afterId", "afterId": "x", "maxInFlight": 3}})
        );
        assert_eq!(
            text(&Request::subscribe(&topic, None, &StartFrom::Ts(5), None)),
            json!({"op": "SUBSCRIBE", "corr": 7, "topic": "a.b", "opts": {"from": "ts", "ts": 5}})
        );
        assert_eq!(
            text(&Request::Unsubscribe {
                topic: "a",
                group: None
            }),
            json!({"op": "UNSUBSCRIBE", "corr": 7, "topic": "a"})
        );
        let ids = ["i".to_owned()];
        assert_eq!(
            text(&Request::Ack {
                topic: "a",
                group: "g",
                ids: &ids
            }),
            json!({"op": "ACK", "corr": 7, "topic": "a", "group": "g", "ids": ["i"]})
        );
    }

    #[test]
    fn a_published_payload_keeps_its_text() {
        let payload = RawValue::from_string("{\"n\": 1.0, \"e\": \"\\u00e9\"}".to_owned()).unwrap();
        let opts = PublishOpts {
            id: "i",
            key: None,
            headers: BTreeMap::new(),
            tags: &[],
        };
        let events = vec![PublishEvent {
            payload: &payload,
            opts,
        }];
        let text = Request::PublishBatch { topic: "a", events }.to_text(1).unwrap();
        assert!(
            text.contains("\"payload\":{\"n\": 1.0, \"e\": \"\\u00e9\"},\"opts\":{\"id\":\"i\"}"),
            "{text}"
        );
        assert!(text.contains("\"op\":\"PUBLISH_BATCH\""), "{text}");
    }

    #[test]
    fn answers_and_events_are_told_apart() {
        let done = Done {
            ids: vec!["i".into()],
            seqs: vec![4],
        };
        assert_eq!(
            parse(r#"{"op":"OK","corr":3,"ids":["i"],"seqs":[4],"new":1}"#).unwrap(),
            Incoming::Answer {
                corr: Some(3),
                result: Ok(done)
            }
        );
        let refusal = Refusal {
            code: "rate_limited".into(),
            msg: "slow".into(),
            retry_after_ms: Some(9),
        };
        assert_eq!(
            parse(r#"{"op":"ERR","code":"rate_limited","msg":"slow","retry_after_ms":9}"#).unwrap(),
            Incoming::Answer {
                corr: None,
                result: Err(refusal)
            }
        );
        let event = r#"{"id":"i","seq":1,"payload":1.0}"#;
        assert_eq!(
            parse(&format!(
                r#"{{"op":"EVENT","topic":"a","group":null,"event":{event},"ctx":{{}}}}"#
            ))
            .unwrap(),
            Incoming::Event {
                id: "i".into(),
                json: event.into()
            }
        );
        assert_eq!(parse(r#"{"op":"REBALANCE"}"#).unwrap(), Incoming::Other);
        assert!(parse("{").is_err() && parse(r#"{"op":"EVENT","event":{}}"#).is_err());
    }

    #[test]
    fn some_refusals_can_be_overcome() {
        let refusal = |code: &str, msg: &str| Refusal {
            code: code.into(),
            msg: msg.into(),
            retry_after_ms: None,
        };
        assert!(refusal("overloaded", "").is_temporary() && !refusal("bad_topic", "").is_temporary());
        assert!(refusal("bad_request", "more than the bucket's capacity of 5").is_batch_too_large());
        assert!(!refusal("bad_request", "events: missing").is_batch_too_large());
        assert_eq!(refusal("bad_topic", "no").to_string(), "bad_topic: no");
    }
}
