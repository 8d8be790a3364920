//! Two stores as one: topics that ask for `memory` are kept there, all others in the durable store.
//!
//! A topic's settings decide, and they are the same for all that belongs to a topic: its groups and marks, and its dead
//! letters, which the configuration keeps at least as safe as the topic itself.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join};

use super::{
    CommitResult, GroupState, LineRange, Lines, MemoryStore, Store, StoreError, StoreOptions, TopicRules, TopicState,
    Write,
};
use crate::domain::{Durability, Event, GroupName, TopicName};

/// Sends each topic to the store that its durability asks for. Each of the two counts its own topics against
/// [`StoreOptions::max_topics`].
pub struct RoutedStore {
    rules: TopicRules,
    memory: MemoryStore,
    durable: Arc<dyn Store>,
}

impl RoutedStore {
    /// A memory store beside the durable one.
    pub fn new(durable: Arc<dyn Store>, options: StoreOptions) -> RoutedStore {
        RoutedStore {
            rules: Arc::clone(&options.rules),
            memory: MemoryStore::new(options),
            durable,
        }
    }

    fn is_in_memory(&self, topic: &TopicName) -> bool {
        (self.rules)(topic).durability == Durability::Memory
    }

    fn of(&self, topic: &TopicName) -> &dyn Store {
        if self.is_in_memory(topic) {
            &self.memory
        } else {
            &*self.durable
        }
    }
}

impl Store for RoutedStore {
    fn commit(&self, batch: Vec<Write>, now_ms: u64) -> BoxFuture<'static, CommitResult> {
        let in_memory: Vec<bool> = batch.iter().map(|write| self.is_in_memory(write.topic())).collect();
        if !in_memory.contains(&true) {
            return self.durable.commit(batch, now_ms);
        }
        let mut parts = (Vec::new(), Vec::new());
        for (write, in_memory) in batch.into_iter().zip(&in_memory) {
            let part = if *in_memory { &mut parts.0 } else { &mut parts.1 };
            part.push(write);
        }
        let memory = self.memory.commit(parts.0, now_ms);
        let durable = (!parts.1.is_empty()).then(|| self.durable.commit(parts.1, now_ms));
        Box::pin(async move {
            let mut from_memory = memory.await?.into_iter();
            let mut from_durable = match durable {
                Some(durable) => durable.await?.into_iter(),
                None => Vec::new().into_iter(),
            };
            let answers = in_memory.iter().filter_map(|in_memory| {
                if *in_memory {
                    from_memory.next()
                } else {
                    from_durable.next()
                }
            });
            Ok(answers.collect())
        })
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<(TopicName, TopicState)>, StoreError>> {
        let both = join(self.memory.topics(), self.durable.topics());
        Box::pin(async move {
            let (memory, durable) = both.await;
            let mut topics = memory?;
            topics.extend(durable?);
            topics.sort_by(|one, other| one.0.cmp(&other.0));
            Ok(topics)
        })
    }

    fn topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<Option<TopicState>, StoreError>> {
        self.of(topic).topic(topic)
    }

    fn read(
        &self,
        topic: &TopicName,
        from_seq: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.of(topic).read(topic, from_seq, max_events, max_bytes)
    }

    fn read_lines(&self, topic: &TopicName, range: LineRange) -> BoxFuture<'static, Result<Lines, StoreError>> {
        self.of(topic).read_lines(topic, range)
    }

    fn read_seqs(&self, topic: &TopicName, seqs: Vec<u64>) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        self.of(topic).read_seqs(topic, seqs)
    }

    fn seqs_of_ids(
        &self,
        topic: &TopicName,
        ids: Vec<Box<str>>,
    ) -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> {
        self.of(topic).seqs_of_ids(topic, ids)
    }

    fn seq_at_ts(&self, topic: &TopicName, ts: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.of(topic).seq_at_ts(topic, ts)
    }

    fn newest_by_key(
        &self,
        topic: &TopicName,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<Arc<Event>>, StoreError>> {
        self.of(topic).newest_by_key(topic, key)
    }

    fn ordinals_at(&self, topic: &TopicName, seq: u64) -> BoxFuture<'static, Result<Vec<u64>, StoreError>> {
        self.of(topic).ordinals_at(topic, seq)
    }

    fn groups(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<GroupName>, StoreError>> {
        self.of(topic).groups(topic)
    }

    fn group(
        &self,
        topic: &TopicName,
        group: &GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupState>, StoreError>> {
        self.of(topic).group(topic, group)
    }

    fn seen(
        &self,
        topic: &TopicName,
        group: &GroupName,
        id: &str,
        now_ms: u64,
    ) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.of(topic).seen(topic, group, id, now_ms)
    }

    fn ready(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.durable.ready()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        let both = join(self.memory.close(), self.durable.close());
        Box::pin(async move {
            let (memory, durable) = both.await;
            memory.and(durable)
        })
    }
}
