//! The driver: one OS thread that sends heartbeats and keeps the claims, and the handle that everyone reads.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arc_swap::ArcSwap;
use tenure_shared::{IncarnationId, ShardId, Term, ids::ID_HASH_VERSION};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};

use super::{
    call::Caller,
    event::{Effect, Event, Phase, Times},
    lease::Lease,
    state::State,
};
use crate::{
    runtime::{Clock, Mono, Rng, Shutdown, Tasks, mailbox},
    store::{Error, Fence, Key, MemberInfo, Store, model::AGREED_SHARDS},
};

/// Version of the links between nodes, agreed on by a cluster.
pub const LINK_PROTOCOL: u32 = 1;
/// Most calls under way at once.
const IN_FLIGHT: usize = 64;
/// Most requests of handles waiting.
const REQUESTS: usize = 1_024;

/// How a node owns.
#[derive(Clone, Debug)]
pub struct Options {
    /// Into how many shards the rooms are divided; the whole cluster must agree.
    pub shards: u32,
    /// Times of the lease.
    pub times: Times,
}

/// A shard that this node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What its writes carry.
    pub fence: Fence,
    /// Worlds in memory that were made under this term or a later one may go on under the fence's: nobody else owned the shard since.
    /// Other worlds must be dropped and restored from their checkpoints.
    pub continues: Option<Term>,
}

#[derive(Debug, Default)]
struct Table {
    incarnation: Option<IncarnationId>,
    held: BTreeMap<ShardId, Held>,
}

enum Request {
    Fenced(ShardId, Term),
    Drain,
    Leave(oneshot::Sender<()>),
}

struct Shared {
    lease: Lease,
    table: ArcSwap<Table>,
    changes: watch::Sender<u64>,
    requests: mailbox::Sender<Request>,
}

/// A handle to this node's ownership; cheap to clone.
#[derive(Clone)]
pub struct Ownership(Arc<Shared>);

impl std::fmt::Debug for Ownership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ownership").field(&self.incarnation()).finish()
    }
}

impl Ownership {
    /// Agrees with the cluster on its constants, registers, and takes all free shards; resolves when that is done.
    ///
    /// The heartbeat runs on a thread of its own until [`Ownership::leave`] or until the last handle is gone; if it ends otherwise, the
    /// node is told to stop.
    ///
    /// # Errors
    /// [`Error::Disagreement`] when the cluster has other constants; what registering met; `Unavailable` when the node was told to stop.
    pub async fn start(
        store: Store,
        clock: Clock,
        rng: Rng,
        options: Options,
        info: MemberInfo,
        tasks: &Tasks,
    ) -> Result<Self, Error> {
        store.agree(AGREED_SHARDS, &options.shards.to_string()).await?;
        store.agree("id-hash version", &ID_HASH_VERSION.to_string()).await?;
        store.agree("link protocol", &LINK_PROTOCOL.to_string()).await?;

        let (requests, inbox) = mailbox::channel("ownership", REQUESTS);
        let (changes, mut changed) = watch::channel(0);
        let shared = Arc::new(Shared { lease: Lease::default(), table: ArcSwap::default(), changes, requests });
        let state = State::new(options.times, options.shards);
        let driver = Driver {
            store,
            clock,
            rng,
            info,
            times: options.times,
            shards: options.shards,
            state,
            shared: Arc::downgrade(&shared),
        };

        // The first register here, so that a refusal is the answer to `start`.
        let (incarnation, sent) = (driver.incarnation()?, driver.clock.now());
        driver.store.register(&incarnation, driver.info.clone(), options.times.ttl).await?;
        let first = Event::Registered { incarnation, sent };

        let shutdown = tasks.shutdown().clone();
        let stop = shutdown.clone();
        let work = move || run(driver, inbox, first, &stop);
        let thread = std::thread::Builder::new().name("tenure-lease".to_owned()).spawn(work);
        thread.map_err(|error| Error::Unavailable(format!("no thread for the lease: {error}")))?;

        let this = Self(shared);
        let owning = changed.wait_for(|changes| *changes > 0);
        tokio::select! {
            owning = owning => owning.map(drop).map_err(|_| Error::Unavailable("the thread of the lease ended".to_owned()))?,
            () = shutdown.stopped() => return Err(Error::Unavailable("the node was told to stop".to_owned())),
        }
        Ok(this)
    }

    /// This life of the node; `None` between the end of one and the registration of the next.
    pub fn incarnation(&self) -> Option<IncarnationId> {
        self.0.table.load().incarnation.clone()
    }

    /// Whether the lease is valid at `now` by the monotonic clock, the margin taken off. Lock-free; past it nothing may tick or send,
    /// whether or not anybody said so (LESSONS C26).
    pub fn holds(&self, now: Mono) -> bool {
        self.0.lease.holds(now)
    }

    /// The fence of a shard, if it is held.
    pub fn fence(&self, shard: ShardId) -> Option<Fence> {
        self.0.table.load().held.get(&shard).map(|held| held.fence.clone())
    }

    /// A shard that is held, and which worlds in memory may go on under it.
    ///
    /// While [`Ownership::holds`] says no, nothing is held and it is open what becomes of the worlds: they are frozen and kept. When it says
    /// yes and a shard is not held, the shard is another's: its worlds are to be dropped.
    pub fn held(&self, shard: ShardId) -> Option<Held> {
        self.0.table.load().held.get(&shard).cloned()
    }

    /// All shards that are held.
    pub fn shards(&self) -> Vec<ShardId> {
        self.0.table.load().held.keys().copied().collect()
    }

