//! Hosts rooms: threads, ticks, checkpoints, commits, due work, grants, dormancy.
//!
//! A room runs on a room thread (an [`Activity`]); a shard's store calls are made by one task, its writer; grants go from the shard's
//! outbox to ledgers by another. They talk by bounded inboxes: a tick never awaits the store, a commit never awaits a room.
//!
//! - What one tick did to durable state, its checkpoint and the next occurrence of a schedule are one commit (H6).
//! - Every commit carries the shard's fence; rooms tick and send only while the lease holds (H1).
//! - An item is in one pair of hands: from the hand-over until its commit is acknowledged it is not handed out again.
//! - A room exists when its first checkpoint is stored; attaches are answered after that.

#![allow(clippy::result_large_err, reason = "what a full inbox refuses goes back as it came, whatever its size")]

mod actor;
mod arrivals;
mod asking;
mod attaching;
mod bulletin;
mod complaints;
mod config;
mod core;
mod executor;
mod finder;
mod frozen;
mod gateways;
mod giving;
mod hands;
mod inbox;
mod items;
mod lately;
mod link;
mod loading;
mod names;
mod pacing;
mod prepared;
mod proof;
mod schedules;
mod shard;
mod shards;
mod status;
mod tasks;
mod threads;
mod watchdog;

use std::{collections::BTreeMap, io, sync::Arc};

pub use bulletin::{Reports, RoomNews};
pub use config::{HostConfig, QUESTIONS};
pub(in crate::room) use config::{LONGEST_RETRY, backoff};
pub use executor::{Activity, Busy, Executor, Next, Wake};
pub use frozen::Frozen;
pub use hands::Hands;
pub use inbox::Stage;
pub(in crate::room) use items::{Items, in_vain, is_of_game, takes, too_many};
pub use prepared::Space;
pub use status::{HostStatus, RoomStatus, StopReport};
pub use threads::Threads;
pub use watchdog::Kill;

use crate::{
    ownership::Ownership,
    plugin::RoomKind,
    runtime::{Clock, Rng, Tasks},
    store::Store,
    timers::LiveBook,
};

/// What a room host is made of.
pub struct HostParts {
    /// The games.
    pub kinds: Vec<Arc<RoomKind>>,
    /// Where durable state lives.
    pub store: Store,
    /// What this node owns.
    pub ownership: Ownership,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// Settings.
    pub config: HostConfig,
    /// Schedules of rewards.
    pub book: LiveBook,
    /// Where its tasks run.
    pub tasks: Tasks,
    /// Where rooms run; `None`: on threads of their own.
    pub executor: Option<Arc<dyn Executor>>,
    /// Ends the process when a room thread hangs for good (exit code 70).
    pub kill: Kill,
}

/// The rooms of a node. Dropped without [`RoomHost::stop`] it ends as in a crash: nothing more is saved.
pub struct RoomHost {
    host: Arc<core::Host>,
    watchdog: watchdog::Watchdog,
}

impl RoomHost {
    /// Starts the room threads and serves every shard that ownership has or gets.
    ///
    /// # Errors
    /// When the operating system gives no more threads, or two kinds have one name.
    pub fn start(parts: HostParts) -> io::Result<Self> {
        let HostParts { kinds, store, ownership, clock, rng, config, book, tasks, executor, kill } = parts;
        let mut by_name = BTreeMap::new();
        for kind in kinds {
            if let Some(twice) = by_name.insert(kind.name().to_owned(), kind) {
                let text = format!("two kinds of room have the name {:?}", twice.name());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        let executor = match executor {
            Some(executor) => executor,
            None => {
                let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                let count = if config.threads == 0 { cores } else { config.threads };
                Arc::new(Threads::start(count, &clock)?)
            }
        };
        let parts = core::Parts { kinds: by_name, store, ownership, clock, rng, config, book, tasks, executor };
        let host = Arc::new(core::Host::new(parts));
        let watchdog = watchdog::Watchdog::start(&host, kill)?;
        shards::watch(&host);
        Ok(Self { host, watchdog })
    }

    /// How often room threads woke up so far; it stands still while all rooms are dormant.
    pub fn wakeups(&self) -> u64 {
        self.host.executor.wakeups()
    }

    /// Makes a shard that is held here look for due work that it may not know of. Cheap, and without effect on any other.
    pub fn look_for_work(&self, shard: tenure_shared::ShardId) {
        if let Some(shard) = self.host.held(shard) {
            shard.look_for_work();
        }
    }

    fn end(&self) {
        self.host.shutdown.stop();
        self.host.gateways.end();
        self.host.executor.stop();
        self.watchdog.stop();
    }
}

impl Drop for RoomHost {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for RoomHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomHost").field("rooms", &self.host.rooms.len()).finish_non_exhaustive()
    }
}
