//! The gateway as a whole: puts stores, actors and listeners together, runs them, and takes them down in order.

mod api;
mod caller;
mod client_address;
pub(crate) mod control;
mod guard;
mod open_files;
mod origin;
mod refusal;
mod reload;
mod shutdown;
mod slow_heads;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use actix::Arbiter;
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, Service};
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer, web};
use utoipa_actix_web::AppExt;

use self::api::Surfaces;
pub use self::reload::Reloader;
use self::slow_heads::{HeadWatch, NotedBody};
use crate::actors::connection::{Connections, PeerSocket, watch};
use crate::actors::registry::Registry;
use crate::actors::shared::{Shared, Timing};
use crate::actors::store::StoreActor;
use crate::actors::supervision::{Faults, Supervision};
use crate::actors::sweeper;
use crate::actors::writer::Writer;
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::config::{Config, Exposure, StoreKind, exposure};
use crate::store::{EmbeddedStore, MemoryStore, OpenError, RoutedStore, Store, StoreError, StoreOptions};
use crate::telemetry::Metrics;
use crate::tls::{self, Certificate};

/// How much longer than `gateway.write_timeout` the kernel waits for a peer to acknowledge what was sent.
const ACK_GRACE: Duration = Duration::from_secs(5);

/// How long a connection may wait between two requests.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

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
    replay_address: Option<SocketAddr>,
    server: actix_web::dev::Server,
    arbiters: Vec<Arbiter>,
    certificate: Option<Arc<Certificate>>,
    /// Work beside the actors: retention, and what the command line asks for.
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Gateway {
    /// Opens the store, starts the actors and listens.
    pub async fn start(config: Config) -> Result<Gateway, ServeError> {
        Gateway::start_with(config, Timing::default(), Faults::default()).await
    }

    /// The same, with other times and with faults; for tests.
    #[doc(hidden)]
    pub async fn start_with(config: Config, timing: Timing, faults: Faults) -> Result<Gateway, ServeError> {
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
        open_files::raise_limit(config.gateway.max_connections);
        let (store, embedded) = open_store(&config)?;
        check_partitions(&config, store.as_ref()).await?;
        let stalled = Arc::new(AtomicBool::new(false));
        let shared_faults = faults.clone();
        // The store, the watchdog and the topics have threads of their own: a busy socket does not hold them up.
        let arbiters: Vec<Arbiter> = (0..2 + topic_arbiters()).map(|_| Arbiter::new()).collect();
        let mut handles = arbiters.iter().map(Arbiter::handle);
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
        let topics = Registry::new(handles.collect());
        let shared = Arc::new(Shared {
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
            connections: Connections::default(),
            locals: Connections::default(),
            draining: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
        });
        watchdog.spawn(watch(shared.clone()));
        let listen = shared.config.gateway.listen;
        let silence = shared.config.gateway.write_timeout + ACK_GRACE;
        let data = web::Data::from(shared.clone());
        let heads = HeadWatch::default();
        watchdog.spawn(heads.clone().watch(KEEP_ALIVE + timing.request_head));
        let surfaces = web::Data::new(Surfaces::new());
        let served = surfaces.clone();
        let app = move || {
            App::new()
                .app_data(data.clone())
                .app_data(served.clone())
                .wrap(from_fn(api::only_what_is_served_here))
                .wrap(from_fn(guard::guard))
                .wrap_fn(|request, service| {
                    let peer = request.conn_data::<Arc<PeerSocket>>().cloned();
                    if let Some(peer) = &peer {
                        peer.set_busy(true);
                    }
                    let response = service.call(request);
                    async move {
                        let response = response.await.inspect_err(|_| {
                            if let Some(peer) = &peer {
                                peer.set_busy(false);
                            }
                        })?;
                        Ok(response.map_body(|_, body| NotedBody::new(body, peer)))
                    }
                })
                .into_utoipa_app()
                .configure(api::gateway)
                .default_service(web::to(api::nothing_here))
                .into_app()
        };
        let server = HttpServer::new(app)
            .disable_signals()
            // Events are small and answers wait for nothing: without this a delayed ACK of the peer holds them for 40 ms.
            .tcp_nodelay(true)
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(timing.request_head)
            .on_connect(move |stream, data| {
                let plain = stream.downcast_ref::<TcpStream>();
                let under_tls = || Some(stream.downcast_ref::<TlsStream<TcpStream>>()?.get_ref().0);
                if let Some(stream) = plain.or_else(under_tls) {
                    keep_hold(stream, silence, &heads, data);
                }
            })
            .shutdown_timeout(1);
        let mut server = server;
        for address in [Some(listen), shared.config.replay.listen].into_iter().flatten() {
            let bound = match &certificate {
                Some(certificate) => {
                    let config = tls::server_config(certificate.clone()).map_err(ServeError::Refused)?;
                    server.bind_rustls_0_23(address, config)
                }
                None => server.bind(address),
            };
            server = bound.map_err(|error| ServeError::Listen { address, error })?;
        }
        let mut addresses = server.addrs().into_iter();
        let address = addresses.next().unwrap_or(listen);
        let replay_address = addresses.next();
        if let Some(address) = replay_address {
            surfaces.set_replay_address(address);
        }
        let mut tasks = vec![tokio::task::spawn_local(sweeper::run(shared.clone()))];
        if let Some(embedded) = embedded {
            match control::listen(&shared.config.store.path) {
                Ok(listener) => tasks.push(tokio::task::spawn_local(control::run(listener, embedded))),
                Err(error) => {
                    tracing::warn!(%error, "no control socket in the store's folder: no backups while running")
                }
            }
        }
        Ok(Gateway {
            shared,
            address,
            replay_address,
            server: server.run(),
            arbiters,
            certificate,
            tasks,
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

    /// Where history alone is served, unless `replay.listen` is off.
    pub fn replay_address(&self) -> Option<SocketAddr> {
        self.replay_address
    }

    /// Runs until `stop` is ready, then drains: no new work, what was answered `OK` is durable, leases go back.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Gateway {
            shared,
            server,
            arbiters,
            tasks,
            ..
        } = self;
        let handle = server.handle();
        let mut running = std::pin::pin!(server);
        tokio::select! {
            result = &mut running => return Ok(result?),
            () = stop => {}
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
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

/// Puts a second descriptor of a new connection's socket aside, and has the kernel give up on a peer that acknowledges
/// nothing: where an actor has nothing more to write, nobody else would notice.
fn keep_hold(stream: &TcpStream, silence: Duration, heads: &HeadWatch, data: &mut Extensions) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(silence)) {
        tracing::debug!(%error, "no timeout for unacknowledged data");
    }
    match stream.as_fd().try_clone_to_owned() {
        Ok(socket) => {
            let peer = Arc::new(PeerSocket::new(socket));
            heads.add(&peer);
            data.insert(peer);
        }
        Err(error) => tracing::warn!(%error, "a connection cannot be cut off from outside: too few open files"),
    }
}

/// Topics share the machine with the HTTP workers: half of the cores, at least one.
fn topic_arbiters() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// The store, and the embedded one in it, where there is one.
type OpenedStore = (Arc<dyn Store>, Option<Arc<EmbeddedStore>>);

fn open_store(config: &Config) -> Result<OpenedStore, ServeError> {
    let rules = {
        let config = config.clone();
        Arc::new(move |topic: &crate::domain::TopicName| config.topic_settings(topic))
    };
    let options = StoreOptions {
        rules,
        max_topics: config.gateway.max_topics,
        max_groups_per_topic: config.gateway.max_groups_per_topic,
    };
    let embedded = match config.store.kind {
        StoreKind::Memory => return Ok((Arc::new(MemoryStore::new(options)), None)),
        StoreKind::Embedded => Arc::new(EmbeddedStore::open(&config.store.path, options.clone())?),
        StoreKind::Mongodb => return Err(ServeError::Refused("store.kind: mongodb is not available yet".into())),
    };
    let routed = RoutedStore::new(embedded.clone(), options);
    Ok((Arc::new(routed), Some(embedded)))
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
