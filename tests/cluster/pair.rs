//! Gateways of this process on one store in memory, which can be frozen and cut off from the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;
use tidegate::store::{MemoryStore, Store, StoreOptions};

use crate::cut::CutStore;
use crate::http;
use crate::support::{DEADLINE, TestGateway};

/// Stops a gateway's actors where they stand, and lets them go on.
#[derive(Clone, Default)]
pub struct Freezer {
    frozen: Arc<(Mutex<bool>, Condvar)>,
    /// Where set, only those at this place stop; they alone decide when the freeze begins.
    at: Arc<Mutex<Option<&'static str>>>,
    /// Set once somebody stopped.
    pub stopped: Arc<AtomicBool>,
}

impl Freezer {
    pub fn freeze(&self) {
        *self.frozen.0.lock().unwrap() = true;
    }

    /// Freezes everything once an actor comes to this place.
    pub fn freeze_at(&self, place: &'static str) {
        *self.at.lock().unwrap() = Some(place);
    }

    pub fn thaw(&self) {
        *self.at.lock().unwrap() = None;
        *self.frozen.0.lock().unwrap() = false;
        self.frozen.1.notify_all();
    }

    fn pass(&self, place: &'static str) {
        if *self.at.lock().unwrap() == Some(place) {
            self.freeze();
        }
        let mut frozen = self.frozen.0.lock().unwrap();
        while *frozen {
            self.stopped.store(true, Ordering::SeqCst);
            frozen = self.frozen.1.wait(frozen).unwrap();
        }
    }

    fn faults(&self) -> Faults {
        let freezer = self.clone();
        Faults::new(move |place| freezer.pass(place))
    }
}

/// One of the gateways.
pub struct Member {
    pub gateway: TestGateway,
    pub freezer: Freezer,
    pub store: Arc<CutStore>,
}

impl Member {
    /// One of the gateway's figures.
    async fn figure(&self, name: &str) -> u64 {
        let (_, figures) = http::get(&self.gateway, "/metrics").await;
        let line = figures
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Waits until so many groups were lost.
    pub async fn until_lost(&self, groups: u64) {
        let wait = async {
            while self.figure("tidegate_groups_lost_total").await < groups {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait)
            .await
            .expect("a group that is lost");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A frozen gateway could not end.
        self.freezer.thaw();
        self.store.mend();
    }
}

/// Starts a gateway on a store that others use too.
pub fn join(store: &MemoryStore, set: &[&str]) -> Member {
    let (freezer, store) = (Freezer::default(), Arc::new(CutStore::new(store.clone())));
    let timing = Timing {
        poll: Duration::from_millis(50),
        ..Timing::default()
    };
    let given: Arc<dyn Store> = store.clone();
    let gateway = TestGateway::start_on(Some(given), set, timing, freezer.faults());
    Member {
        gateway,
        freezer,
        store,
    }
}

/// Two gateways on one store, with this lease.
pub fn pair(lease: &str) -> (MemoryStore, Member, Member) {
    let store = MemoryStore::shared(StoreOptions::default());
    let lease = format!("cluster.lease={lease}");
    let (one, two) = (join(&store, &[&lease]), join(&store, &[&lease]));
    (store, one, two)
}
