//! The gateway as a whole: puts stores, actors and listeners together, runs them, and takes them down in order.

mod api;
mod caller;
mod client_address;
pub(crate) mod control;
mod guard;
mod listeners;
mod open_files;
mod origin;
mod refusal;
mod reload;
mod shutdown;
mod slow_heads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use actix::{Arbiter, ArbiterHandle};

pub(crate) use self::api::{EXPORT_FIRST_SEQ, EXPORT_LAST_SEQ};
use self::listeners::Listeners;
pub use self::reload::Reloader;
use crate::actors::connection::Connections;
use crate::actors::node::{self, Node};
use crate::actors::registry::Registry;
use crate::actors::shared::{Shared, Timing};
use crate::actors::store::StoreActor;
use crate::actors::subscription::Estates;
use crate::actors::supervision::{Faults, Supervision};
use crate::actors::sweeper;
use crate::actors::writer::Writer;
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::config::{Config, Exposure, Live, StoreKind, exposure};
use crate::store::{
    EmbeddedStore, MemoryStore, MongoError, MongoStore, OpenError, RoutedStore, Store, StoreError, StoreOptions,
};
use crate::telemetry::Metrics;
use crate::tls::Certificate;

/// Why the gateway did not start or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be served.
    #[error("{0}")]
    Refused(String),
    /// The store could not be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's folder could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// MongoDB could not be reached or used.
    #[error(transparent)]
    Mongo(#[from] MongoError),
    /// A listener could not be opened.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// A running listener failed.
    #[error("a listener failed: {0}")]
    Io(#[from] std::io::Error),
}

/// What a gateway is started with.
pub(crate) struct Launch {
    pub config: Config,
    /// Whether the configuration's listeners are opened.
    pub listens: bool,
    /// Whether everything runs on the current thread, so that a test can pause its time; else on threads of their own.
    pub here: bool,
    /// Instead of the configuration's; for tests.
    pub store: Option<Arc<dyn Store>>,
    /// One that goes on from an earlier life; for tests.
    pub clock: Option<Clock>,
    pub timing: Timing,
    pub faults: Faults,
}

/// A gateway's parts. Must be made and run inside an actix system; [`crate::Gateway`] sees to that.
pub(crate) struct Server {
    pub shared: Arc<Shared>,
    /// Where subscriptions of this process run.
    pub locals: ArbiterHandle,
    listeners: Option<Listeners>,
    arbiters: Vec<Arbiter>,
    certificate: Option<Arc<Certificate>>,
    /// Work beside the actors: retention, and what the command line asks for.
    tasks: Vec<tokio::task::JoinHandle<()>>,
    /// Whether the store is to be closed at the end.
    owns_store: bool,
}

impl Server {
    /// Opens the store, starts the actors and listens.
    pub async fn start(launch: Launch) -> Result<Server, ServeError> {
        let Launch {
            config,
            clock,
            timing,
            faults,
            ..
        } = launch;
        if launch.listens {
            check_exposure(&config)?;
        }
        let (clock, metrics) = (clock.unwrap_or_default(), Metrics::new());
        let auth = Authenticator::new(&config.auth, clock.clone(), metrics.clone()).map_err(ServeError::Refused)?;
        let certificate = config.tls.as_ref().map(Certificate::read).transpose();
        let certificate = certificate.map_err(ServeError::Refused)?;
        if launch.listens {
            open_files::raise_limit(config.gateway.max_connections);
        }
        let owns_store = launch.store.is_none();
        let (store, embedded) = match launch.store {
            Some(store) => (store, None),
            None => open_store(&config).await?,
        };
        check_partitions(&config, store.as_ref()).await?;
        let stalled = Arc::new(AtomicBool::new(false));
        let shared_faults = faults.clone();
        // The store, the watchdog, subscriptions of this process and the topics have threads of their own: neither a busy
        // socket nor a busy program holds them up.
        let threads = 3 + topic_arbiters();
        let arbiters: Vec<Arbiter> = match launch.here {
            true => Vec::new(),
            false => (0..threads).map(|_| Arbiter::new()).collect(),
        };
        let handles: Vec<ArbiterHandle> = match launch.here {
            true => vec![Arbiter::current(); threads],
            false => arbiters.iter().map(Arbiter::handle).collect(),
        };
        let mut handles = handles.into_iter();
        let own = || ServeError::Refused("no thread for the actors".into());
        let supervision = Arc::new(Supervision::new(metrics.clone()));
        let start_writer = {
            let (arbiter, store, clock) = (handles.next().ok_or_else(own)?, store.clone(), clock.clone());
            let (metrics, stalled, supervision) = (metrics.clone(), stalled.clone(), supervision.clone());
            move || {
                let (store, clock, metrics) = (store.clone(), clock.clone(), metrics.clone());
                let (stalled, supervision) = (stalled.clone(), supervision.clone());
                StoreActor::start_on(&arbiter, store, clock, metrics, stalled, supervision, faults.clone())
            }
        };
        let writer = Writer::new(start_writer, supervision.clone());
        let watchdog = handles.next().ok_or_else(own)?;
        let locals = handles.next().ok_or_else(own)?;
        let topics = Registry::new(handles.collect());
        let node = store.cluster().map(|cluster| Arc::new(Node::new(cluster)));
        let shared = Arc::new(Shared {
            node: node.clone(),
            live: Live::new(config.clone()),
            config,
            timing,
            clock,
            metrics,
            store,
            writer,
            supervision,
            faults: shared_faults,
            topics,
            auth,
            store_stalled: stalled,
            estates: Estates::default(),
            connections: Connections::default(),
            locals: Connections::default(),
            draining: AtomicBool::new(false),
            replays: tokio::sync::Mutex::default(),
            numbers: AtomicU64::new(0),
        });
        let listeners = match launch.listens {
            true => match listeners::listen(&shared, certificate.as_ref(), &watchdog) {
                Ok(listeners) => Some(listeners),
                Err(error) => {
                    give_up(&shared, arbiters, owns_store).await;
                    return Err(error);
                }
            },
            false => None,
        };
        let mut tasks = vec![tokio::task::spawn_local(sweeper::run(shared.clone()))];
        if let Some(node) = node {
            // Who subscribes first finds a gateway that may own groups.
            node.renew(&shared).await;
            tasks.push(tokio::task::spawn_local(node::keep(shared.clone(), node.clone())));
            tasks.push(tokio::task::spawn_local(node::watch(shared.clone(), node.clone())));
            tasks.push(tokio::task::spawn_local(node::poll(shared.clone(), node)));
        }
        if let Some(embedded) = embedded {
            match control::listen(&shared.config.store.path) {
                Ok(listener) => tasks.push(tokio::task::spawn_local(control::run(listener, embedded))),
                Err(error) => {
                    tracing::warn!(%error, "no control socket in the store's folder: no backups while running")
                }
            }
        }
        Ok(Server {
            shared,
            locals,
            listeners,
            arbiters,
            certificate,
            tasks,
            owns_store,
        })
    }

    /// The way to give the running gateway new keys, secrets and certificates.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(self.shared.clone(), self.certificate.clone())
    }

    /// Where it listens, and where history alone is served: the ports that were found, where the configuration says 0.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let listeners = self.listeners.as_ref();
        (
            listeners.map(|listeners| listeners.address),
            listeners.and_then(|listeners| listeners.replay_address),
        )
    }

    /// Runs until `stop` is ready, then drains: no new work, `finish` (what runs in this process ends what it has begun),
    /// what was answered `OK` is durable, leases go back.
    pub async fn run_until(
        self,
        stop: impl Future<Output = ()>,
        finish: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Server {
            shared,
            listeners,
            arbiters,
            tasks,
            owns_store,
            ..
        } = self;
        let server = listeners.map(|listeners| listeners.server);
        let handle = server.as_ref().map(actix_web::dev::Server::handle);
        let mut running = std::pin::pin!(async move {
            match server {
                Some(server) => server.await,
                None => std::future::pending().await,
            }
        });
        let failed = tokio::select! {
            result = &mut running => Some(result),
            () = stop => None,
        };
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let drain = shutdown::drain(shared.clone(), handle, finish);
        let result = match failed {
            Some(result) => {
                drain.await;
                result
            }
            None => tokio::select! {
                result = &mut running => result,
                () = drain => Ok(()),
            },
        };
        if let Some(node) = &shared.node {
            node.end(shared.config.gateway.shutdown_grace.mul_f64(0.1)).await;
        }
        give_up(&shared, arbiters, owns_store).await;
        Ok(result?)
    }

    /// Ends what was started and never ran.
    pub async fn abandon(self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if let Some(node) = &self.shared.node {
            node.end(self.shared.config.gateway.shutdown_grace.mul_f64(0.1)).await;
        }
        give_up(&self.shared, self.arbiters, self.owns_store).await;
    }
}

