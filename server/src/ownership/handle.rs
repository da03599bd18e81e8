//! [`Ownership`]: the handle that everyone reads. The driver behind it is in `driver.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tenure_shared::{IncarnationId, RoomId, ShardId, Term};
use tokio::sync::oneshot;

use super::{
    driver::Driver,
    lease::Lease,
    options::{Held, Options, Transfer},
    view::View,
};
use crate::{
    link::{Address, Directory, Owner},
    runtime::{Changes, Clock, Mono, Rng, Tasks, Watcher, mailbox},
    store::{Error, Fence, MemberInfo, Store},
};

/// Microseconds by which a term may lie above the store's clock as this node knows it.
const TERM_SLACK: u64 = 10_000_000;
/// Most requests of handles waiting.
const REQUESTS: usize = 1_024;

/// What is held now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) incarnation: Option<IncarnationId>,
    pub(super) held: BTreeMap<ShardId, Held>,
    pub(super) in_doubt: BTreeSet<ShardId>,
    pub(super) gives: Vec<(ShardId, Option<IncarnationId>)>,
}

/// What a handle asks of the driver.
pub(super) enum Request {
    Fenced(ShardId, Term),
    Gave(ShardId, Term, oneshot::Sender<()>),
    Transfer {
        shard: ShardId,
        term: Term,
        to: IncarnationId,
        package: u64,
        manifest: Vec<(RoomId, u64)>,
        done: oneshot::Sender<Transfer>,
    },
    Expect(ShardId, Mono),
    Transferred {
        shard: ShardId,
        incarnation: IncarnationId,
        term: Term,
        package: u64,
    },
    Kept(ShardId, Term),
    TermSeen(ShardId, Term),
    Wanted(ShardId),
    Sought(ShardId, oneshot::Sender<()>),
    Refresh,
    Drain,
    Informed(oneshot::Sender<()>),
    Leave(oneshot::Sender<()>),
}

pub(super) struct Shared {
    pub(super) shards: u32,
    pub(super) lease: Lease,
    pub(super) table: ArcSwap<Table>,
    pub(super) changes: Changes,
    pub(super) view: ArcSwap<View>,
    pub(super) views: Changes,
    pub(super) requests: mailbox::Sender<Request>,
    store: Store,
    /// The highest term that the driver knows of any shard.
    pub(super) floor: AtomicU64,
    /// Asked for, whether or not anybody sees it yet.
    drains: AtomicBool,
}

impl Shared {
    /// See [`Ownership::highest_term`].
    pub(super) fn highest_term(&self) -> Term {
        let known = self.floor.load(Ordering::Acquire).max(self.store.now().0);
        Term(known.saturating_add(TERM_SLACK))
    }
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
    /// Agrees with the cluster on its constants, registers, reads who is there, and takes the shards that placement gives to this node
    /// and nobody holds; resolves when that is done. A node without the role `room` takes none.
    ///
    /// The heartbeat runs (on a thread of its own, see [`super::LeaseThread`]) until [`Ownership::leave`] or until the last handle is gone;
    /// if it ends otherwise, or finds that the store has other constants (another cluster's, after it forgot this one's), the node is told to stop.
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
        let (requests, inbox) = mailbox::channel("ownership", REQUESTS);
        let changes = Changes::new();
        let mut changed = changes.watch();
        let shared = Arc::new(Shared {
            shards: options.shards,
            lease: Lease::default(),
            table: ArcSwap::default(),
            changes,
            view: ArcSwap::default(),
            views: Changes::new(),
            requests,
            store: store.clone(),
            floor: AtomicU64::new(0),
            drains: AtomicBool::new(false),
        });
        let driver = Driver::new(store, clock, rng, info, &options, &shared, tasks.shutdown().clone());
        // The first register here, so that a refusal is the answer to `start`.
        let first = driver.register().await?;
        driver.spawn(inbox, first, options.thread, tasks)?;

