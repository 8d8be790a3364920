//! How a program starts a gateway inside itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{Actor, Context};
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};

use super::actor::ActorRef;
use super::consumer::{Consumer, ConsumerRun};
use super::handle::{ActorEntry, Handle, Inner};
use super::options::Consume;
use super::restarts::Restarts;
use super::{Error, Gateway};
use crate::actors::shared::Timing;
use crate::actors::supervision::Faults;
use crate::clock::Clock;
use crate::config::{Config, Replay, StoreKind};
use crate::server::{Launch, ServeError, Server};
use crate::store::Store;

type StartConsumer = Arc<dyn Fn(Arc<Inner>) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;
type StartActor = Arc<dyn Fn(&Arc<Inner>, bool) -> Result<oneshot::Receiver<()>, Error> + Send + Sync>;

/// Builds a [`Gateway`]: where it keeps its events, whether it listens, and what runs in it.
///
/// Without anything it keeps its events in `./tidegate-data` and does not listen: only this program talks to it.
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    config: Option<Config>,
    store: Option<(StoreKind, PathBuf)>,
    listen: Option<SocketAddr>,
    /// None: where there is a configuration.
    listens: Option<bool>,
    consumers: Vec<StartConsumer>,
    actors: Vec<StartActor>,
    pub(crate) inside: Inside,
}

/// What only tests decide.
#[derive(Clone, Default)]
pub(crate) struct Inside {
    pub timing: Timing,
    pub faults: Faults,
    pub store: Option<Arc<dyn Store>>,
    pub clock: Option<Clock>,
    pub twice: bool,
}

impl Builder {
    /// The configuration of a server, listeners included: see [`crate::config::load`].
    pub fn config(mut self, config: Config) -> Builder {
        self.config = Some(config);
        self
    }

    /// Keeps everything in memory: gone with the gateway.
    pub fn in_memory(mut self) -> Builder {
        self.store = Some((StoreKind::Memory, PathBuf::new()));
        self
    }

