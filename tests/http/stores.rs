//! The stores that the cases are run on; each case becomes a test of each.

use tempfile::TempDir;
use tidegate::actors::shared::Timing;
use tidegate::actors::supervision::Faults;

use crate::support::TestGateway;

/// Makes a test of each store from each case, an `async fn(Kind)`.
macro_rules! on_every_store {
    ($($case:ident),+ $(,)?) => {
        $(mod $case {
            crate::stores::on_store!(memory, Memory, $case);
            crate::stores::on_store!(embedded, Embedded, $case);
        })+
    };
}
pub(crate) use on_every_store;

macro_rules! on_store {
    ($name:ident, $kind:ident, $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            super::$case(crate::stores::Kind::$kind).await;
        }
    };
}
pub(crate) use on_store;

/// A kind of store.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Memory,
    Embedded,
}

/// A gateway on a store of its own.
pub struct World {
    pub gateway: TestGateway,
    pub _folder: TempDir,
}

impl Kind {
    /// What a configuration says of it.
    pub fn settings(self, folder: &TempDir) -> Vec<String> {
        match self {
            Kind::Memory => vec!["store.kind=memory".to_owned()],
            Kind::Embedded => vec![
                "store.kind=embedded".to_owned(),
                format!("store.path={}", folder.path().join("data").display()),
            ],
        }
    }

    /// Starts a gateway.
    pub fn start(self, set: &[&str]) -> World {
        self.start_with(set, Faults::default())
    }

    /// The same, with faults.
    pub fn start_with(self, set: &[&str], faults: Faults) -> World {
        let folder = tempfile::tempdir().unwrap();
        let own = self.settings(&folder);
        let set: Vec<&str> = own.iter().map(String::as_str).chain(set.iter().copied()).collect();
        World {
            gateway: TestGateway::start_with(&set, Timing::default(), faults),
            _folder: folder,
        }
    }
}
