//! The listeners: sockets, TLS, and the application behind them.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use actix::ArbiterHandle;
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, Service};
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer, web};
use utoipa_actix_web::AppExt;

use super::api::{self, CallerBuckets, Surfaces};
use super::slow_heads::{HeadWatch, NotedBody};
use super::{ServeError, guard};
use crate::actors::connection::{PeerSocket, watch};
use crate::actors::shared::Shared;
use crate::tls::{self, Certificate};

/// How much longer than `gateway.write_timeout` the kernel waits for a peer to acknowledge what was sent.
const ACK_GRACE: Duration = Duration::from_secs(5);

/// How long a connection may wait between two requests.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What listens, and where.
pub(super) struct Listeners {
    pub server: actix_web::dev::Server,
    pub address: SocketAddr,
    pub replay_address: Option<SocketAddr>,
}

/// Opens the listeners of the configuration. Slow clients are watched from `watchdog`.
pub(super) fn listen(
    shared: &Arc<Shared>,
    certificate: Option<&Arc<Certificate>>,
    watchdog: &ArbiterHandle,
) -> Result<Listeners, ServeError> {
    watchdog.spawn(watch(shared.clone()));
    let timing = shared.timing;
    let listen = shared.config.gateway.listen;
    let silence = shared.config.gateway.write_timeout + ACK_GRACE;
    let data = web::Data::from(shared.clone());
    let heads = HeadWatch::default();
    watchdog.spawn(heads.clone().watch(KEEP_ALIVE + timing.request_head));
    let surfaces = web::Data::new(Surfaces::new());
    let buckets = web::Data::new(CallerBuckets::new(
        &shared.config.limits.connection,
        shared.clock.clone(),
    ));
    let served = surfaces.clone();
    let app = move || {
        App::new()
            .app_data(data.clone())
            .app_data(served.clone())
            .app_data(buckets.clone())
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
        let bound = match certificate {
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
    Ok(Listeners {
        server: server.run(),
        address,
        replay_address,
    })
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
