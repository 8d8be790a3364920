//! What the clients of one topic saw, over all lives of the gateway.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

/// An event as it stands in an `EVENT` frame.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    pub id: String,
    pub seq: u64,
    pub payload: Box<RawValue>,
}

/// What one group knows of one event.
#[derive(Debug)]
struct Delivered {
    attempt: u32,
    /// A NACK was sent, and perhaps counted.
    nack_sent: bool,
    /// No later delivery has a lower attempt: a NACK of the one before was answered `OK`. It may come again before that.
    least: u32,
    /// How many connections of the group had been given up when it came.
    drops: u32,
}

pub struct History {
    pub topic: &'static str,
    /// Whether the store is unavailable at times: then a request may be answered so, and nothing is known of it.
    pub store_fails: bool,
    pub sent: u64,
    published: HashMap<u64, (String, String)>,
    delivered: HashMap<u64, Delivered>,
    acked: HashSet<u64>,
    ack_sent: HashSet<u64>,
    pub drops: u32,
    redelivered: u64,
    nacks_kept: u64,
}

impl History {
    pub fn new(topic: &'static str) -> History {
        History {
            topic,
            store_fails: false,
            sent: 0,
            published: HashMap::new(),
            delivered: HashMap::new(),
            acked: HashSet::new(),
            ack_sent: HashSet::new(),
            drops: 0,
            redelivered: 0,
            nacks_kept: 0,
        }
    }

    /// The text of the next payload: no two are the same, and the numbers' form is worth keeping.
    pub fn next_payload(&mut self) -> String {
        self.sent += 1;
        payload(self.sent)
    }

    pub fn answered(&mut self, seq: u64, id: String, payload: String) {
        let before = self.published.insert(seq, (id, payload));
        assert!(before.is_none(), "{}: seq {seq} was given twice", self.topic);
    }

    /// An event came to the group. Whether it may, and with this attempt?
    pub fn delivered(&mut self, seq: u64, attempt: u32) {
        let topic = self.topic;
        assert!(
            !self.acked.contains(&seq),
            "{topic}: {seq} came after its ack was answered"
        );
        let before = self.delivered.get(&seq);
        let (least, base) = match before {
            Some(before) => (before.least, before.attempt + u32::from(before.nack_sent)),
            None => (1, 1),
        };
        let most = base + self.drops - before.map_or(0, |before| before.drops);
        assert!(
            (least..=most).contains(&attempt),
            "{topic}: {seq} came with attempt {attempt}, not {least} to {most}: {before:?}"
        );
        self.redelivered += u64::from(before.is_some());
        self.nacks_kept += u64::from(least > 1);
        let drops = self.drops;
        let entry = Delivered {
            attempt,
            nack_sent: false,
            least,
            drops,
        };
        self.delivered.insert(seq, entry);
    }

    pub fn ack_sent(&mut self, seq: u64) {
        self.ack_sent.insert(seq);
    }

    pub fn acked(&mut self, seq: u64) {
        self.acked.insert(seq);
    }

    pub fn nack_sent(&mut self, seq: u64) {
        self.delivered.get_mut(&seq).unwrap().nack_sent = true;
    }

    pub fn nacked(&mut self, seq: u64, attempt: u32) {
        let delivered = self.delivered.get_mut(&seq).unwrap();
        delivered.least = delivered.least.max(attempt + 1);
    }

    /// The highest seq that a publisher was told.
    pub fn newest(&self) -> u64 {
        self.published.keys().copied().max().unwrap_or(0)
    }

    /// The seqs that the group must still get: neither acked nor perhaps acked.
    pub fn owed(&self, log: &[Event]) -> HashSet<u64> {
        let seqs = log.iter().map(|event| event.seq);
        seqs.filter(|seq| !self.ack_sent.contains(seq)).collect()
    }

    pub fn check_log(&self, log: &[Event]) {
        let topic = self.topic;
        let seqs: Vec<u64> = log.iter().map(|event| event.seq).collect();
        assert_eq!(
            seqs,
            (1..=log.len() as u64).collect::<Vec<_>>(),
            "{topic}: no seq twice or left out"
        );
        let texts: HashSet<&str> = log.iter().map(|event| event.payload.get()).collect();
        let ids: HashSet<&str> = log.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(
            (texts.len(), ids.len()),
            (log.len(), log.len()),
            "{topic}: an event is there twice"
        );
        let known: HashSet<String> = (1..=self.sent).map(payload).collect();
        assert!(
            texts.iter().all(|text| known.contains(*text)),
            "{topic}: an event that nobody sent"
        );
        for (seq, (id, text)) in &self.published {
            let event = log.get(*seq as usize - 1);
            let event = event.unwrap_or_else(|| panic!("{topic}: {seq} was answered OK and is not there"));
            assert_eq!((&event.id, event.payload.get()), (id, text.as_str()), "{topic}: {seq}");
        }
    }

    pub fn report(&self) -> String {
        format!(
            "{}: {} sent, {} answered OK, {} acks answered OK, {} redelivered, {} of them after a NACK that was answered, \
             {} connections given up",
            self.topic,
            self.sent,
            self.published.len(),
            self.acked.len(),
            self.redelivered,
            self.nacks_kept,
            self.drops,
        )
    }

    /// That something was tried at all.
    pub fn check_minimums(&self, crashes: u64) {
        assert!(self.published.len() as u64 >= 10 * crashes, "few publishes");
        assert!(self.acked.len() as u64 >= 3 * crashes, "few acks");
        assert!(self.redelivered >= crashes, "few redeliveries");
        assert!(self.nacks_kept >= crashes / 2, "few kept attempts");
    }
}

fn payload(n: u64) -> String {
    format!("{{\"n\":{n},\"one\":1.0,\"e\":1e2,\"text\":\"\\u00e9\"}}")
}
