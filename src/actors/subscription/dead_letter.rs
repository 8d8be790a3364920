//! What becomes of an event that no member could handle: a record in `dlq.<topic>`.

use uuid::Uuid;

use crate::domain::group::DeadLetter;
use crate::domain::{GroupName, NewEvent, TopicName, push_number, push_string};

/// Ids of dead letters are derived in this namespace, so that a letter written twice is one letter.
const NAMESPACE: Uuid = Uuid::from_u128(0x7d0c_5b8e_9a43_5f0e_b1c6_2e4f_8a90_d317);

/// The record of a dead letter: `{topic, group, original, err, ts, attempts}`, with the original's key.
pub(super) fn dead_letter(
    topic: &TopicName,
    group: &GroupName,
    seeks: u64,
    dead: &DeadLetter,
    now_ms: u64,
) -> NewEvent {
    let DeadLetter {
        event,
        attempts,
        reason,
    } = dead;
    // Neither names nor numbers have a line break: the parts cannot run into each other.
    let name = format!("{topic}\n{group}\n{seeks}\n{}", event.id);
    let mut payload = Vec::with_capacity(event.json.len() + reason.len() + 256);
    payload.extend_from_slice(b"{\"topic\":");
    push_string(&mut payload, topic.as_str());
    payload.extend_from_slice(b",\"group\":");
    push_string(&mut payload, group.as_str());
    payload.extend_from_slice(b",\"original\":");
    payload.extend_from_slice(&event.json);
    payload.extend_from_slice(b",\"err\":");
    push_string(&mut payload, reason);
    push_number(&mut payload, b",\"ts\":", now_ms);
    push_number(&mut payload, b",\"attempts\":", u64::from(*attempts));
    payload.push(b'}');
    NewEvent {
        id: Uuid::new_v5(&NAMESPACE, name.as_bytes()).to_string().into(),
        id_given: true,
        ts: now_ms,
        key: event.key.clone(),
        headers: Vec::new(),
        // Made of texts and numbers that are UTF-8 each: nothing is replaced.
        payload: String::from_utf8_lossy(&payload).into(),
        tags: Vec::new(),
        caused_by: vec![event.id.clone()],
        sid: None,
    }
}
