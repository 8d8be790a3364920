//! This gateway among the others on its store: its lease, its groups, and the news of what the others wrote.
//!
//! There is no word between gateways: each keeps its lease in the store (`lease`), looks there whether a group that it
//! stands by for is free, and how far topics are (`news`). Where the store is this process's own there is no node, and
//! none of this costs anything.

mod lease;
mod news;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::lease::Lease;
pub(crate) use self::lease::keep;
pub(crate) use self::news::{poll, watch};
use super::handle::Handle;
use super::messages::LookAtClaim;
use super::subscription::SubscriptionActor;
use crate::domain::{GroupName, TopicName};
use crate::store::Cluster;

/// What tells groups apart.
type GroupKey = (TopicName, GroupName);

/// A group that runs here and may run elsewhere too.
struct Entry {
    handle: Handle<SubscriptionActor>,
    /// Whether it waits for the group to be free.
    waits: bool,
}

/// This gateway among the others. See the [module](self).
pub struct Node {
    store: Arc<dyn Cluster>,
    lease: Mutex<Arc<Lease>>,
    groups: Mutex<HashMap<GroupKey, Entry>>,
    /// News that were not looked at: one for each topic, however many came.
    hints: Mutex<HashMap<TopicName, u64>>,
}

impl Node {
    /// A gateway that has no lease yet.
    pub fn new(store: Arc<dyn Cluster>) -> Node {
        Node {
            store,
            lease: Mutex::new(Arc::new(Lease::new())),
            groups: Mutex::default(),
            hints: Mutex::default(),
        }
    }

    /// The lease under which groups are claimed now; it may be over.
    pub fn lease(&self) -> Arc<Lease> {
        lock(&self.lease).clone()
    }

    /// Notes a group that runs here; `waits` says whether it waits for another gateway to let it go.
    pub fn note_group(&self, key: GroupKey, handle: Handle<SubscriptionActor>, waits: bool) {
        lock(&self.groups).insert(key, Entry { handle, waits });
    }

    /// Forgets a group that no longer runs, unless another actor runs it by now.
    pub fn forget_group(&self, key: &GroupKey, handle: &Handle<SubscriptionActor>) {
        let mut groups = lock(&self.groups);
        if groups.get(key).is_some_and(|entry| entry.handle.is_same(handle)) {
            groups.remove(key);
        }
    }

    /// How many groups wait here for another gateway to let them go.
    pub fn standing_by(&self) -> usize {
        lock(&self.groups).values().filter(|entry| entry.waits).count()
    }

    /// The newest that was heard of a topic and not looked at.
    pub fn take_hint(&self, topic: &TopicName) -> Option<u64> {
        lock(&self.hints).remove(topic)
    }

    /// Keeps a hint. True: the topic has to be told to look.
    fn keep_hint(&self, topic: &TopicName, tail: u64) -> bool {
        match lock(&self.hints).entry(topic.clone()) {
            std::collections::hash_map::Entry::Occupied(mut known) => {
                let newest = tail.max(*known.get());
                known.insert(newest);
                false
            }
            std::collections::hash_map::Entry::Vacant(none) => {
                none.insert(tail);
                true
            }
        }
    }

    /// The lease began or was lost: all groups look what that means for them.
    fn wake_groups(&self) {
        for entry in lock(&self.groups).values() {
            entry.handle.post(LookAtClaim);
        }
    }

    fn waiting_groups(&self) -> Vec<(GroupKey, Handle<SubscriptionActor>)> {
        let groups = lock(&self.groups);
        let waiting = groups.iter().filter(|(_, entry)| entry.waits);
        waiting
            .map(|(key, entry)| (key.clone(), entry.handle.clone()))
            .collect()
    }
}

/// Held for a moment only, and never over a panic that could leave it half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
