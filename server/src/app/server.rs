//! A running node: the parts, the order in which they start, and the order in which they end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    App, address, daemons, peers,
    ports::Ports,
    proof, reload, run, schedules, settings,
    source::{self, NodeSource},
};
use crate::{
    cli,
    config::{Config, Role},
    daemon::{self, Daemons},
    gateway::{self, Gateway, GatewayParts},
    link::{
        self, Address, Node, Peers,
        net::{Dialer, LinkParts},
    },
    ops::{self, Addresses, AdminParts, Moves, Probe},
    ownership::Ownership,
    room::host::{HostParts, Kill, RoomHost},
    runtime::{Clock, Mono, Rng, Shutdown, Tasks, Wall},
    store::{self, Store},
    telemetry::{Metrics, Recent},
    timers::LiveBook,
};

/// Part of the grace that is left for claims and tasks when rooms are saved.
pub(super) const LAST_STEPS: Duration = Duration::from_secs(2);

/// Why a node did not start; the texts are for people.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The game registers something wrong.
    #[error("the game cannot be built:\n  {}", .0.join("\n  "))]
    Game(Vec<String>),
    /// The schedules of rewards have mistakes.
    #[error("{0}")]
    Rewards(String),
    /// It was told to stop before there was anything to stop.
    #[error("told to stop")]
    Told,
    /// The store cannot be opened.
    #[error("{0}")]
    Store(String),
    /// The node could not become a member, or the cluster has agreed on something else.
    #[error("{0}")]
    Ownership(#[from] store::Error),
    /// The players' port.
    #[error("{0}")]
    Gateway(#[from] gateway::Error),
    /// The admin port.
    #[error("admin port {0}: {1}")]
    Admin(std::net::SocketAddr, std::io::Error),
    /// The port for other nodes.
    #[error("port for links {0}: {1}")]
    Link(std::net::SocketAddr, std::io::Error),
    /// The operating system gives no more threads.
    #[error("room threads: {0}")]
    Threads(std::io::Error),
    /// The recorder of metrics.
    #[error("metrics: {0}")]
    Metrics(String),
    /// Other nodes could not reach this one.
    #[error("{0}")]
    Unreachable(String),
}

/// What a node is started with.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) recent: Recent,
    pub(super) kill: Kill,
    /// A store that is open and shared already; `None` opens the configured one.
    pub(super) store: Option<Store>,
}

/// What the node's parts and its admin port share.
pub(super) struct Inside {
    pub(super) name: String,
    /// Of the game.
    pub(super) version: &'static str,
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) store: Store,
    pub(super) ownership: Ownership,
    /// Role room.
    pub(super) host: Option<Arc<RoomHost>>,
    /// If the game has any.
    pub(super) daemons: Option<Daemons>,
    pub(super) book: LiveBook,
    /// Held while the file of schedules is read again.
    pub(super) reloading: tokio::sync::Mutex<()>,
    pub(super) probe: Probe,
    pub(super) started: Wall,
    pub(super) addresses: Mutex<Addresses>,
    pub(super) moves: Moves,
    /// Given when somebody asks by the admin port for the node's end.
    pub(super) asked: Shutdown,
    pub(super) stopping: AtomicBool,
    /// Given when everything is stored and released, and when somebody was told so.
    pub(super) ended: Shutdown,
    pub(super) ended_told: Shutdown,
    gateway: Mutex<Option<Arc<Gateway>>>,
}

impl Inside {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether the node has ended in order; whoever asks is told.
    pub(super) fn say_ended(&self) -> bool {
        let ended = self.ended.is_stopped();
        if ended {
            self.ended_told.stop();
        }
        ended
    }

    pub(super) fn sockets(&self) -> usize {
        self.gateway.lock().as_ref().map_or(0, |gateway| gateway.sockets())
    }
}

/// A running node.
pub struct Server {
    pub(super) inside: Arc<Inside>,
    /// Role gateway.
    pub(super) gateway: Option<Arc<Gateway>>,
    /// Everything but the admin port.
    pub(super) tasks: Tasks,
    /// Where daemons run.
    _threads: Option<Arc<daemons::Threads>>,
    /// The admin port: it ends last, since a node that goes away is asked how far it is.
    pub(super) admin: Tasks,
}

