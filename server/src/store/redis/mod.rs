//! The store in Redis: one server, a primary under Sentinel, or a Cluster; several nodes share it.
//!
//! There is no copy of the rules here. A command is an optimistic transaction: its rows are read, the model runs over them, and one
//! script compares every row that it looked at byte for byte with what is there, and writes only if all are equal
//! (`docs/decisions/0005-redis-runs-the-model.md`). So the fence is compared in the same atomic step as the write (H1, H3), and a
//! command that was delayed on its way is never applied on top of something newer.
//!
//! All rows of a shard lie in one hash slot, as do those of a player, the members and the routes ([`slots`]); a command writes in one of
//! them only. What it leaves to be done in another, its route and the note of a session, is a step of its own that may come late
//! ([`pending`]). Nothing here expires by itself: no key has a time to live.

mod check;
mod engine;
mod fault;
mod lane;
mod link;
mod pending;
mod script;
mod slots;
mod time;
mod topology;
mod verbs;
mod view;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use check::Verdict;
use engine::{Engine, Shared};
use fault::Fault;
use lane::Lane;
use link::Link;
use topology::Topology;

use super::{Backend, BoxFuture, Command, Error, Stamped, Store, model::Rules};
use crate::{
    config::Secret,
    runtime::{Clock, Rng, Wall},
};

/// How long the end waits for what is under way.
const END_WAIT: Duration = Duration::from_secs(5);
/// Pause before the servers are looked at again when the store is opened.
const OPEN_PAUSE: Duration = Duration::from_millis(100);

/// How the store in Redis is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules' settings.
    pub rules: Rules,
    /// Longest time of one call (`lease.call_deadline`): below the margin of a lease.
    pub deadline: Duration,
    /// How long opening waits for servers that do not answer yet.
    pub open_wait: Duration,
    /// Password of the servers (`store.password_file`); one in the URL gives way to it.
    pub password: Option<Secret>,
    /// Start although a failover may lose what was acknowledged (`store.accept_loss`).
    pub accept_loss: bool,
    /// Microseconds since 1970 that are the store's time instead of the servers' clocks: tests let time pass with it.
    #[doc(hidden)]
    pub test_time: Option<Arc<AtomicU64>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            deadline: Duration::from_millis(500),
            open_wait: Duration::from_secs(10),
            password: None,
            accept_loss: false,
            test_time: None,
        }
    }
}

impl Options {
    /// The store's time, given the clock of a server.
    fn time(&self, server: Wall) -> Wall {
        self.test_time.as_ref().map_or(server, |time| Wall(time.load(Ordering::SeqCst)))
    }
}

/// Why the store could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store.
    #[error("store.url: {0}")]
    Url(String),
    /// The password cannot be sent.
    #[error("store.password_file: the password is not UTF-8")]
    Password,
    /// Nobody answered for as long as opening waits.
    #[error("{store} cannot be reached: {text}")]
    Unreachable {
        /// The store, without its password.
        store: String,
        /// What the last attempt met.
        text: String,
    },
    /// Its servers are set up in such a way that they lose what they were given; the text says what to change.
    #[error("{store} is not fit to be a store: {text}")]
    Unfit {
        /// The store.
        store: String,
        /// What to change.
        text: String,
    },
    /// It was written by a newer build, or is damaged.
    #[error("{store}: {error}")]
    Unreadable {
        /// The store.
        store: String,
        /// What is wrong with it.
        error: Error,
    },
}

/// The backend of [`redis()`].
pub struct Redis {
    urgent: Lane,
    normal: Lane,
    name: String,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.name)
    }
}

impl Redis {
    /// Looks at the servers and connects. Blocks, for at most about `open_wait`.
    ///
    /// # Errors
    /// When the URL names no store, nobody answers, the servers are not fit to be a store, or hold one of a newer build.
    pub fn open(url: &str, clock: Clock, options: Options) -> Result<Self, OpenError> {
        let mut topology = Topology::parse(url).map_err(OpenError::Url)?;
        if let Some(password) = &options.password {
            let password = std::str::from_utf8(password.expose()).map_err(|_| OpenError::Password)?;
            topology = topology.with_password(password);
        }
        let topology = Arc::new(topology);
        let name = topology.to_string();
        let unreachable = |text: String| OpenError::Unreachable { store: name.clone(), text };
        let shared = Arc::new(Shared::new(options, clock, Rng::from_entropy()));
        // On a thread of its own: the caller may stand in a runtime, where another cannot be waited for.
        let (place, sharing) = (topology.clone(), shared.clone());
        let opening = std::thread::Builder::new().name("tenure-store".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Fault::Lasting(format!("no runtime: {error}")));
            runtime.map(|runtime| runtime.block_on(Box::pin(opened(place, sharing))))
        });
        let opening = opening.map_err(|error| unreachable(format!("no thread: {error}")))?;
        let opened = opening.join().map_err(|_| unreachable("looking at the servers panicked".to_owned()))?;
        opened.map_err(|fault| unreachable(fault.error().to_string()))??;

        let lane = |name, watches| Lane::start(name, topology.clone(), shared.clone(), watches).map_err(unreachable);
        Ok(Self { urgent: lane("tenure-leases", true)?, normal: lane("tenure-store", false)?, name })
    }
}

async fn opened(topology: Arc<Topology>, shared: Arc<Shared>) -> Result<(), OpenError> {
    let store = topology.to_string();
    let (clock, options) = (shared.clock.clone(), shared.options.clone());
    let until = clock.now().plus(options.open_wait);
    loop {
        let text = match check::look(&topology, &options).await {
            Ok(Verdict::Unfit(text)) => return Err(OpenError::Unfit { store, text }),
            Ok(Verdict::Fit { summary, warnings }) => {
                let (rng, connected) = (shared.rng.fork(), shared.connected.clone());
                let link = Link::new(topology.clone(), clock.clone(), rng, options.deadline, connected);
                match (Engine { link, shared: shared.clone() }).format().await {
                    Ok(()) => {
                        tracing::info!(store, "the store: {summary}");
                        for warning in warnings {
                            tracing::warn!(store, "{warning}");
                        }
                        return Ok(());
                    }
                    Err(Error::Unavailable(text)) => text,
                    Err(error) => return Err(OpenError::Unreadable { store, error }),
                }
            }
            Err(fault) if fault.is_final() => {
                return Err(OpenError::Unreachable { store, text: fault.error().to_string() });
            }
            Err(fault) => fault.error().to_string(),
        };
        if clock.now() >= until {
            return Err(OpenError::Unreachable { store, text });
        }
        clock.sleep(OPEN_PAUSE).await;
    }
}

impl Backend for Redis {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        let lane = if command.is_urgent() { &self.urgent } else { &self.normal };
        lane.execute(command)
    }
}

/// Opens the store at a URL: `redis://host:port/db`, `redis+sentinel://h1:p,h2:p/master` or `redis+cluster://h1:p,h2:p`, with
/// `user:password@` before the first host where the servers ask for it. [`Redis::open`] with a handle around it. Blocks.
///
/// # Errors
/// As [`Redis::open`].
pub fn redis(url: &str, clock: Clock, options: Options) -> Result<Store, OpenError> {
    Ok(Store::new(Redis::open(url, clock.clone(), options)?, clock))
}
