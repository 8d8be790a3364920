//! Responses that last for as long as their clients read: event streams and exports. They have their place among the
//! connections, so that the watchdog cuts off who does not read, and a shutdown ends them.

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::HttpRequest;
use prometheus_client::metrics::gauge::Gauge;

use super::{Backlog, ConnectionHandle, Outlet, PacedBody, PeerSocket};
use crate::actors::shared::Shared;
use crate::protocol::{ErrorCode, Failure};

/// A response that is about to begin.
pub struct Streaming {
    shared: Arc<Shared>,
    backlog: Arc<Backlog>,
    handle: ConnectionHandle,
    peer: Option<Arc<PeerSocket>>,
}

impl Streaming {
    /// For the response to a request of a client at that address.
    pub fn new(request: &HttpRequest, client: IpAddr, shared: Arc<Shared>, outlet: Arc<dyn Outlet>) -> Streaming {
        let backlog = Backlog::new(shared.config.gateway.write_buffer, None);
        let handle = ConnectionHandle::with_backlog(shared.next_number(), Some(client), outlet, backlog.clone());
        Streaming {
            shared,
            backlog,
            handle,
            peer: request.conn_data::<Arc<PeerSocket>>().cloned(),
        }
    }

    /// The connection, as the other actors know it.
    pub fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }

    /// What is on its way to it.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// The response's body, unless there are as many connections as may be. It must be the last one of its HTTP
    /// connection, whose socket it takes. `open` counts those of this kind.
    pub fn body<S>(self, content: S, open: &Gauge) -> Result<PacedBody<S>, Failure> {
        let Streaming {
            shared,
            backlog,
            handle,
            peer,
        } = self;
        if !shared.connections.add(&handle, shared.config.gateway.max_connections) {
            shared.metrics.connection_cut("too_many");
            let msg = "as many connections are open as may be (gateway.max_connections)";
            return Err(Failure::new(ErrorCode::Overloaded, msg).retry_after(1_000));
        }
        if let Some(socket) = peer.and_then(|peer| peer.take()) {
            backlog.hold(socket);
        }
        open.inc();
        Ok(PacedBody::new(content, handle.number, backlog, shared, open))
    }
}