/// Lets go of the store and of the threads.
async fn give_up(shared: &Arc<Shared>, arbiters: Vec<Arbiter>, owns_store: bool) {
    if owns_store {
        shutdown::close_store(shared).await;
    }
    for arbiter in arbiters {
        arbiter.stop();
    }
}

/// Whether the configuration may be served to those whom it lets in.
fn check_exposure(config: &Config) -> Result<(), ServeError> {
    match exposure(config) {
        Exposure::Refused(why) => return Err(ServeError::Refused(why)),
        Exposure::Local => {}
        Exposure::OpenWithAuth if config.tls.is_none() => {
            tracing::warn!("tokens travel in the clear: set tls.cert and tls.key, or put a proxy with TLS in front");
        }
        Exposure::OpenWithAuth => {}
        Exposure::OpenInsecure => {
            tracing::warn!("this gateway can be reached from other machines, and everyone there has full rights");
        }
    }
    if matches!(config.auth, crate::config::Auth::None) {
        tracing::warn!(
            "no authentication: everyone who can reach {} has full rights",
            config.gateway.listen
        );
    }
    Ok(())
}

/// Topics share the machine with the HTTP workers: half of the cores, at least one.
fn topic_arbiters() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// The store, and the embedded one in it, where there is one.
type OpenedStore = (Arc<dyn Store>, Option<Arc<EmbeddedStore>>);

