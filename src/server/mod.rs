//! The gateway as a whole: puts stores, actors and listeners together, runs them, and takes them down in order.

mod caller;
mod client_address;
mod guard;
mod http;
mod origin;
mod refusal;
mod reload;
mod shutdown;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use actix::Arbiter;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};

pub use self::reload::Reloader;
use crate::actors::connection::Connections;
use crate::actors::registry::Registry;
use crate::actors::shared::Shared;
use crate::actors::store::StoreActor;
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::config::{Config, Exposure, StoreKind, exposure};
use crate::store::{EmbeddedStore, MemoryStore, OpenError, RoutedStore, Store, StoreError, StoreOptions};
use crate::telemetry::Metrics;
use crate::tls::{self, Certificate};

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

/// A gateway that listens. Must be made and run inside an actix system.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::config::{Sources, load};
/// use tidegate::server::Gateway;
///
/// let loaded = load(&Sources::default())?;
/// actix::System::new().block_on(async move {
///     let gateway = Gateway::start(loaded.config).await?;
///     println!("listening on {}", gateway.address());
///     gateway.run_until(async { let _ = tokio::signal::ctrl_c().await; }).await
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Gateway {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: actix_web::dev::Server,
    arbiters: Vec<Arbiter>,
    certificate: Option<Arc<Certificate>>,
}

impl Gateway {
    /// Opens the store, starts the actors and listens.
    pub async fn start(config: Config) -> Result<Gateway, ServeError> {
        match exposure(&config) {
            Exposure::Refused(why) => return Err(ServeError::Refused(why)),
            Exposure::Local => {}
            Exposure::OpenWithAuth if config.tls.is_none() => {
                tracing::warn!(
                    "tokens travel in the clear: set tls.cert and tls.key, or put a proxy with TLS in front"
                );
            }
            Exposure::OpenWithAuth => {}
            Exposure::OpenInsecure => {
                tracing::warn!("this gateway can be reached from other machines, and everyone there has full rights");
            }
        }
        let (clock, metrics) = (Clock::new(), Metrics::new());
        let auth = Authenticator::new(&config.auth, clock.clone(), metrics.clone()).map_err(ServeError::Refused)?;
        let certificate = config.tls.as_ref().map(Certificate::read).transpose();
        let certificate = certificate.map_err(ServeError::Refused)?;
        if matches!(config.auth, crate::config::Auth::None) {
            tracing::warn!(
                "no authentication: everyone who can reach {} has full rights",
                config.gateway.listen
            );
        }
        let store = open_store(&config)?;
        check_partitions(&config, store.as_ref()).await?;
        let stalled = Arc::new(AtomicBool::new(false));
        // The store and the topics have threads of their own: a busy socket does not hold them up.
        let arbiters: Vec<Arbiter> = (0..1 + topic_arbiters()).map(|_| Arbiter::new()).collect();
        let mut handles = arbiters.iter().map(Arbiter::handle);
        let own = || ServeError::Refused("no thread for the store".into());
        let writer = StoreActor::start_on(
            &handles.next().ok_or_else(own)?,
            store.clone(),
            clock.clone(),
            metrics.clone(),
            stalled.clone(),
        );
        let topics = Registry::new(handles.collect());
        let shared = Arc::new(Shared {
            config,
            clock,
            metrics,
            store,
            writer,
            topics,
            auth,
            store_stalled: stalled,
            connections: Connections::default(),
            draining: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
        });
        let listen = shared.config.gateway.listen;
        let data = web::Data::from(shared.clone());
        let app = move || {
            App::new()
                .app_data(data.clone())
                .wrap(from_fn(guard::guard))
                .configure(http::routes)
        };
        let server = HttpServer::new(app)
            .disable_signals()
            .client_request_timeout(std::time::Duration::from_secs(10))
            .shutdown_timeout(1);
        let server = match &certificate {
            Some(certificate) => {
                let config = tls::server_config(certificate.clone()).map_err(ServeError::Refused)?;
                server.bind_rustls_0_23(listen, config)
            }
            None => server.bind(listen),
        };
        let server = server.map_err(|error| ServeError::Listen { address: listen, error })?;
        let address = server.addrs().first().copied().unwrap_or(listen);
        Ok(Gateway {
            shared,
            address,
            server: server.run(),
            arbiters,
            certificate,
        })
    }

    /// The way to give the running gateway new keys, secrets and certificates.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(self.shared.clone(), self.certificate.clone())
    }

    /// Where it listens: the port that was found, where the configuration says 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs until `stop` is ready, then drains: no new work, what was answered `OK` is durable, leases go back.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Gateway {
            shared,
            server,
            arbiters,
            ..
        } = self;
        let handle = server.handle();
        let mut running = std::pin::pin!(server);
        tokio::select! {
            result = &mut running => return Ok(result?),
            () = stop => {}
        }
        let drain = shutdown::drain(shared.clone(), handle);
        tokio::select! {
            result = &mut running => result?,
            () = drain => {}
        }
        shutdown::close_store(&shared).await;
        for arbiter in arbiters {
            arbiter.stop();
        }
        Ok(())
    }
}

/// Topics share the machine with the HTTP workers: half of the cores, at least one.
fn topic_arbiters() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

fn open_store(config: &Config) -> Result<Arc<dyn Store>, ServeError> {
    let rules = {
        let config = config.clone();
        Arc::new(move |topic: &crate::domain::TopicName| config.topic_settings(topic))
    };
    let options = StoreOptions {
        rules,
        max_topics: config.gateway.max_topics,
        max_groups_per_topic: config.gateway.max_groups_per_topic,
    };
    let durable: Arc<dyn Store> = match config.store.kind {
        StoreKind::Memory => return Ok(Arc::new(MemoryStore::new(options))),
        StoreKind::Embedded => Arc::new(EmbeddedStore::open(&config.store.path, options.clone())?),
        StoreKind::Mongodb => return Err(ServeError::Refused("store.kind: mongodb is not available yet".into())),
    };
    Ok(Arc::new(RoutedStore::new(durable, options)))
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
