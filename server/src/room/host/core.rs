//! What all parts of the room host share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tenure_shared::{PlayerId, RoomId, ShardId, Term};
use tokio::sync::{Notify, Semaphore};

use super::{
    actor::Actor,
    arrivals::Arrivals,
    bulletin::Bulletin,
    config::{HostConfig, LONGEST_BACKOFF, REWARD_GRANTS, backoff},
    executor::Executor,
    finder::Finder,
    gateways::Gateways,
    inbox::{Directory, RoomHandle},
    names,
    prepared::{Prepared, PreparedRoom},
    shard::Shard,
};
use crate::{
    link::{ConnId, Coordinators, Directory as _, ToGateway},
    ownership::Ownership,
    plugin::RoomKind,
    room::world::RoomWorld,
    runtime::{Clock, Mono, Rng, Shutdown, Tasks, Wall},
    store::{Command, Error, Fence, Reply, RoomSummary, Store},
    timers::LiveBook,
};

/// Shared by all rooms and shards of a node.
pub(super) struct Host {
    pub(super) kinds: BTreeMap<String, Arc<RoomKind>>,
    pub(super) store: Store,
    pub(super) ownership: Ownership,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) config: HostConfig,
    pub(super) book: LiveBook,
    pub(super) tasks: Tasks,
    /// Given when the host ends: nothing is written after it.
    pub(super) shutdown: Shutdown,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) rooms: Directory,
    pub(super) finder: Mutex<Finder>,
    pub(super) bulletin: Bulletin,
    /// The way to the coordinators of regions, once there is one.
    pub(super) coordinators: OnceLock<Arc<dyn Coordinators>>,
    /// Questions to coordinators that are on their way.
    pub(super) asking: Arc<Semaphore>,
    pub(super) shards: Vec<RwLock<Option<Arc<Shard>>>>,
    /// A shard was taken over, or its task has ended.
    pub(super) shards_changed: Notify,
    pub(super) loads: Semaphore,
    /// A room has ended, a commit or a grant is through.
    pub(super) progress: Notify,
    pub(super) stopping: AtomicBool,
    pub(super) stalls: AtomicU64,
    saved: AtomicU64,
    /// Shards that are being given away, and those given away since that was last said.
    pub(super) giving: AtomicU64,
    pub(super) given: AtomicU64,
    pub(super) gateways: Gateways,
    pub(super) arrivals: Arrivals,
    pub(super) prepared: Prepared,
    /// Somebody else says when shards are given away.
    pub(super) driven: AtomicBool,
    // The last term of each shard that ran here.
    ran: Vec<AtomicU64>,
}

/// What [`Host::new`] needs.
pub(super) struct Parts {
    pub(super) kinds: BTreeMap<String, Arc<RoomKind>>,
    pub(super) store: Store,
    pub(super) ownership: Ownership,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) config: HostConfig,
    pub(super) book: LiveBook,
    pub(super) tasks: Tasks,
    pub(super) executor: Arc<dyn Executor>,
}

