//! The stores that the suite is run on; each case becomes a test of each.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tidegate::domain::{Durability, TopicSettings, partition_of};
use tidegate::store::{EmbeddedStore, MemoryStore, MongoStore, RoutedStore, Store, StoreOptions};

use crate::bench::Factory;
use crate::replica_set;

struct Memory;

impl Factory for Memory {
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(options));
        Box::pin(async { store })
    }

    fn reopen(&self, _: Arc<dyn Store>, _: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }
}

mod memory {
    crate::suite::every_case!(super::Memory);
}

/// In memory, for several gateways of one process.
struct SharedMemory;

impl Factory for SharedMemory {
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(options));
        Box::pin(async { store })
    }

    fn reopen(&self, _: Arc<dyn Store>, _: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }
}

mod shared_memory {
    crate::suite::every_case!(super::SharedMemory);
}

/// In a folder of its own, which goes with it.
#[derive(Default)]
struct Embedded {
    folder: Mutex<Option<TempDir>>,
}

impl Factory for Embedded {
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move {
            let folder = tempfile::tempdir().unwrap();
            let store = EmbeddedStore::open(folder.path(), options).unwrap();
            *self.folder.lock().unwrap() = Some(folder);
            Arc::new(store) as Arc<dyn Store>
        })
    }

    fn reopen(&self, store: Arc<dyn Store>, options: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move {
            store.close().await.unwrap();
            let path = self.folder.lock().unwrap().as_ref().unwrap().path().to_path_buf();
            Some(Arc::new(EmbeddedStore::open(path, options).unwrap()) as Arc<dyn Store>)
        })
    }
}

mod embedded {
    crate::suite::every_case!(super::Embedded::default());
}

/// About half of the topics in memory, each with what belongs to it.
#[derive(Default)]
struct Routed {
    embedded: Embedded,
}

impl Factory for Routed {
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move {
            let rules = Arc::clone(&options.rules);
            let mixed = StoreOptions {
                rules: Arc::new(move |topic| TopicSettings {
                    durability: match partition_of(topic.origin(), 2) {
                        // Each of the two counts its own topics, so a limit is met within one of them.
                        0 if !topic.origin().starts_with("limit.") => Durability::Memory,
                        _ => Durability::Os,
                    },
                    ..rules(topic)
                }),
                ..options
            };
            let durable = self.embedded.open(mixed.clone()).await;
            Arc::new(RoutedStore::new(durable, mixed)) as Arc<dyn Store>
        })
    }

    fn reopen(&self, _: Arc<dyn Store>, _: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }
}

mod routed {
    crate::suite::every_case!(super::Routed::default());
}

/// In a database of its own, on a server that all share.
struct Mongo {
    database: String,
}

impl Mongo {
    fn new() -> Mongo {
        Mongo {
            database: replica_set::new_database(),
        }
    }
}

impl Factory for Mongo {
    fn open(&self, options: StoreOptions) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move {
            let store = MongoStore::open(replica_set::shared(), &self.database, options)
                .await
                .unwrap();
            Arc::new(store) as Arc<dyn Store>
        })
    }

    fn reopen(&self, store: Arc<dyn Store>, options: StoreOptions) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move {
            store.close().await.unwrap();
            Some(self.open(options).await)
        })
    }
}

mod mongodb {
    crate::suite::every_case!(super::Mongo::new());
}
