//! The admin port: accepts, bounds connections in number and time, hands requests to `http`.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};

use super::{Source, http};
use crate::{
    config::{AdminConfig, Secret},
    runtime::{Clock, Tasks, tasks::Kind},
    telemetry::{Metrics, Recent},
};

/// Wait after an accept that failed, mostly for want of file descriptors, which passes.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Largest head of a request, bytes.
const HEAD_BYTES: usize = 16 * 1024;

/// What the admin port needs.
pub struct AdminParts {
    /// `[admin]`.
    pub config: AdminConfig,
    /// Content of `admin.token_file`.
    pub token: Option<Secret>,
    /// The node.
    pub source: Arc<dyn Source>,
    /// Its metrics.
    pub metrics: Metrics,
    /// Its last events.
    pub recent: Recent,
    /// Time.
    pub clock: Clock,
    /// Where the server's tasks run. Its shutdown should be the last of the node: a draining node is asked for its state.
    pub tasks: Tasks,
}

/// What requests share.
pub(super) struct Shared {
    pub(super) token: Option<Secret>,
    pub(super) source: Arc<dyn Source>,
    pub(super) metrics: Metrics,
    pub(super) recent: Recent,
}

/// Binds and serves until the shutdown. Gives the address, with the port that was chosen.
///
/// # Errors
/// When the address cannot be bound.
pub async fn start(parts: AdminParts) -> io::Result<SocketAddr> {
    let AdminParts { config, token, source, metrics, recent, clock, tasks } = parts;
    let mut listener = TcpListener::bind(config.listen).await?;
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared { token, source, metrics, recent });
    let slots = Arc::new(Semaphore::new(config.max_connections));
    let (spawner, timeout) = (tasks.clone(), config.request_timeout);
    tasks.spawn("admin-accept", Kind::Essential, async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = spawner.shutdown().stopped() => return,
                accepted = crate::runtime::net::Listener::accept(&mut listener) => accepted,
            };
            let Ok((stream, _)) = accepted else {
                metrics::counter!("tenure_admin_refused_total", "why" => "accept").increment(1);
                clock.sleep(ACCEPT_RETRY).await;
                continue;
            };
            // Over the bound the socket is closed at once: a queue would let a client keep probes waiting.
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                metrics::counter!("tenure_admin_refused_total", "why" => "connections").increment(1);
                continue;
            };
            let (shared, clock, shutdown) = (shared.clone(), clock.clone(), spawner.shutdown().clone());
            spawner.spawn("admin-connection", Kind::PerConnection, async move {
                let _slot = slot;
                let service = service_fn(|request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(http::answer(&shared, &request).await) }
                });
                // One request per connection: an idle one would keep its slot.
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(timeout)
                    .keep_alive(false)
                    .max_buf_size(HEAD_BYTES)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    biased;
                    () = shutdown.stopped() => {}
                    // Head and answer each have the time of one request.
                    () = clock.sleep(timeout * 2) => {
                        metrics::counter!("tenure_admin_refused_total", "why" => "timeout").increment(1);
                    }
                    ended = connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "a request to the admin port failed");
                        }
                    }
                }
            });
        }
    });
    Ok(address)
}