    /// Keeps everything in this folder.
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.store = Some((StoreKind::Embedded, folder.into()));
        self
    }

    /// Listens for WebSocket and HTTP clients on this address; port 0 is any free one. Another one than loopback needs a
    /// [configuration](Builder::config) that says who gets in.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Builder {
        self.listen = Some(address.into());
        self.listens = Some(true);
        self
    }

    /// Opens no listener, whatever the configuration says.
    pub fn without_listeners(mut self) -> Builder {
        self.listens = Some(false);
        self
    }

    /// Adds a consumer. `make` is called for each of its instances, and again for one that crashed.
    ///
    /// Its handlers run on the tokio runtime in which the gateway is started; the gateway itself has threads of its own, so
    /// a handler that blocks holds up its own program, and no client. See [`Blocking`](crate::Blocking) for those.
    pub fn consumer<C: Consumer>(
        mut self,
        consume: impl Into<Consume>,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> Builder {
        let consume = consume.into();
        let make: Arc<dyn Fn() -> C + Send + Sync> = Arc::new(make);
        self.consumers.push(Arc::new(move |inner| {
            let (consume, make) = (consume.clone(), make.clone());
            Box::pin(async move { ConsumerRun::start(inner, consume.check()?, make).await })
        }));
        self
    }

    /// Adds an actor on a thread of its own, under a name by which [`Handle::actor`] finds it. `make` is called again after a
    /// panic, within the default [`Restarts`].
    pub fn actor<A: Actor<Context = Context<A>>>(
        self,
        name: impl Into<String>,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Builder {
        self.actor_with(name, Restarts::default(), make)
    }

    /// The same, with other restarts.
    pub fn actor_with<A: Actor<Context = Context<A>>>(
        mut self,
        name: impl Into<String>,
        restarts: Restarts,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Builder {
        let (name, make) = (name.into(), Arc::new(make));
        self.actors.push(Arc::new(move |inner, here| {
            if inner.actors().contains_key(&name) {
                return Err(super::error::bad_request(format!(
                    "actor: there are two of the name {name:?}"
                )));
            }
            let make = make.clone();
            let make = move || make();
            let (typed, supervised, launched) =
                ActorRef::start(name.clone(), make, restarts, inner.shared.clone(), here);
            let typed = Box::new(typed);
            inner.actors().insert(name.clone(), ActorEntry { supervised, typed });
            Ok(launched)
        }));
        self
    }

    /// Other times and faults; for tests of the gateway itself.
    #[doc(hidden)]
    pub fn with_faults(mut self, timing: Timing, faults: Faults) -> Builder {
        self.inside.timing = timing;
        self.inside.faults = faults;
        self
    }

    /// On a store that is there already, and stays the caller's to close; for tests of the gateway itself.
    #[doc(hidden)]
    pub fn on_store(mut self, store: Arc<dyn Store>) -> Builder {
        self.inside.store = Some(store);
        self
    }

    /// Starts the gateway on threads of its own, then actors and consumers. It may be called in any async runtime, except
    /// that consumers need tokio's. When it is done all consumers are members of their groups.
    pub async fn start(self) -> Result<Gateway, ServeError> {
        let launch = self.launch(false);
        let has_runtime = tokio::runtime::Handle::try_current().is_ok();
        if !self.consumers.is_empty() && !has_runtime {
            let why = "consumers need a tokio runtime: start the gateway inside one";
            return Err(ServeError::Refused(why.to_owned()));
        }
        let (started, is_started) = oneshot::channel();
        let builder = self.clone();
        let run = move || {
            actix::System::new().block_on(async move {
                match builder.assemble(launch).await {
                    Ok((server, gateway)) => {
                        let handle = gateway.handle();
                        // Where nobody waits any more, the gateway that is dropped here is the word to stop.
                        drop(started.send(Ok(gateway)));
                        run(server, handle).await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
        };
        std::thread::Builder::new().name("tidegate".into()).spawn(run)?;
        let gone = |_| {
            Err(ServeError::Refused(
                "the gateway's thread ended while it was started".into(),
            ))
        };
        let gateway = is_started.await.unwrap_or_else(gone)?;
        self.start_consumers(&gateway).await?;
        Ok(gateway)
    }

    /// Starts everything on the current thread, which must have an actix system.
    #[cfg(feature = "testing")]
    pub(crate) async fn start_here(self) -> Result<Gateway, ServeError> {
        let launch = self.launch(true);
        let (server, gateway) = self.assemble(launch).await?;
        actix::spawn(run(server, gateway.handle()));
        self.start_consumers(&gateway).await?;
        Ok(gateway)
    }

    fn launch(&self, here: bool) -> Launch {
        let mut config = match &self.config {
            Some(config) => config.clone(),
            None => Config {
                replay: Replay { listen: None },
                ..Config::default()
            },
        };
        if let Some((kind, path)) = &self.store {
            config.store.kind = *kind;
            config.store.path.clone_from(path);
        }
        if let Some(listen) = self.listen {
            config.gateway.listen = listen;
        }
        Launch {
            config,
            listens: self.listens.unwrap_or(self.config.is_some()),
            here,
            store: self.inside.store.clone(),
            clock: self.inside.clock.clone(),
            timing: self.inside.timing,
            faults: self.inside.faults.clone(),
        }
    }

    async fn assemble(&self, launch: Launch) -> Result<(Server, Gateway), ServeError> {
        let here = launch.here;
        let server = Server::start(launch).await?;
        let inner = Arc::new(Inner {
            shared: server.shared.clone(),
            arbiter: server.locals.clone(),
            stopped: AtomicBool::new(false),
            stop: watch::channel(false).0,
            ended: watch::channel(None).0,
            consumers: Default::default(),
            actors: Default::default(),
            twice: self.inside.twice,
        });
        for start in &self.actors {
            match start(&inner, here) {
                // Ready, well or not, when the sender is gone.
                Ok(launched) => drop(launched.await),
                Err(error) => {
                    inner.actors().values().for_each(|entry| entry.supervised.stop());
                    server.abandon().await;
                    return Err(ServeError::Refused(error.to_string()));
                }
            }
        }
        let (address, replay_address) = server.addresses();
        let gateway = Gateway::new(Handle(inner), address, replay_address, server.reloader());
        Ok((server, gateway))
    }

    /// A consumer that cannot join its group is a mistake, or the store's fault: the gateway is not started without it.
    async fn start_consumers(&self, gateway: &Gateway) -> Result<(), ServeError> {
        for start in &self.consumers {
            if let Err(error) = start(gateway.0.0.clone()).await {
                let _ = gateway.stop().await;
                return Err(ServeError::Refused(format!("a consumer could not be started: {error}")));
            }
        }
        Ok(())
    }
}

/// Runs until the gateway is told to stop, and takes it down.
async fn run(server: Server, handle: Handle) {
    let inner = handle.0;
    let mut stopping = inner.stop.subscribe();
    let stop = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let end = End(inner.clone());
    let result = server.run_until(stop, finish(inner.clone())).await;
    if let Err(error) = &result {
        tracing::error!(%error, "the gateway ended");
    }
    end.tell(result.map_err(|error| error.to_string()));
}

/// Tells all handles of the end, whatever brings it.
struct End(Arc<Inner>);

impl End {
    fn tell(&self, how: Result<(), String>) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.ended.send_replace(Some(how));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.0.ended.borrow().is_none() {
            self.tell(Err("its thread ended".to_owned()));
        }
    }
}

/// What runs in this process ends what it has begun, within a part of the time that there is.
async fn finish(inner: Arc<Inner>) {
    let consumers = inner.consumers().clone();
    let all = futures_util::future::join_all(consumers.iter().map(|consumer| consumer.finish()));
    let grace = inner.shared.config.gateway.shutdown_grace.mul_f64(0.4);
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!("handlers did not end in time: their events go back");
        consumers.iter().for_each(|consumer| consumer.abort());
    }
    inner.actors().values().for_each(|entry| entry.supervised.stop());
    inner.stopped.store(true, Ordering::Release);
}
