//! The stores that the suite is run on; each case becomes a test of each.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidegate::store::{MemoryStore, Store, StoreOptions};

use crate::bench::Factory;

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
