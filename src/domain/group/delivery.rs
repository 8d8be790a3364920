//! Deliveries and how they end: leases, acks, failures, redelivery.

use xxhash_rust::xxh3::xxh3_64;

use super::entry::State;
use super::{AckOutcome, Delivery, Group, MemberId, Want};
use crate::domain::BACKOFF_MS_MAX;

/// The shortest lease that a MODACK can ask for.
const LEASE_MS_MIN: u64 = 1_000;
/// The most of a reason that is kept, in bytes.
const REASON_BYTES_MAX: usize = 512;

impl Group {
    /// Gives out at most `max` events, lowest seq first, to the members in turn; call it again while it returns `max`.
    pub fn deliver(&mut self, now_ms: u64, max: usize) -> Vec<Delivery> {
        self.tick(now_ms);
        let mut deliveries = Vec::new();
        if self.paused {
            return deliveries;
        }
        let mut takers = self.members.takers();
        while deliveries.len() < max
            && let Some((seq, size)) = self.window.next_deliverable()
            && let Some((member, ack_timeout_ms)) = self.members.give(&mut takers, seq, size)
        {
            let until_ms = now_ms.saturating_add(ack_timeout_ms);
            let handed_out = self.window.update(seq, |entry| {
                entry.state = State::Leased { member, until_ms };
                entry.delivered_ms = now_ms;
                (entry.body.take(), entry.attempts)
            });
            if let Some((Some(event), failed)) = handed_out {
                deliveries.push(Delivery {
                    member,
                    event,
                    attempt: failed.saturating_add(1),
                    ack_timeout_ms,
                });
            }
        }
        deliveries
    }

    /// Members with room for which an event is ready but whose credit does not suffice. Each is named once until its
    /// credit or its pause state was touched.
    pub fn wants(&mut self) -> Vec<Want> {
        let mut wants = Vec::new();
        let Some((_, next_bytes)) = self.window.next_deliverable().filter(|_| !self.paused) else {
            return wants;
        };
        let mut bytes_up_to = Vec::new();
        for (id, member) in self.members.iter_mut() {
            if member.room() == 0 || member.asked_for_credit || member.can_afford(next_bytes) {
                continue;
            }
            if bytes_up_to.is_empty() {
                let sizes = self.window.deliverables().map(|(_, size)| size);
                bytes_up_to.extend(sizes.scan(0_usize, |sum, size| {
                    *sum = sum.saturating_add(size);
                    Some(*sum)
                }));
            }
            let most = member.room().min(member.settings.batch_size.max(1) as usize);
            let events = most.min(bytes_up_to.len());
            member.asked_for_credit = true;
            wants.push(Want {
                member: id,
                events: u32::try_from(events).unwrap_or(u32::MAX),
                bytes: bytes_up_to.get(events.saturating_sub(1)).copied().unwrap_or(next_bytes),
                next_bytes,
                lacks_bytes_only: member.credit_events > 0,
            });
        }
        wants
    }

    /// Acks an event of the window, whoever holds it.
    pub fn ack(&mut self, id: &str) -> AckOutcome {
        match self.window.seq_of(id) {
            Some(seq) => {
                self.settle(seq);
                AckOutcome::Done
            }
            None => AckOutcome::Lookup,
        }
    }

    /// When an event of the window came, by its id.
    pub fn came_ms(&self, id: &str) -> Option<u64> {
        self.came_ms_of(self.window.seq_of(id)?)
    }

    /// When an event of the window came, by its seq.
    pub fn came_ms_of(&self, seq: u64) -> Option<u64> {
        Some(self.window.get(seq)?.at)
    }

    /// Acks an event of the window by its seq; no effect on one that is not (or not any more) in it.
    pub fn ack_seq(&mut self, seq: u64) {
        self.settle(seq);
    }

    /// Ends a lease as failed; the event comes again after `delay_ms`, or else the back-off. False where this member does
    /// not hold it.
    pub fn nack(
        &mut self,
        member: MemberId,
        id: &str,
        reason: Option<&str>,
        delay_ms: Option<u64>,
        now_ms: u64,
    ) -> bool {
        let Some(seq) = self.held_seq(member, id) else {
            return false;
        };
        self.end_as_failed(
            seq,
            reason.unwrap_or("nack"),
            |backoff| delay_ms.unwrap_or(backoff),
            now_ms,
        );
        true
    }

    /// Lets a lease end `extend_ms` from now. The answer is its new length; `None` where this member does not hold it.
    pub fn modack(&mut self, member: MemberId, id: &str, extend_ms: u64, now_ms: u64) -> Option<u64> {
        let seq = self.held_seq(member, id)?;
        let length = extend_ms.max(LEASE_MS_MIN);
        let until_ms = now_ms.saturating_add(length);
        self.window
            .update(seq, |entry| entry.state = State::Leased { member, until_ms })?;
        Some(length)
    }

