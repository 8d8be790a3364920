//! One test for each rule of a group, by hand; the model tests mix them.

mod deliveries;
mod durability;
mod reading;

use std::sync::Arc;

use super::{Changes, Group, MemberId};
use crate::domain::{Event, GroupSettings, MemberSettings, NewEvent, PartitionCursor, Place, Retry};

/// When every test begins.
const T0: u64 = 1_000_000;
const PARTITIONS: usize = 2;

/// A group and its log.
struct Bench {
    group: Group,
    log: Vec<Arc<Event>>,
}

impl Bench {
    fn new(settings: GroupSettings) -> Bench {
        let cursors = vec![PartitionCursor::default(); PARTITIONS];
        Bench {
            group: Group::new(settings, cursors, vec![], true),
            log: vec![],
        }
    }

    /// A group with this many events without a key in its log and one member with all the credit it can use.
    fn with_events(count: u64, settings: GroupSettings) -> Bench {
        let mut bench = Bench::new(settings);
        for _ in 0..count {
            bench.publish(None, 0, 10);
        }
        bench.join(1);
        bench
    }

    fn publish(&mut self, key: Option<&str>, partition: u32, filler: usize) -> u64 {
        let seq = self.log.len() as u64 + 1;
        let before = self.log.iter().filter(|event| event.partition == partition).count() as u64;
        let new = NewEvent {
            id: id(seq).into(),
            id_given: false,
            ts: 1,
            key: key.map(Into::into),
            headers: vec![],
            payload: format!("\"{}\"", "x".repeat(filler)).into(),
            tags: vec![],
            caused_by: vec![],
            sid: None,
        };
        let place = Place {
            seq,
            at: 1,
            partition,
            ordinal: before + 1,
        };
        self.log
            .push(Arc::new(Event::place(&"t".parse().unwrap(), &new, place)));
        seq
    }

    fn event(&self, seq: u64) -> Arc<Event> {
        self.log[seq as usize - 1].clone()
    }

    fn size(&self, seq: u64) -> usize {
        self.event(seq).json.len()
    }

    fn tail(&self) -> u64 {
        self.log.len() as u64
    }

    fn join(&mut self, member: MemberId) {
        self.join_with(member, MemberSettings::default());
        self.group.credit(member, 1_000_000, 1 << 40);
    }

    /// A member without credit.
    fn join_with(&mut self, member: MemberId, settings: MemberSettings) {
        self.group.join(member, settings);
    }

    /// Offers all that is new, asked for or not.
    fn offer_all(&mut self) {
        let from = self.group.read_position() as usize;
        self.group.offer(self.log[from..].to_vec(), self.tail());
    }

    fn load(&mut self, now_ms: u64) -> Vec<u64> {
        let seqs = self.group.take_loads(now_ms);
        let events = seqs.iter().map(|&seq| self.event(seq)).collect();
        self.group.loaded(&seqs, events);
        seqs
    }

    /// Reads and delivers all there is: member, seq and attempt of each.
    fn deliver_at(&mut self, now_ms: u64) -> Vec<(MemberId, u64, u32)> {
        let mut delivered = vec![];
        loop {
            if let Some(plan) = self.group.next_read(self.tail()) {
                let from = plan.from as usize - 1;
                let upto = self.log.len().min(from + plan.max_events);
                self.group.offer(self.log[from..upto].to_vec(), upto as u64);
            }
            let loads = self.load(now_ms);
            let deliveries = self.group.deliver(now_ms, 10);
            if deliveries.is_empty() && loads.is_empty() {
                return delivered;
            }
            delivered.extend(deliveries.iter().map(|it| (it.member, it.event.seq, it.attempt)));
        }
    }

    fn nack(&mut self, member: MemberId, seq: u64, delay_ms: Option<u64>, now_ms: u64) -> bool {
        self.group.nack(member, &id(seq), Some("broken"), delay_ms, now_ms)
    }

    fn save(&mut self) -> Changes {
        let changes = self.group.take_changes().expect("something to save");
        self.group.saved();
        changes
    }

    /// The group as it comes back from what is saved.
    fn restart(&mut self, cursors: Vec<PartitionCursor>, retries: Vec<Retry>) {
        self.group = Group::new(self.group.settings().clone(), cursors, retries, true);
        self.join(1);
    }
}

fn id(seq: u64) -> String {
    format!("e{seq}")
}

fn seqs(deliveries: &[(MemberId, u64, u32)]) -> Vec<u64> {
    deliveries.iter().map(|&(_, seq, _)| seq).collect()
}