impl Host {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { kinds, store, ownership, clock, rng, mut config, book, tasks, executor } = parts;
        config.world.max_grants_per_step = config.world.max_grants_per_step.clamp(1, REWARD_GRANTS);
        let bulletin = Bulletin::new(&config.regions);
        let shards = (0..config.shards).map(|_| RwLock::new(None)).collect();
        let ran = (0..config.shards).map(|_| AtomicU64::new(0)).collect();
        Self {
            kinds,
            store,
            ownership,
            clock,
            rng,
            config,
            book,
            tasks,
            shutdown: Shutdown::new(),
            executor,
            rooms: Directory::default(),
            finder: Mutex::default(),
            bulletin,
            coordinators: OnceLock::new(),
            asking: Arc::new(Semaphore::new(super::config::QUESTIONS)),
            shards,
            shards_changed: Notify::new(),
            loads: Semaphore::new(super::config::LOADS_AT_A_TIME),
            progress: Notify::new(),
            stopping: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            giving: AtomicU64::new(0),
            given: AtomicU64::new(0),
            gateways: Gateways::default(),
            arrivals: Arrivals::default(),
            prepared: Prepared::default(),
            driven: AtomicBool::new(false),
            ran,
        }
    }

    /// The store's clock, as far as known.
    pub(super) fn store_now(&self) -> Wall {
        self.store.now()
    }

    pub(super) async fn call(&self, command: Command) -> Result<Reply, Error> {
        self.store.execute(command).await.reply
    }

    /// Repeats a call until the store answers or the host ends.
    pub(super) async fn call_until_stopped(&self, command: Command) -> Result<Reply, Error> {
        let mut attempt = 0;
        loop {
            match self.call(command.clone()).await {
                Err(error) if error.may_retry() && !self.shutdown.is_stopped() => {
                    self.pause(attempt).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    /// Waits between two attempts, at most until the host ends.
    pub(super) async fn pause(&self, attempt: u32) {
        let pause = backoff(Duration::from_millis(20), attempt, LONGEST_BACKOFF);
        // Half fixed, half by chance: nodes that failed together do not come back together.
        let jitter = Duration::from_micros(self.rng.below(u64::try_from(pause.as_micros()).unwrap_or(0) / 2 + 1));
        tokio::select! {
            biased;
            () = self.clock.sleep(pause / 2 + jitter) => {}
            () = self.shutdown.stopped() => {}
        }
    }

    /// An answer of the wrong kind: a fault of the store's code.
    pub(super) fn unexpected(verb: &str) -> Error {
        Error::Broken(format!("an unexpected kind of answer to {verb}"))
    }

    /// A shard that is served here, also while its lease is in doubt.
    pub(super) fn held(&self, id: ShardId) -> Option<Arc<Shard>> {
        self.shards.get(id.0 as usize)?.read().clone().filter(|shard| !shard.is_lost())
    }

    /// Whether the lease holds, and the shard is ours under the term that its rooms run under (H1).
    pub(super) fn leads(&self, shard: &Shard, now: Mono) -> bool {
        !shard.is_lost()
            && !shard.is_doubted()
            && self.ownership.holds(now)
            && self.ownership.fence(shard.id()).is_some_and(|fence| fence.term() == shard.term())
    }

    /// Whether rooms of the shard may tick now.
    pub(super) fn may_run(&self, shard: &Shard, now: Mono) -> bool {
        shard.giving().is_none() && self.leads(shard, now)
    }

    /// The shard runs under this fence from now on.
    pub(super) fn ran(&self, fence: &Fence) {
        if let Some(ran) = fence.key().as_shard().and_then(|id| self.ran.get(id.0 as usize)) {
            ran.fetch_max(fence.term().0, Ordering::AcqRel);
        }
    }

    /// The last term of a shard that ran here; 0 if none did.
    pub(super) fn last_term(&self, id: ShardId) -> Term {
        Term(self.ran.get(id.0 as usize).map_or(0, |ran| ran.load(Ordering::Acquire)))
    }

    /// The answer to an attach for a shard that is not here. It is looked into at once whether it should be.
    pub(super) fn not_owner(&self, conn: ConnId, attempt: u32, shard: ShardId) -> ToGateway {
        self.ownership.wanted(shard);
        let known = self.ownership.owner(shard).map_or(Term(0), |owner| owner.term);
        ToGateway::NotOwner { conn, attempt, shard, term: known.max(self.last_term(shard)) }
    }

    /// The handle of a room; the room is started if it is not loaded.
    pub(super) fn open(self: &Arc<Self>, room: &RoomId, shard: &Arc<Shard>) -> Option<Arc<RoomHandle>> {
        let kind = self.kinds.get(room.kind())?;
        let (handle, new) = self.rooms.open(room);
        if new {
            let actor = Actor::new(self.clone(), handle.clone(), shard.clone(), kind.clone());
            handle.wake_by(self.executor.spawn(room.as_str().into(), Box::new(actor)));
            names::loaded(self.rooms.len());
        }
        Some(handle)
    }

    /// A room of a shard that begins goes on with a world that is ready.
    pub(super) fn go_on(self: &Arc<Self>, ready: PreparedRoom, shard: &Arc<Shard>) {
        let (handle, new) = self.rooms.open(ready.room());
        if new {
            let mut actor = Actor::new(self.clone(), handle.clone(), shard.clone(), ready.kind().clone());
            actor.prepared = Some(Box::new(ready));
            handle.wake_by(self.executor.spawn(handle.room.as_str().into(), Box::new(actor)));
            names::loaded(self.rooms.len());
        }
    }

    /// The loaded rooms of a shard, in no order.
    pub(super) fn rooms_of(&self, shard: ShardId) -> Vec<Arc<RoomHandle>> {
        self.rooms.filtered(|room| room.shard(self.config.shards) == shard)
    }

    /// What others may know of a room has changed.
    pub(super) fn note_summary(&self, handle: &RoomHandle, world: Option<&mut RoomWorld>) {
        if let Some(world) = world {
            let summary = world.summary();
            handle.seats.store(summary.seats, Ordering::Relaxed);
            self.know(summary, true, world.take_comings());
        }
    }

    /// What a room is now, and who came and went. `stored`: it exists; else it is being made.
    pub(super) fn know(&self, summary: RoomSummary, stored: bool, comings: Vec<(PlayerId, bool)>) {
        {
            let mut finder = self.finder.lock();
            if stored { finder.update(&summary) } else { finder.fill(&summary) }
        }
        let term = self.last_term(summary.room.shard(self.config.shards));
        self.bulletin.note(summary, stored, term, comings);
    }

    /// Nobody was let into a room that is not stored.
    pub(super) fn not_made(&self, room: &RoomId) {
        self.finder.lock().not_made(room);
        // Others may be on their way to make it.
        self.bulletin.forget(|known| known == room);
    }

    /// A room is gone, or may not be found any more.
    pub(super) fn unlist(&self, room: &RoomId) {
        self.finder.lock().remove(room);
        self.bulletin.gone(room, self.last_term(room.shard(self.config.shards)));
    }

    pub(super) fn note_saved(&self) {
        self.saved.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }

    pub(super) fn period(&self, kind: &RoomKind) -> Duration {
        Duration::from_secs(1) / kind.tick_rate().max(1)
    }

    pub(super) fn count_dropped(&self, dropped: u64, room: &RoomId) {
        if dropped > 0 {
            tracing::warn!(%room, dropped, "missed occurrences are not run");
            names::occurrences_dropped(dropped);
        }
    }
}