    /// Does what is due: leases that are over end as failed, what waited long enough is ready.
    pub fn tick(&mut self, now_ms: u64) {
        while let Some((_, seq)) = self.window.next_timed().filter(|&(at, _)| at <= now_ms) {
            match self.window.get(seq).map(|entry| entry.state) {
                Some(State::Leased { .. }) => self.end_as_failed(seq, "ack timeout", |_| 0, now_ms),
                _ => self.make_ready(seq),
            }
        }
    }

    /// When to call [`Group::tick`]: the earliest end of a lease or of a wait.
    pub fn next_deadline(&self) -> Option<u64> {
        self.window.next_timed().map(|(at, _)| at)
    }

    /// A member left while it held this: it comes again at once the first time, then with the back-off.
    pub(super) fn end_by_departure(&mut self, seq: u64, now_ms: u64) {
        let first = self.window.get(seq).is_some_and(|entry| entry.attempts == 0);
        self.end_as_failed(seq, "member left", |backoff| if first { 0 } else { backoff }, now_ms);
    }

    /// Makes an event deliverable, or a dead letter where it failed too often. Ends its lease, if any, uncounted.
    pub(super) fn make_ready(&mut self, seq: u64) {
        self.release(seq);
        let max_attempts = self.settings.max_attempts;
        let spent = self.window.update(seq, |entry| {
            let spent = entry.attempts >= max_attempts;
            if spent {
                // Read again as a dead letter: what is ready and what is dying have bounds of their own.
                entry.body = None;
            }
            entry.state = if spent { State::Dying } else { State::Ready };
            spent
        });
        if spent == Some(true) && !self.dead_letters {
            self.unsaved.dropped_dead = self.unsaved.dropped_dead.saturating_add(1);
            self.settle(seq);
        }
    }

    /// Ends a lease as a failed attempt. `wait` chooses how long the event waits, from the back-off.
    fn end_as_failed(&mut self, seq: u64, reason: &str, wait: impl FnOnce(u64) -> u64, now_ms: u64) {
        self.release(seq);
        let settings = &self.settings;
        let failed = self.window.update(seq, |entry| {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.reason = cut(reason).into();
            let wait_ms = wait(backoff_ms(settings.backoff_ms, entry.attempts, seq, now_ms));
            entry.due_ms = now_ms.saturating_add(wait_ms);
            entry.state = State::Waiting;
            let is_over = wait_ms == 0 || entry.attempts >= settings.max_attempts;
            (entry.partition, is_over)
        });
        if let Some((partition, is_over)) = failed {
            self.unsaved.partition(partition).retries.insert(seq);
            if is_over {
                self.make_ready(seq);
            }
        }
    }

    /// Acks an event of the window, in whatever state it is. False where it is not in the window.
    pub(super) fn settle(&mut self, seq: u64) -> bool {
        self.release(seq);
        let Some(entry) = self.window.remove(seq) else {
            return false;
        };
        self.note_settled(seq, &entry);
        true
    }

    fn held_seq(&self, member: MemberId, id: &str) -> Option<u64> {
        let seq = self.window.seq_of(id)?;
        self.window.get(seq)?.is_with(member).then_some(seq)
    }

    /// Takes a leased event out of its member's hands.
    pub(super) fn release(&mut self, seq: u64) {
        if let Some(State::Leased { member, .. }) = self.window.get(seq).map(|entry| entry.state) {
            self.members.release(member, seq);
        }
    }
}

/// The wait after the `failed`-th failure: doubled each time, and between half and all of that, so that events that failed
/// together do not all come back together.
pub(super) fn backoff_ms(first_ms: u64, failed: u32, seq: u64, now_ms: u64) -> u64 {
    let factor = 1_u64.checked_shl(failed.saturating_sub(1)).unwrap_or(u64::MAX);
    let full = first_ms.saturating_mul(factor).min(BACKOFF_MS_MAX);
    let half = full.div_ceil(2);
    let mut seed = [0; 20];
    seed[..8].copy_from_slice(&seq.to_le_bytes());
    seed[8..16].copy_from_slice(&now_ms.to_le_bytes());
    seed[16..].copy_from_slice(&failed.to_le_bytes());
    half + xxh3_64(&seed) % (full - half + 1)
}

fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_most_and_keeps_to_its_upper_half() {
        for (failed, full) in [
            (1, 100),
            (2, 200),
            (5, 1_600),
            (9, 25_600),
            (10, 30_000),
            (1_000, 30_000),
        ] {
            let waits: Vec<u64> = (0..200).map(|seq| backoff_ms(100, failed, seq, 7)).collect();
            assert!(
                waits.iter().all(|wait| (full / 2..=full).contains(wait)),
                "{failed}: {waits:?}"
            );
            let spread = waits.iter().max().unwrap() - waits.iter().min().unwrap();
            assert!(spread > full / 4, "{failed}: no jitter");
        }
        assert_eq!(backoff_ms(0, 1_000, 1, 1), 0);
        assert_eq!(backoff_ms(1, 1, 1, 1), 1);
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = format!("{}é!", "x".repeat(511));
        assert_eq!(cut(&long), "x".repeat(511));
    }
}