    /// Counts the changes of what is held: a lapse, a shard lost, shards taken anew. Read [`Ownership::held`] after each.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A write under this fence was refused: the shard is given up and the claims are read anew. A fence that is no longer the newest
    /// changes nothing.
    pub fn fenced(&self, fence: &Fence) {
        let Some(shard) = fence.key().as_shard() else { return };
        // When the mailbox is full the reading that the earlier requests cause finds this one too.
        drop(self.0.requests.try_send(Request::Fenced(shard, fence.term())));
    }

    /// Tells the members that this node gives its keys away.
    pub async fn drain(&self) {
        drop(self.0.requests.send(Request::Drain).await);
    }

    /// Stops acting, gives all shards up and deregisters. Everything that must be saved is to be saved before. Cancel-safe: once asked
    /// for, it is done also when nobody waits. Bounded by the call deadline per round of calls.
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        if self.0.requests.send(Request::Leave(done)).await.is_ok() {
            // An end without an answer is an end.
            drop(left.await);
        }
    }
}

struct Driver {
    store: Store,
    clock: Clock,
    rng: Rng,
    info: MemberInfo,
    times: Times,
    shards: u32,
    state: State,
    /// The handles keep it alive; the thread ends with the last of them.
    shared: std::sync::Weak<Shared>,
}

fn run(mut driver: Driver, inbox: mailbox::Receiver<Request>, first: Event, stop: &Shutdown) {
    let shared = driver.shared.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = match runtime {
        Ok(runtime) => catch_unwind(AssertUnwindSafe(|| runtime.block_on(driver.work(inbox, first)))).is_ok(),
        Err(error) => {
            tracing::error!(%error, "no runtime for the lease");
            false
        }
    };
    if let Some(shared) = shared.upgrade() {
        shared.lease.set(Mono(0));
    }
    if !ended {
        tracing::error!("the thread of the lease ended: the node stops");
        stop.stop();
    }
}

impl Driver {
    fn incarnation(&self) -> Result<IncarnationId, Error> {
        let text = format!("{}#{}", self.info.node, self.rng.uuid());
        IncarnationId::new(&text).map_err(|error| Error::Invalid(error.to_string()))
    }

    async fn work(&mut self, mut inbox: mailbox::Receiver<Request>, first: Event) {
        let mut calls: JoinSet<Event> = JoinSet::new();
        let mut waiting: VecDeque<Effect> = self.step(first).into();
        loop {
            while calls.len() < IN_FLIGHT
                && let Some(effect) = waiting.pop_front()
            {
                calls.spawn(self.call(effect));
            }
            let event = tokio::select! {
                biased;
                () = self.clock.sleep_until(self.state.wake()) => Event::Tick,
                Some(event) = calls.join_next() => match event {
                    Ok(event) => event,
                    Err(error) => std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("a call was cancelled"))),
                },
                request = inbox.recv() => match request {
                    Some(Request::Fenced(shard, term)) => Event::Fenced { shard, term },
                    Some(Request::Drain) => Event::Drain,
                    Some(Request::Leave(done)) => {
                        self.leave(calls).await;
                        // Nobody may be waiting any more.
                        done.send(()).unwrap_or_default();
                        return;
                    }
                    None => return,
                },
            };
            let mut effects = self.step(event);
            // A heartbeat stands before everything that waits.
            if let Some(at) = effects.iter().position(|effect| matches!(effect, Effect::Beat { .. } | Effect::Register))
            {
                calls.spawn(self.call(effects.remove(at)));
            }
            waiting.extend(effects);
        }
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let before = self.state.phase;
        let effects = self.state.step(self.clock.now(), event);
        if before != self.state.phase {
            tracing::info!(from = ?before, to = ?self.state.phase, incarnation = ?self.state.incarnation, "ownership");
            if self.state.phase == Phase::Lapsed {
                metrics::counter!("tenure_lease_lapses_total").increment(1);
            }
        }
        self.publish();
        effects
    }

    /// Shows readers what the state says; an end before anything else, a beginning after everything else.
    fn publish(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let until = self.state.acts_until();
        if until == Mono(0) {
            shared.lease.set(until);
        }
        let incarnation = self.state.incarnation.clone();
        let held = self.state.holdings().into_iter().filter_map(|(shard, holding)| {
            let fence = Fence::new(Key::shard(shard), incarnation.clone()?, holding.term);
            Some((shard, Held { fence, continues: holding.continues }))
        });
        let held: BTreeMap<_, _> = held.collect();
        let table = shared.table.load();
        let changed = table.held != held || table.incarnation != incarnation;
        if changed {
            shared.table.store(Arc::new(Table { incarnation, held }));
        }
        shared.lease.set(until);
        if changed && (self.state.phase == Phase::Owning || *shared.changes.borrow() > 0) {
            shared.changes.send_modify(|count| *count += 1);
        }
    }

    /// Gives everything up: what is under way is waited for first, so that nothing is granted behind the back of the release.
    async fn leave(&mut self, mut calls: JoinSet<Event>) {
        let mut effects = self.step(Event::Leave);
        while let Some(answer) = calls.join_next().await {
            drop(answer);
        }
        let last = effects.pop();
        for effect in effects {
            calls.spawn(self.call(effect));
        }
        while let Some(answer) = calls.join_next().await {
            drop(answer);
        }
        if let Some(deregister) = last {
            self.call(deregister).await;
        }
    }

    /// Carries out one effect; its outcome is the next event.
    fn call(&self, effect: Effect) -> impl Future<Output = Event> + Send + 'static {
        let caller =
            Caller { store: self.store.clone(), clock: self.clock.clone(), times: self.times, shards: self.shards };
        let register = match effect {
            Effect::Register => self.incarnation().ok().map(|incarnation| (incarnation, self.info.clone())),
            _ => None,
        };
        async move { caller.call(effect, register).await }
    }
}
