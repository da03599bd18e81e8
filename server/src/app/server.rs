//! A running node: the parts, the order in which they start, and the order in which they end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{App, settings, source::NodeSource};
use crate::{
    config::Config,
    gateway::{self, Gateway, GatewayParts},
    link::Sole,
    ops::{self, Addresses, AdminParts, Probe},
    ownership::Ownership,
    room::host::{HostParts, Kill, RoomHost, StopReport},
    runtime::{Clock, Rng, Shutdown, Tasks, Wall},
    store::{self, Store},
    telemetry::{Metrics, Recent},
    timers::RewardBook,
};

/// Part of the grace that is left for claims and tasks when rooms are saved.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// Why a node did not start; the texts are for people.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The game registers something wrong.
    #[error("the game cannot be built:\n  {}", .0.join("\n  "))]
    Game(Vec<String>),
    /// The schedules of rewards have mistakes.
    #[error("{0}")]
    Rewards(String),
    /// The store cannot be opened.
    #[error("{0}")]
    Store(#[from] store::OpenError),
    /// The node could not become a member, or the cluster has agreed on something else.
    #[error("{0}")]
    Ownership(#[from] store::Error),
    /// The players' port.
    #[error("{0}")]
    Gateway(#[from] gateway::Error),
    /// The admin port.
    #[error("admin port {0}: {1}")]
    Admin(std::net::SocketAddr, std::io::Error),
    /// The operating system gives no more threads.
    #[error("room threads: {0}")]
    Threads(std::io::Error),
    /// The recorder of metrics.
    #[error("metrics: {0}")]
    Metrics(String),
    /// What is configured is not there in this version.
    #[error("{0}")]
    Unsupported(String),
}

/// What a node is started with.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) recent: Recent,
    pub(super) kill: Kill,
}

/// How a node ended.
#[derive(Debug)]
pub struct StopOutcome {
    /// What the room host could not save.
    pub rooms: StopReport,
    /// Sockets that had to be cut off.
    pub cut_off: usize,
}

impl StopOutcome {
    /// Whether everything is in the store.
    pub fn is_clean(&self) -> bool {
        self.rooms.is_clean()
    }
}

/// What the node's parts and its admin port share.
pub(super) struct Inside {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) store: Store,
    pub(super) ownership: Ownership,
    pub(super) host: Arc<RoomHost>,
    pub(super) book: Arc<RewardBook>,
    pub(super) probe: Probe,
    pub(super) started: Wall,
    pub(super) addresses: Mutex<Addresses>,
    gateway: Mutex<Option<Arc<Gateway>>>,
    stopping: AtomicBool,
}

impl Inside {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn sockets(&self) -> usize {
        self.gateway.lock().as_ref().map_or(0, |gateway| gateway.sockets())
    }
}

/// A running node.
pub struct Server {
    inside: Arc<Inside>,
    gateway: Arc<Gateway>,
    /// Everything but the admin port.
    tasks: Tasks,
    /// The admin port: it ends last, since a node that goes away is asked how far it is.
    admin: Tasks,
}

impl Server {
    /// Starts the parts in order: store, ownership, rooms, players' port, admin port. When one cannot start, those before it end.
    pub(super) async fn start(app: App, parts: Parts) -> Result<Self, StartError> {
        let (tasks, admin) = (Tasks::new(Shutdown::new()), Tasks::new(Shutdown::new()));
        let started = Self::assemble(app, parts, &tasks, &admin).await;
        if started.is_err() {
            tasks.shutdown().stop();
            admin.shutdown().stop();
        }
        started
    }

