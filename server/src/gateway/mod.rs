//! Gateways: pages and players' sockets on one port (docs/wire.md), and the way of frames from rooms to sockets.
//!
//! | file | what lives there |
//! |---|---|
//! | `accept`, `admission`, `forwarded`, `upgrade`, `pages` | HTTP: who gets in, and the browser's files |
//! | `conn`, `outgoing`, `frame`, `slab` | a connection as others see it; all its bytes leave through `outgoing` |
//! | `fanout` | rooms' frames, written straight to the sockets |
//! | `router` | which node has a room, and the links to all nodes |
//! | `task`, `reader` | the connection's own task: reads, times, effects |
//! | `state` | what the protocol does, without I/O |
//! | `sessions`, `auth`, `secret` | resume tokens, login tokens, what guests' tokens are signed with |
//! | `ring`, `rate`, `tables` | unsaved messages, rate limits, name tables of several builds of a game |
//!
//! What is not here: a game's types. Payloads and component values are bytes whose form alone is checked.

mod accept;
mod admission;
mod auth;
mod conn;
mod fanout;
mod forwarded;
mod frame;
mod metrics;
mod orphans;
mod outgoing;
mod pages;
mod rate;
mod reader;
mod ring;
mod router;
mod secret;
mod sessions;
mod slab;
mod state;
mod stop;
mod tables;
mod task;
mod upgrade;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tenure_shared::msgpack;
use tokio::net::TcpListener;

pub use auth::{AuthConfig, Error as AuthError};
pub use pages::Assets;
pub use ring::UnsavedBounds;
pub use sessions::StoreCalls;
pub use stop::Farewell;

use crate::{
    config::GatewayConfig,
    link::{Dial, Directory},
    runtime::{Clock, Rng, Shutdown, Tasks, net::Listener, tasks::Kind},
};
use conn::Conn;
use slab::Slab;

/// What a gateway is made of.
pub struct GatewayParts {
    /// `[gateway]`.
    pub config: GatewayConfig,
    /// What the key files hold.
    pub auth: AuthConfig,
    /// Bounds of what is kept of a seat until it is saved.
    pub unsaved: UnsavedBounds,
    /// Node name, shown to clients.
    pub server: String,
    /// Region of rooms that are asked for without one.
    pub region: String,
    /// Regions that have a coordinator.
    pub coordinated: Vec<String>,
    /// Where rooms are.
    pub directory: Arc<dyn Directory>,
    /// How their nodes are reached.
    pub dial: Arc<dyn Dial>,
    /// The store.
    pub store: StoreCalls,
    /// Time.
    pub clock: Clock,
    /// Randomness, also for tokens.
    pub rng: Rng,
    /// Where tasks run.
    pub tasks: Tasks,
    /// The browser's files.
    pub assets: Arc<dyn Assets>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port cannot be had.
    #[error("players' port {addr}: {error}")]
    Listen {
        /// As configured.
        addr: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// A key cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The store did not give the cluster's guest secret.
    #[error("the cluster's guest secret: {0}")]
    Store(String),
}

/// A gateway that serves players.
pub struct Gateway {
    addr: SocketAddr,
    front: Arc<accept::Front>,
    stop: Shutdown,
}

impl Gateway {
    /// Listens on `config.listen` and serves.
    ///
    /// # Errors
    /// When the port cannot be had, a key cannot be used, or the store does not answer.
    pub async fn start(parts: GatewayParts) -> Result<Self, Error> {
        let addr = parts.config.listen;
        let listener = TcpListener::bind(addr).await.map_err(|error| Error::Listen { addr, error })?;
        Self::start_on(listener, parts).await
    }

    /// The same on a listener that exists.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_on(listener: impl Listener, parts: GatewayParts) -> Result<Self, Error> {
        let addr = listener.local_addr().map_err(|error| Error::Listen { addr: parts.config.listen, error })?;
        let stop = parts.tasks.shutdown().child();
        let front = Arc::new(build(parts).await?);
        let accepting = accept::accept(front.clone(), listener, stop.clone());
        front.tasks.spawn("gateway_accept", Kind::Job, accepting);
        Ok(Self { addr, front, stop })
    }

    /// Where players connect; with port 0 the port that was chosen.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sockets that are open.
    pub fn sockets(&self) -> usize {
        self.front.site.conns.len()
    }
}

async fn build(parts: GatewayParts) -> Result<accept::Front, Error> {
    let GatewayParts {
        config,
        auth,
        unsaved,
        server,
        region,
        coordinated,
        directory,
        dial,
        store,
        clock,
        rng,
        tasks,
        assets,
    } = parts;
    let secret = secret::agree(&store, &rng).await?;
    let auth = auth::Auth::new(&auth, config.guests, secret.as_bytes())?;
    let keeping = secret::keep(store.clone(), secret, clock.clone(), tasks.shutdown().clone());
    tasks.spawn("gateway_secret", Kind::Job, keeping);
    let conns = Arc::new(Slab::<Conn>::new(rng.next_u64() as u32));
    let metrics = metrics::Metrics::new();
    let shared = Arc::new(fanout::Shared {
        conns: conns.clone(),
        clock: clock.clone(),
        metrics: metrics.clone(),
        tables: tables::Tables::default(),
        shards: directory.shards(),
    });
    let lanes = match config.fanout_tasks {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some,
    };
    let (fan_out, lane_tasks) = fanout::FanOut::new(lanes, &shared);
    let router = router::Router::new(directory, dial, clock.clone(), rng.fork(), Arc::new(fan_out));
    let routing = router.clone().run(tasks.shutdown().clone());
    tasks.spawn("gateway_router", Kind::Essential, routing);
    for lane in lane_tasks {
        // Not within the runtime's budget per task: it would stop writes after 128 and count the sockets as blocked. To the end of
        // the node, not of the gateway: seats that are taken while it stops must be given back.
        let run = tokio::task::coop::unconstrained(lane.run(tasks.shutdown().clone()));
        tasks.spawn("gateway_fanout", Kind::Essential, run);
    }
    let millis = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
    let site = Arc::new(task::Site {
        rules: state::Rules {
            server,
            region,
            coordinated,
            ping_ms: millis(config.ping_every),
            idle_ms: millis(config.idle_timeout),
            client_message: u32::try_from(config.client_message).unwrap_or(u32::MAX),
            rate: config.messages_per_second,
            form: msgpack::Bounds { depth: config.nesting_depth, collection: config.collection_length },
        },
        limits: task::Limits {
            login_message: config.login_message,
            client_message: config.client_message,
            messages_per_second: config.messages_per_second,
            messages_burst: config.messages_burst,
            bytes_per_second: config.bytes_per_second,
            login_timeout: config.login_timeout,
            ping_every: config.ping_every,
            idle_timeout: config.idle_timeout,
            outgoing: outgoing::Bounds {
                bytes: config.outgoing_bytes,
                resync_after: config.resync_after,
                close_after: config.close_after,
            },
            unsaved,
        },
        auth,
        creates: rate::Creates::new(config.creates_per_minute),
        sessions: sessions::Sessions::new(store, clock.clone(), rng.fork()),
        clock,
        rng,
        // Stamped by the link.
        gateway: crate::link::GatewayId(0),
        router,
        conns,
        metrics,
    });
    Ok(accept::Front {
        site,
        admission: admission::Admission::new(config.sockets, config.sockets_per_address, config.count_loopback),
        origins: upgrade::Origins::new(&config.origins),
        proxies: forwarded::Proxies::new(&config.trusted_proxies),
        assets,
        handshake: config.handshake_timeout,
        tasks,
    })
}
