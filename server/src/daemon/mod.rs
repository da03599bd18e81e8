//! Daemons: exactly N numbered background workers of the cluster, and singletons (docs/daemons.md).
//!
//! ```text
//!                 claim granted          state read                asked to stop, hung, lease over
//! Idle ──► Asking ─────────────► Loading ───────────► Running ─────────────────────────────────────► Ending
//!  ▲                                                    │ failed, ended by itself                      │ task has ended
//!  │                                   ┌────────────────┴───────────────┐                              │
//!  │      fresh acquire after a while  ▼   budget used up               ▼                              │
//!  │   Asking ◄───────────────────── Waiting                         Parked                            │
//!  └──────────────────────── Releasing ◄───────────────────────────────────────────────────────────────┘
//! ```
//! A claim is `daemon/<name>@<generation>/<index>` or `singleton/<name>`: the index is the key, nothing is hashed. Every activation has a
//! term of its own, and what it stores carries that term's fence: a second one, whatever caused it, can only produce refused writes (H10).
//!
//! `state/` is the step machine of one node's daemons, `driver.rs` carries out what it asks for, `runner.rs` runs an activation,
//! `handle.rs` and `post.rs` carry messages, `survey.rs` says how all are doing, `control.rs` is what operators do.

mod agreed;
mod call;
mod context;
mod control;
mod driver;
mod event;
mod handle;
mod letter;
mod metrics;
mod placement;
mod post;
mod regions;
mod runner;
mod slot;
mod spec;
mod state;
mod survey;
mod table;
mod user;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use self::{
    agreed::{ROLE_PREFIX, roles},
    call::agree,
    context::{Context, FIGURES, TIMERS},
    control::OrderError,
    driver::Kill,
    event::Times,
    handle::{DEADLINE, Daemons},
    letter::{MESSAGE_BYTES, Refused},
    post::{DaemonInbox, TOPIC, Wake},
    regions::{
        Herald, KEEP_FOR, LISTED, Reach, Region, RegionAnswer, RegionQuestion, TICKETS, coordinators, region_daemon,
    },
    spec::{COUNT, NAME_BYTES, RESCALES, SETS, ShardedDaemonProcess, Singleton, faults},
    table::{DaemonStatus, LastEnd, SetStatus, Survey},
    user::{Daemon, Fault},
};
use self::{call::Caller, driver::Driver, handle::Shared, post::Post, state::State};
use crate::{
    link::{Address, Peers},
    ownership::Ownership,
    runtime::{Changes, Clock, Rng, Tasks, mailbox, tasks::Kind},
    store::Store,
};

/// Most requests of handles waiting.
const REQUESTS: usize = 256;

/// What the daemons of a node need. For the node, and for tests of whole nodes.
#[doc(hidden)]
pub struct DaemonParts {
    /// The sets of this build, without [`faults`]; the cluster has [`agree`]d on them, and the member's record has their [`roles`].
    pub sets: Vec<ShardedDaemonProcess>,
    /// The store.
    pub store: Store,
    /// The node's lease and what it knows of the cluster.
    pub ownership: Ownership,
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub rng: Rng,
    /// Times that are the same for all sets.
    pub times: Times,
    /// The way to other nodes, and where this one is reached; `None`: messages for daemons elsewhere wait, and are refused at their deadline.
    pub peers: Option<(Arc<dyn Peers>, Address)>,
    /// Makes the owner of a shard of this node look for work; `None` on a node without rooms.
    pub wake: Option<Wake>,
    /// Ends the process when a daemon blocks its thread for ever.
    pub kill: Kill,
    /// The driver runs on these.
    pub tasks: Tasks,
    /// Where daemons run: not where sockets are, since a daemon that blocks must not keep them.
    pub threads: tokio::runtime::Handle,
}

impl std::fmt::Debug for DaemonParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaemonParts").field("sets", &self.sets).finish_non_exhaustive()
    }
}

impl Daemons {
    /// Starts keeping the daemons of a node, as an essential task: it ends with the signal of `tasks`.
    #[doc(hidden)]
    pub fn launch(parts: DaemonParts) -> Self {
        let DaemonParts { sets, store, ownership, clock, rng, times, peers, wake, kill, tasks, threads } = parts;
        let (requests, inbox) = mailbox::channel("daemons", REQUESTS);
        for advice in sets.iter().filter_map(ShardedDaemonProcess::advice) {
            tracing::warn!("{advice}");
        }
        let shared = Arc::new(Shared {
            sets: sets.clone(),
            table: ArcSwap::default(),
            changes: Changes::new(),
            requests,
            ownership,
            store: store.clone(),
            clock: clock.clone(),
            waiting: Shared::waiting(),
            wake,
            post: Post::new(peers, rng.next_u64()),
        });
        let caller = Caller { store, clock, times, sets: Arc::new(sets.clone()) };
        let state = State::new(times, sets);
        let driver =
            Driver { shared: shared.clone(), caller, rng, kill, threads, state, work: driver::Work::default() };
        let stop = tasks.shutdown().clone();
        tasks.spawn("daemons", Kind::Essential, driver.run(inbox, stop));
        Self(shared)
    }
}