impl Server {
    /// Starts the parts in order: store, ports, ownership, rooms, links, players' port, admin port. When one cannot start, those before
    /// it end. Told to stop meanwhile it gives up where that leaves nothing behind; otherwise it is to be stopped like one that is ready.
    pub(super) async fn start(app: App, parts: Parts, told: &Shutdown) -> Result<Self, StartError> {
        let (tasks, admin) = (Tasks::new(Shutdown::new()), Tasks::new(Shutdown::new()));
        let started = Self::assemble(app, parts, told, &tasks, &admin).await;
        if started.is_err() {
            tasks.shutdown().stop();
            admin.shutdown().stop();
        }
        started
    }

    async fn assemble(
        app: App,
        parts: Parts,
        told: &Shutdown,
        tasks: &Tasks,
        admin: &Tasks,
    ) -> Result<Self, StartError> {
        let Parts { config, clock, rng, recent, kill, store } = parts;
        let kinds = settings::kinds(&app, &config)?;
        let sets = daemons::sets(&app, &config, &kinds)?;
        let book = settings::book(&app, &config).map_err(StartError::Rewards)?;
        for warning in book.warnings().iter().map(ToString::to_string).chain(config.advice()) {
            tracing::warn!("{warning}");
        }
        let book = LiveBook::new(book);
        let name = settings::node_name(&config);
        let metrics = Metrics::install(&name, app.version).map_err(|error| StartError::Metrics(error.to_string()))?;
        metrics.keep_up(clock.clone(), admin);
        let store = match store {
            Some(store) => store,
            None => tokio::select! {
                biased;
                store = cli::open_store(&config, &clock) => store.map_err(StartError::Store)?,
                // Nobody knows of this node yet.
                () = told.stopped() => return Err(StartError::Told),
            },
        };
        let ports = Ports::bind(&config).await?;
        let mut info = settings::member_info(&config, &app, &ports)?;
        // Before it is a member: a node with another number of daemons has no business in this cluster.
        daemon::agree(&store, &sets).await?;
        tokio::select! {
            biased;
            own = address::is_own(&store, &clock, &info) => own?,
            () = told.stopped() => return Err(StartError::Told),
        }
        info.roles.extend(daemon::roles(&sets));
        let own: Address = info.link.as_str().into();
        let lease = settings::ownership(&config);
        let ownership = Ownership::start(store.clone(), clock.clone(), rng.clone(), lease, info, tasks).await?;
        let host = if config.node.has(Role::Room) {
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
            Some(Arc::new(host.map_err(StartError::Threads)?))
        } else {
            None
        };
        let later = Arc::<daemons::Later>::default();
        let start = daemons::Start {
            config: &config,
            store: &store,
            ownership: &ownership,
            clock: &clock,
            rng: &rng,
            tasks,
            host: host.as_ref(),
            peers: ports.link().map(|_| (later.clone() as Arc<dyn Peers>, own.clone())),
            kill: run::kill(),
        };
        let (daemons, threads) = daemons::start(sets, start)?.unzip();
        if let (Some(daemons), Some(host)) = (&daemons, &host) {
            daemons::coordinate(daemons, host, &config, &clock, tasks);
        }
        let (every, fresh) = (config.lease.heartbeat, config.lease.ttl);
        let lasts = fresh.saturating_sub(config.lease.margin);
        let (owned, rooms, now) = (ownership.clone(), host.as_ref().map(Arc::downgrade), clock.clone());
        let reads = store.clone();
        let prove = move || -> store::BoxFuture<'static, Option<Mono>> {
            let (owned, rooms, now, reads) = (owned.clone(), rooms.clone(), now.now(), reads.clone());
            Box::pin(async move {
                match rooms.and_then(|rooms| rooms.upgrade()) {
                    Some(rooms) if !owned.shards().is_empty() => rooms.prove(every).await,
                    // Without shards there is no fence to write under.
                    _ => {
                        let beat = owned.held_until(now).map(|until| until.before(lasts))?;
                        proof::write(&reads).await.map(|()| now.min(beat))
                    }
                }
            })
        };
        let probe = Probe::start(clock.clone(), tasks, every, fresh, prove);
        let addresses = Addresses { play: ports.play(), link: ports.link(), admin: None };
        let inside = Arc::new(Inside {
            name,
            version: app.version,
            clock: clock.clone(),
            store: store.clone(),
            ownership: ownership.clone(),
            host: host.clone(),
            daemons,
            book,
            reloading: tokio::sync::Mutex::new(()),
            probe,
            started: clock.wall(),
            addresses: Mutex::new(addresses),
            moves: Moves::default(),
            asked: Shutdown::new(),
            stopping: AtomicBool::new(false),
            ended: Shutdown::new(),
            ended_told: Shutdown::new(),
            gateway: Mutex::new(None),
            config,
        });
        source::watch_moves(&inside, tasks);
        reload::say_hash(&inside.book);
        reload::count(&inside, tasks);
        schedules::compare(&inside, tasks);
        let links = settings::links(&inside, &rng, tasks);
        if let (Some(listener), Some(host)) = (ports.link, &host) {
            let inbox = Some(peers::start(&inside, host, own.clone(), &later, links.clone(), tasks));
            let parts = LinkParts { listener, node: host.clone(), inbox, common: links.clone() };
            link::net::listen(parts).map_err(|error| StartError::Link(inside.config.link.listen, error))?;
        }
        let gateway = match ports.play {
            Some(listener) => {
                let dial = Dialer::new(own, host.clone().map(|host| host as Arc<dyn Node>), links);
                let parts = GatewayParts {
                    config: inside.config.gateway.clone(),
                    auth: settings::auth(&inside.config),
                    unsaved: settings::unsaved(&inside.config),
                    server: inside.name.clone(),
                    region: inside.config.node.region.clone(),
                    coordinated: inside.config.daemons.regions.clone(),
                    directory: Arc::new(ownership),
                    dial: Arc::new(dial),
                    store: Arc::new(move |command| {
                        let store = store.clone();
                        Box::pin(async move { store.execute(command).await })
                    }),
                    clock: clock.clone(),
                    rng,
                    tasks: tasks.clone(),
                    assets: app.pages.clone(),
                };
                Some(Arc::new(Gateway::start_on(listener, parts).await?))
            }
            None => None,
        };
        inside.gateway.lock().clone_from(&gateway);
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
        Ok(Self { inside, gateway, tasks: tasks.clone(), _threads: threads, admin: admin.clone() })
    }

    /// The app's name and version, for people.
    pub fn name(&self) -> &str {
        &self.inside.name
    }

    /// The cluster's daemons; `None` if the game has none.
    pub fn daemons(&self) -> Option<&Daemons> {
        self.inside.daemons.as_ref()
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        *self.inside.addresses.lock()
    }

    /// Resolves when a part that the node cannot do without has ended by itself. Cancel-safe.
    pub async fn failed(&self) {
        tokio::select! {
            () = self.tasks.shutdown().stopped() => {}
            () = self.admin.shutdown().stopped() => {}
        }
    }

    /// Resolves when the admin port was told to drain the node. Cancel-safe.
    pub async fn asked_to_drain(&self) {
        self.inside.asked.stopped().await;
    }

    /// Reads the file of schedules again; the log says what came of it.
    pub(super) async fn reload(&self) {
        drop(reload::reload(&self.inside).await);
    }

    /// Whether the admin port was told so.
    pub(super) fn is_asked_to_drain(&self) -> bool {
        self.inside.asked.is_stopped()
    }

    /// Waits until the node is ready and every shard that it holds is taken over: rooms can be reached. Cancel-safe.
    pub(super) async fn until_ready(&self) {
        let source = NodeSource(self.inside.clone());
        loop {
            let taken = self.inside.host.as_ref().is_none_or(|host| {
                let (serves, ready) = host.shards();
                serves == ready && ready >= self.inside.ownership.shards().len()
            });
            if taken && ops::Source::readiness(&source).ready() || self.tasks.shutdown().is_stopped() {
                return;
            }
            self.inside.clock.sleep(Duration::from_millis(5)).await;
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.inside.name).finish_non_exhaustive()
    }
}