async fn open_store(config: &Config) -> Result<OpenedStore, ServeError> {
    let rules = {
        let config = config.clone();
        Arc::new(move |topic: &crate::domain::TopicName| config.topic_settings(topic))
    };
    let options = StoreOptions {
        rules,
        max_topics: config.gateway.max_topics,
        max_groups_per_topic: config.gateway.max_groups_per_topic,
    };
    let (durable, embedded): OpenedStore = match config.store.kind {
        StoreKind::Memory => return Ok((Arc::new(MemoryStore::new(options)), None)),
        StoreKind::Embedded => {
            let embedded = Arc::new(EmbeddedStore::open(&config.store.path, options.clone())?);
            (embedded.clone(), Some(embedded))
        }
        StoreKind::Mongodb => {
            let store = MongoStore::open(&config.store.url, &config.store.database, options.clone());
            (Arc::new(store.await?), None)
        }
    };
    Ok((Arc::new(RoutedStore::new(durable, options)), embedded))
}

/// A topic's number of partitions is fixed when it is made: a configuration that says otherwise is a mistake.
async fn check_partitions(config: &Config, store: &dyn Store) -> Result<(), ServeError> {
    for (topic, state) in store.topics().await? {
        let wanted = config.topic_settings(&topic).partitions;
        if wanted != state.partitions {
            return Err(ServeError::Refused(format!(
                "topic {topic} was made with {} partitions, and the configuration says {wanted}: the number cannot change",
                state.partitions
            )));
        }
    }
    Ok(())
}
