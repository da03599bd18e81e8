//! Takes connections in, serves pages, and hands upgraded sockets over: from then on no HTTP layer is in the way.

use std::{
    net::IpAddr,
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn, upgrade::Upgraded,
};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::{
    admission::{Admission, Place, Verdict},
    conn::Conn,
    forwarded::{Proxies, STRANGER},
    metrics,
    pages::{self, Answer, Assets},
    task::{self, Site},
    upgrade::{self, Origins},
};
use crate::runtime::{
    Shutdown, Tasks,
    net::{Listener, Stream},
    tasks::Kind,
};

/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 * 1024;
/// Headers of a request.
const HEADERS: usize = 64;
/// How long a connection may live that never becomes a socket.
const PAGE_TIME: Duration = Duration::from_secs(60);
/// Pause after an accept that failed: out of file descriptors, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What clients are told who come when there are too many, or while the gateway goes away.
const COME_BACK_SECONDS: u32 = 5;

/// What the one client too many of an address is told.
const TOO_MANY: &str = "too many connections from this address\n";

/// An untrusted proxy on this machine is told of once: it is a setting that is missing, and each socket would say it again.
static WARNED: Once = Once::new();

type Io = TokioIo<Box<dyn Stream>>;

/// What the HTTP side needs.
pub(super) struct Front {
    pub(super) site: Arc<Site>,
    pub(super) admission: Arc<Admission>,
    pub(super) origins: Origins,
    pub(super) proxies: Proxies,
    pub(super) assets: Arc<dyn Assets>,
    pub(super) handshake: Duration,
    pub(super) tasks: Tasks,
}

/// Accepts until the signal.
pub(super) async fn accept(front: Arc<Front>, mut listener: impl Listener, stop: Shutdown) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let verdict = front.admission.admit(peer.ip(), front.proxies.trust(peer.ip()));
                let (refusal, place) = match verdict {
                    Verdict::Place(place) => (None, place),
                    Verdict::Refused { status, place } => (Some(status), place),
                    Verdict::Closed => {
                        metrics::upgrade_refused("overrun");
                        continue;
                    }
                };
                let front2 = front.clone();
                let io = TokioIo::new(Box::new(stream) as Box<dyn Stream>);
                let http = serve(front2, io, peer.ip(), Arc::new(place), refusal, stop.clone());
                front.tasks.spawn("gateway_http", Kind::PerConnection, http);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                front.site.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(front: Arc<Front>, io: Io, peer: IpAddr, place: Arc<Place>, refusal: Option<u16>, stop: Shutdown) {
    let (clock, handshake) = (front.site.clock.clone(), front.handshake);
    let service = service_fn(move |request| {
        let answer = match refusal {
            Some(429) => {
                metrics::upgrade_refused("address");
                pages::later(StatusCode::TOO_MANY_REQUESTS, TOO_MANY, COME_BACK_SECONDS)
            }
            Some(_) => {
                metrics::upgrade_refused("full");
                pages::later(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n", COME_BACK_SECONDS)
            }
            None => answer(&front, request, peer, &place),
        };
        std::future::ready(Ok::<_, std::convert::Infallible>(answer))
    });
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(handshake)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .keep_alive(refusal.is_none())
        .serve_connection(io, service)
        .with_upgrades();
    tokio::select! {
        done = http => {
            if let Err(error) = done {
                tracing::debug!(%error, "an HTTP connection ended");
            }
        }
        () = clock.sleep(PAGE_TIME) => tracing::debug!("an HTTP connection lasted too long"),
        () = stop.stopped() => {}
    }
}

fn answer(front: &Arc<Front>, mut request: Request<Incoming>, peer: IpAddr, place: &Arc<Place>) -> Answer {
    if request.uri().path() != "/ws" {
        return pages::file(&*front.assets, request.method(), request.uri().path(), request.headers());
    }
    if front.admission.is_draining() {
        metrics::upgrade_refused("draining");
        return pages::later(StatusCode::SERVICE_UNAVAILABLE, "this server goes away\n", COME_BACK_SECONDS);
    }
    let switching: Response<Full<Bytes>> = match upgrade::check(&request, &front.origins) {
        Ok(switching) => switching,
        Err((reason, refusal)) => {
            metrics::upgrade_refused(reason);
            return *refusal;
        }
    };
    // From here on it is the client that counts, not the proxy before it.
    let client = front.proxies.client(peer, request.headers());
    if client == STRANGER {
        WARNED.call_once(|| {
            tracing::warn!(
                %peer,
                "a proxy on this machine is not in gateway.trusted_proxies: its clients are not told apart, count as one address, and guests \
                 that are let in from loopback only are refused"
            );
        });
    }
    let own = if client == peer { Some(None) } else { front.admission.admit_client(client).map(Some) };
    let Some(own) = own else {
        metrics::upgrade_refused("address");
        return pages::later(StatusCode::TOO_MANY_REQUESTS, TOO_MANY, COME_BACK_SECONDS);
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let (front2, places) = (front.clone(), (place.clone(), own));
    let clock = front.site.clock.clone();
    let limit = clock.sleep(front.handshake);
    front.tasks.spawn("gateway_socket", Kind::PerConnection, async move {
        let upgraded = tokio::select! {
            upgraded = upgraded => upgraded,
            () = limit => return,
        };
        match upgraded.map(Upgraded::downcast::<Io>) {
            Ok(Ok(parts)) => {
                let (io, part) = (parts.io.into_inner(), parts.read_buf.to_vec());
                socket(&front2, io, client, part).await;
            }
            Ok(Err(_)) => tracing::error!("an upgraded connection is not of the type it was served with"),
            Err(error) => tracing::debug!(%error, "an upgrade failed"),
        }
        drop(places);
    });
    switching
}

/// Serves an upgraded socket to its end.
async fn socket(front: &Front, io: Box<dyn Stream>, peer: IpAddr, part: Vec<u8>) {
    let site = front.site.clone();
    let bounds = site.limits.outgoing;
    let conn = site.conns.insert(|id| Conn::new(id, io, bounds));
    site.metrics.sockets.increment(1.0);
    let id = conn.id;
    tokio::select! {
        () = task::serve(site, conn, peer, part) => {}
        // The node ends without waiting for its sockets.
        () = front.tasks.shutdown().stopped() => front.site.conns.remove(id),
    }
}