        let this = Self(shared);
        tokio::select! {
            biased;
            owning = changed.changed() => owning.map(drop).map_err(|_| Error::Unavailable("the thread of the lease ended".to_owned()))?,
            () = tasks.shutdown().stopped() => return Err(Error::Unavailable("the node was told to stop".to_owned())),
        }
        Ok(this)
    }

    /// This life of the node; `None` between the end of one and the registration of the next.
    pub fn incarnation(&self) -> Option<IncarnationId> {
        self.0.table.load().incarnation.clone()
    }

    /// Whether the lease is valid at `now` by the monotonic clock, the margin taken off. Lock-free; past it nothing may tick or send,
    /// whether or not anybody said so (C26).
    pub fn holds(&self, now: Mono) -> bool {
        self.0.lease.holds(now)
    }

    /// Until when the lease is valid, if it is at `now`. It counts from before the heartbeat, a write that the store took.
    pub fn held_until(&self, now: Mono) -> Option<Mono> {
        Some(self.0.lease.until()).filter(|until| now < *until)
    }

    /// The fence of a shard, if it is held.
    pub fn fence(&self, shard: ShardId) -> Option<Fence> {
        self.0.table.load().held.get(&shard).map(|held| held.fence.clone())
    }

    /// A shard that is held, and which worlds in memory may go on under it.
    ///
    /// A shard that is not held while it is [`Ownership::in_doubt`] is being asked for anew: its worlds are frozen and kept. When it is
    /// neither held nor in doubt it is another's, or nobody's: its worlds are to be dropped.
    pub fn held(&self, shard: ShardId) -> Option<Held> {
        self.0.table.load().held.get(&shard).cloned()
    }

    /// Whether it is open what becomes of a shard that was held: the lease lapsed, or somebody saw a higher term, and no answer of the
    /// store has said yet whether anybody else owned it since. Bounded while the store answers (H5).
    pub fn in_doubt(&self, shard: ShardId) -> bool {
        self.0.table.load().in_doubt.contains(&shard)
    }

    /// All shards that are held.
    pub fn shards(&self) -> Vec<ShardId> {
        self.0.table.load().held.keys().copied().collect()
    }

    /// How many shards are held, or were held and nobody knows yet whose they are: a node that ends before that is known leaves them to
    /// whoever finds them.
    pub fn undecided(&self) -> usize {
        let table = self.0.table.load();
        table.held.len() + table.in_doubt.iter().filter(|shard| !table.held.contains_key(shard)).count()
    }

    /// Counts the changes of what is held, in doubt and to be given: a lapse, a shard lost, shards taken anew. Read [`Ownership::held`] and
    /// [`Ownership::gives`] after each.
    pub fn changes(&self) -> Watcher {
        self.0.changes.watch()
    }

    /// A write under this fence was refused: the shard is given up and the claims are read anew. A fence that is no longer the newest
    /// changes nothing.
    pub fn fenced(&self, fence: &Fence) {
        let Some(shard) = fence.key().as_shard() else { return };
        // When the mailbox is full the reading that the earlier requests cause finds this one too.
        drop(self.0.requests.try_send(Request::Fenced(shard, fence.term())));
    }

    /// Shards that are held and belong elsewhere, each with the member that is to have it: stop their rooms, store their last checkpoints and
    /// call [`Ownership::gave`]. At most [`Options::concurrent`] at a time. A shard leaves the list when it was given, or when it belongs
    /// here again; the last node that serves gives nothing.
    pub fn gives(&self) -> Vec<(ShardId, Option<IncarnationId>)> {
        self.0.table.load().gives.clone()
    }

    /// Everything of this shard is stored and nothing of it runs any more: its claim goes to the member that is to have it, or is released.
    /// Resolves when the store has it, or when another end of the claim is known; what failed is repeated. A fence that is no longer the
    /// newest changes nothing. Cancel-safe.
    pub async fn gave(&self, fence: &Fence) {
        let Some(shard) = fence.key().as_shard() else { return };
        let (done, given) = oneshot::channel();
        if self.0.requests.send(Request::Gave(shard, fence.term(), done)).await.is_ok() {
            // An end without an answer is an end.
            drop(given.await);
        }
    }

    /// Everything of this shard is stored, and nothing of it runs any more: its claim goes to `to`, which has its worlds ready, with the
    /// checksum of the package that they were made of; the store checks that the manifest's checkpoints are there. Package 0 and no manifest:
    /// it knows nothing of it, and loads what is stored. Sent once: an answer that
    /// does not come is [`Transfer::Doubt`], and the claim is asked for anew at once. When this resolves the fence is no longer held.
    /// Bounded by the call deadline. Dropped, the transfer may happen all the same.
    pub async fn transfer(
        &self,
        fence: &Fence,
        to: &IncarnationId,
        package: u64,
        manifest: Vec<(RoomId, u64)>,
    ) -> Transfer {
        let Some(shard) = fence.key().as_shard() else { return Transfer::Doubt };
        let (done, given) = oneshot::channel();
        let (term, to) = (fence.term(), to.clone());
        let sent = self.0.requests.send(Request::Transfer { shard, term, to, package, manifest, done }).await;
        match sent {
            Ok(()) => given.await.unwrap_or(Transfer::Doubt),
            Err(_) => Transfer::Doubt,
        }
    }

    /// The worlds of a shard are ready here, and its owner is about to give it to this node: until then, or until `until`, a claim that names
    /// this node is not taken anew, and [`Ownership::sought`] waits.
    pub fn expect(&self, shard: ShardId, until: Mono) {
        // When the mailbox is full the claim is taken anew when it is seen: slower, and as safe.
        drop(self.0.requests.try_send(Request::Expect(shard, until)));
    }

    /// Who gave a shard to this life of the node says so: it is held under that term from now on, without asking the store, whose fences
    /// guard every write. Anything older than what is known, and what is for another life, changes nothing.
    pub fn transferred(&self, shard: ShardId, incarnation: &IncarnationId, term: Term, package: u64) {
        let incarnation = incarnation.clone();
        // When the mailbox is full the claim says it, at the latest when somebody looks for the shard.
        drop(self.0.requests.try_send(Request::Transferred { shard, incarnation, term, package }));
    }

    /// A shard that is to be given cannot be now: not ready, or not stored in time. Others are given before it. Cheap; calls for a shard
    /// that was just said to be kept do nothing.
    pub fn kept(&self, fence: &Fence) {
        let Some(shard) = fence.key().as_shard() else { return };
        // When the mailbox is full it is said again after the next attempt.
        drop(self.0.requests.try_send(Request::Kept(shard, fence.term())));
    }

    /// Somebody saw a higher term of this shard than its owner sends: it is acquired anew, from memory, before anything is sent; until
    /// then it is not held and [`Ownership::in_doubt`]. A term that is not above the held one changes nothing but the floor of later terms; one
    /// that is above the store's clock and all terms that this node knows counts as the highest of these.
    pub fn term_seen(&self, shard: ShardId, term: Term) {
        // When the mailbox is full it is counted, and whoever saw the term meets the lower one again and says so again.
        drop(self.0.requests.try_send(Request::TermSeen(shard, term)));
    }

    /// Somebody looks for this shard here, and it is not held: its claim is read at once, not at the next heartbeat. Cheap; calls for a
    /// shard that was just looked at do nothing.
    pub fn wanted(&self, shard: ShardId) {
        if self.fence(shard).is_none() {
            // When the mailbox is full the next heartbeat finds it.
            drop(self.0.requests.try_send(Request::Wanted(shard)));
        }
    }

    /// As [`Ownership::wanted`], and resolves when the claim was read and, if the shard is this node's to take, asked for: then
    /// [`Ownership::fence`] says whether it is held. Without an answer of the store it waits; give it a time limit. Cancel-safe.
    pub async fn sought(&self, shard: ShardId) {
        let (done, read) = oneshot::channel();
        if self.fence(shard).is_none() && self.0.requests.try_send(Request::Sought(shard, done)).is_ok() {
            // An end without an answer is an end.
            drop(read.await);
        }
    }

    /// No term above this can have been given by now: terms follow the store's clock, of which this node may know a little less, and never go
    /// back, so that a wild number must not count.
    pub fn highest_term(&self) -> Term {
        self.0.highest_term()
    }

    /// Into how many shards the rooms are divided.
    pub fn shards_in_all(&self) -> u32 {
        self.0.shards
    }

    /// Counts the changes of [`Ownership::view`] that matter to who routes or places.
    pub fn views(&self) -> Watcher {
        self.0.views.watch()
    }

    /// The cluster as this node knows it.
    pub fn view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// Tells the members that this node gives its keys away; [`Ownership::gives`] lists them as long as another member can have them.
    pub async fn drain(&self) {
        self.0.drains.store(true, Ordering::Release);
        drop(self.0.requests.send(Request::Drain).await);
    }

    /// Resolves when the members that [`Ownership::view`] has were read after [`Ownership::drain`], or could not be: a node that was started a
    /// moment before is among them. Give it a time limit. Cancel-safe.
    pub async fn informed(&self) {
        let (done, known) = oneshot::channel();
        if self.0.requests.send(Request::Informed(done)).await.is_ok() {
            // An end without an answer is an end.
            drop(known.await);
        }
    }

    /// Whether [`Ownership::drain`] was called: known here before any member, this one among them, can read it.
    pub fn drains(&self) -> bool {
        self.0.drains.load(Ordering::Acquire)
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

impl Directory for Ownership {
    fn shards(&self) -> u32 {
        self.0.shards
    }

    fn owner(&self, shard: ShardId) -> Option<Owner> {
        self.0.view.load().owner(shard)
    }

    fn nodes(&self) -> Vec<Address> {
        self.0.view.load().nodes().to_vec()
    }

    fn changes(&self) -> Watcher {
        self.0.views.watch()
    }

    fn refresh(&self) {
        // When the mailbox is full a refresh is among what waits, or the next heartbeat is one.
        drop(self.0.requests.try_send(Request::Refresh));
    }

    fn look_for(&self, shard: ShardId) {
        self.wanted(shard);
    }
}