    async fn assemble(app: App, parts: Parts, tasks: &Tasks, admin: &Tasks) -> Result<Self, StartError> {
        let Parts { config, clock, rng, recent, kill } = parts;
        if config.store.url != "embedded" {
            let text = format!("store.url = {:?}: this version has the embedded store alone", config.store.url);
            return Err(StartError::Unsupported(text));
        }
        let kinds = settings::kinds(&app, &config)?;
        let book = Arc::new(settings::book(&app, &config)?);
        for warning in book.warnings() {
            tracing::warn!("{warning}");
        }
        let name = settings::node_name(&config);
        let metrics = Metrics::install(&name).map_err(|error| StartError::Metrics(error.to_string()))?;
        metrics.keep_up(clock.clone(), admin);
        let store = open(&config, &clock).await?;
        let info = settings::member_info(&config, &app);
        let lease = settings::ownership(&config);
        let ownership = Ownership::start(store.clone(), clock.clone(), rng.clone(), lease, info, tasks).await?;
        let host = RoomHost::start(HostParts {
            kinds,
            store: store.clone(),
            ownership: ownership.clone(),
            clock: clock.clone(),
            rng: rng.clone(),
            config: settings::host(&config),
            book: book.clone(),
            tasks: tasks.clone(),
            executor: None,
            kill,
        });
        let host = Arc::new(host.map_err(StartError::Threads)?);
        host.ready().await;
        let owned = ownership.clone();
        let any = move || owned.shards().first().and_then(|shard| owned.fence(*shard));
        let (every, fresh) = (config.lease.heartbeat, config.lease.ttl);
        let probe = Probe::start(store.clone(), clock.clone(), tasks, every, fresh, any);
        let inside = Arc::new(Inside {
            name,
            clock: clock.clone(),
            store: store.clone(),
            ownership,
            host: host.clone(),
            book,
            probe,
            started: clock.wall(),
            addresses: Mutex::new(Addresses::default()),
            gateway: Mutex::new(None),
            stopping: AtomicBool::new(false),
            config,
        });
        let rooms = Arc::new(Sole::new(host, inside.config.shards.count));
        let gateway = Gateway::start(GatewayParts {
            config: inside.config.gateway.clone(),
            auth: settings::auth(&inside.config),
            unsaved: settings::unsaved(&inside.config),
            server: inside.name.clone(),
            region: inside.config.node.region.clone(),
            directory: rooms.clone(),
            dial: rooms,
            store: Arc::new(move |command| {
                let store = store.clone();
                Box::pin(async move { store.execute(command).await })
            }),
            clock: clock.clone(),
            rng,
            tasks: tasks.clone(),
            assets: app.pages.clone(),
        });
        let gateway = Arc::new(gateway.await?);
        *inside.gateway.lock() = Some(gateway.clone());
        inside.addresses.lock().play = Some(gateway.addr());
        let address = ops::start(AdminParts {
            config: inside.config.admin.clone(),
            token: inside.config.secrets.admin.clone(),
            source: Arc::new(NodeSource(inside.clone())),
            metrics,
            recent,
            clock,
            tasks: admin.clone(),
        });
        let address = address.await.map_err(|error| StartError::Admin(inside.config.admin.listen, error))?;
        inside.addresses.lock().admin = Some(address);
        let server = Self { inside, gateway, tasks: tasks.clone(), admin: admin.clone() };
        server.until_ready().await;
        Ok(server)
    }

    /// The app's name and version, for people.
    pub fn name(&self) -> &str {
        &self.inside.name
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        *self.inside.addresses.lock()
    }

    /// Resolves when a part that the node cannot do without has ended by itself. Cancel-safe.
    pub async fn failed(&mut self) {
        tokio::select! {
            () = self.tasks.shutdown().stopped() => {}
            () = self.admin.shutdown().stopped() => {}
        }
    }

    /// Ends the node within `drain.shutdown_grace`: not ready and no new sockets, rooms saved, sockets told to come back (1012), claims
    /// released, admin port closed (LESSONS C45, C53). Call it once.
    pub async fn stop(&self) -> StopOutcome {
        let inside = &self.inside;
        inside.stopping.store(true, Ordering::Release);
        self.gateway.drain();
        let grace = inside.config.drain.shutdown_grace;
        let end = inside.clock.now().plus(grace);
        let rooms_until = inside.clock.now().plus(grace.saturating_sub(LAST_STEPS * 2).max(grace / 2));
        tracing::info!(sockets = self.gateway.sockets(), "stopping: rooms are being saved");
        let rooms = inside.host.stop(rooms_until).await;
        let left = end.since(inside.clock.now()).saturating_sub(LAST_STEPS / 2);
        let cut_off = self.gateway.stop(left.min(LAST_STEPS)).await;
        let leave = inside.ownership.leave();
        tokio::select! {
            () = leave => {}
            () = inside.clock.sleep(LAST_STEPS) => tracing::warn!("claims could not be released in time: they end with the lease"),
        }
        self.tasks.shutdown().stop();
        self.tasks.wait(LAST_STEPS).await;
        self.admin.shutdown().stop();
        self.admin.wait(LAST_STEPS).await;
        tracing::info!(unsaved = rooms.unsaved.len(), cut_off, "stopped");
        StopOutcome { rooms, cut_off }
    }

    async fn until_ready(&self) {
        let source = NodeSource(self.inside.clone());
        while !ops::Source::readiness(&source).ready() && !self.tasks.shutdown().is_stopped() {
            self.inside.clock.sleep(Duration::from_millis(5)).await;
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.inside.name).finish_non_exhaustive()
    }
}

/// Opening waits for a lock and may repair a file: not on a thread that serves sockets.
async fn open(config: &Config, clock: &Clock) -> Result<Store, StartError> {
    let (path, clock, options) = (config.store.path.clone(), clock.clone(), settings::store_options(config));
    let opened = tokio::task::spawn_blocking(move || store::embedded(&path, clock, options)).await;
    match opened {
        Ok(store) => Ok(store?),
        Err(error) => Err(StartError::Unsupported(format!("the store could not be opened: {error}"))),
    }
}
