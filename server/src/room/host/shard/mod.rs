//! A shard's durable side: its commits, its due work, its outbox. Rooms talk to a [`Shard`]; one task per shard, the writer, does the
//! store calls, one after another, so that nothing overtakes.

pub(super) mod near;
mod outbox;
pub(super) mod pending;
mod refence;
pub(super) mod refused;
mod takeover;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tenure_shared::{RoomId, ShardId, Term, Tick};
use tokio::sync::Notify;

use self::{
    outbox::Outbox,
    pending::{Pending, Request},
};
use super::{core::Host, prepared::PreparedRoom};
use crate::{
    link::{Address, Attach},
    runtime::{Mono, tasks::Kind},
    store::{Fence, WorkId, model::limits},
};

/// A shard that this node owns, from the rooms' side.
pub(super) struct Shard {
    id: ShardId,
    term: AtomicU64,
    lost: AtomicBool,
    // The store refused a write, or may have: until a new term is had its rooms stand still.
    doubted: AtomicBool,
    ready: AtomicBool,
    pending: Mutex<Pending>,
    // At most one per room and fault, or per lost answer: bounded by rooms.
    given_back: Mutex<Vec<(RoomId, Vec<WorkId>)>>,
    notify: Notify,
    outbox: Outbox,
    overdue: AtomicU64,
    // Held while a room says something: once it is set nothing more is said under the term that was lost (H7).
    silent: RwLock<bool>,
    // Number of the giving that is under way, 0 for none; and how many there were.
    giving: AtomicU64,
    givings: AtomicU64,
    // Somebody is at it.
    in_hand: AtomicBool,
    // Until when it is not to be given again, nanoseconds.
    rests: AtomicU64,
    // The term that was perhaps given to another, 0 for none: only a newer one may go on.
    in_question: AtomicU64,
    // Everything is stored and ownership was told so: whatever comes, these worlds do not go on.
    given: AtomicBool,
    // The store has it as another's.
    gone: AtomicBool,
    next_owner: Mutex<Option<Address>>,
    // Attaches that wait until it is decided whether the shard stays. Bounded by `config::KEPT_ATTACHES`.
    kept: Mutex<VecDeque<Attach>>,
    // The highest tick that a room which is no more reached here.
    reached: AtomicU64,
    // Somebody wants to see a write; and when the last one that went through began, plus 1.
    prove: AtomicBool,
    look: AtomicBool,
    proven: AtomicU64,
}

impl Shard {
    /// Begins to serve a shard under a fence. Worlds that are ready go on at once, before anything is read.
    pub(super) fn start(host: &Arc<Host>, id: ShardId, fence: Fence, ready: Vec<PreparedRoom>) -> Arc<Self> {
        let shard = Arc::new(Self {
            id,
            term: AtomicU64::new(fence.term().0),
            lost: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            pending: Mutex::default(),
            given_back: Mutex::default(),
            notify: Notify::new(),
            outbox: Outbox::default(),
            overdue: AtomicU64::new(0),
            silent: RwLock::new(false),
            giving: AtomicU64::new(0),
            givings: AtomicU64::new(0),
            in_hand: AtomicBool::new(false),
            in_question: AtomicU64::new(0),
            rests: AtomicU64::new(0),
            given: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            next_owner: Mutex::new(None),
            kept: Mutex::default(),
            reached: AtomicU64::new(0),
            prove: AtomicBool::new(false),
            look: AtomicBool::new(false),
            proven: AtomicU64::new(0),
        });
        for room in ready {
            host.go_on(room, &shard);
        }
        let writer = writer::Writer::new(host.clone(), shard.clone(), fence);
        host.tasks.spawn("shard", Kind::Job, writer.run());
        shard
    }

    pub(super) fn id(&self) -> ShardId {
        self.id
    }

    /// The term that rooms run under.
    pub(super) fn term(&self) -> Term {
        Term(self.term.load(Ordering::Acquire))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Acquire) || self.is_in_question(self.term())
    }

    /// Whether its rooms and work are known: the takeover is done.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// What a room wants to be durable; answered by `Committed`, `Refused` or `Lost`. `false`: not taken, since the answer to an earlier
    /// request, a refusal, is on its way to the room.
    pub(super) fn commit(&self, room: &RoomId, request: Request) -> bool {
        self.push(room, Request { merged: 1, ..request })
    }

    fn push(&self, room: &RoomId, request: Request) -> bool {
        // Of a lost shard the room hears by itself.
        let taken = self.is_lost() || self.pending.lock().push(room.clone(), request);
        self.notify.notify_one();
        taken
    }

    /// The room has heard that a request was refused, or begins: what it asks for from now on comes from a world that the store has.
    pub(super) fn resume(&self, room: &RoomId) {
        self.pending.lock().resume(room);
    }

    /// A position that nobody waits for.
    pub(super) fn trim(&self, room: &RoomId, position: u64) {
        if !self.is_lost() {
            self.pending.lock().trim(room.clone(), position);
            self.notify.notify_one();
        }
    }

    /// A room no longer has the items it was given, but for those in `kept`.
    pub(super) fn give_back(&self, room: &RoomId, kept: &[WorkId]) {
        self.given_back.lock().push((room.clone(), kept.to_vec()));
        self.notify.notify_one();
    }

    /// Ledger answers were not delivered: the outbox is read from its start.
    pub(super) fn read_outbox_again(&self) {
        self.outbox.restart();
        self.notify.notify_one();
    }

    /// Grants that are not in a ledger yet, or whose answer its room has not stored.
    pub(super) fn outbox_depth(&self) -> usize {
        self.outbox.depth()
    }

    /// Whether the grants in the outbox, those of rooms that are parked left aside, take more than half of the place that is left.
    fn is_crowded(&self, parked: impl Fn(&RoomId) -> bool) -> bool {
        let (open, most) = (self.outbox.depth(), usize::try_from(limits::OUTBOX).unwrap_or(usize::MAX));
        // A parked room takes no answers until the node restarts: its share must not stop the others' work.
        open > most / 2 && {
            let held = self.outbox.depth_of(parked);
            open - held.min(open) > most.saturating_sub(held) / 2
        }
    }

    /// There may be work that it does not know of: everything that is due is read again.
    pub(super) fn look_for_work(&self) {
        self.look.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Asks for a write, if only an empty one: it shows in [`Shard::proven`].
    pub(super) fn ask_proof(&self) {
        self.prove.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// When the last write that the store took began.
    pub(super) fn proven(&self) -> Option<Mono> {
        self.proven.load(Ordering::Acquire).checked_sub(1).map(Mono)
    }

    /// Whether every commit and every grant is through.
    pub(super) fn is_flushed(&self) -> bool {
        self.pending.lock().is_empty() && self.outbox.is_idle()
    }

    /// Whether everything that its rooms asked for is with the writer or in the store.
    pub(super) fn is_handed_over(&self) -> bool {
        self.pending.lock().is_empty()
    }

    /// Leave to send something to gateways; `None` once the shard is lost. To be held only around the sending.
    pub(super) fn voice(&self) -> Option<RwLockReadGuard<'_, bool>> {
        Some(self.silent.read()).filter(|silent| !**silent)
    }

    /// Its rooms say nothing any more. Waits for what is being said.
    fn silence(&self) {
        *self.silent.write() = true;
    }

    /// The number of the giving that is under way.
    pub(super) fn giving(&self) -> Option<u64> {
        Some(self.giving.load(Ordering::Acquire)).filter(|giving| *giving > 0)
    }

    /// Whether the caller is the one to give it away now.
    pub(super) fn may_begin_giving(&self) -> bool {
        !self.in_hand.swap(true, Ordering::AcqRel)
    }

    /// It could not be given: it is not tried again before `until`.
    pub(super) fn rest(&self, until: Mono) {
        self.rests.store(until.0, Ordering::Release);
    }

    pub(super) fn rests(&self, now: Mono) -> bool {
        now.0 < self.rests.load(Ordering::Acquire)
    }

    /// Its rooms are to stop at a tick boundary and to store themselves; a number for this giving.
    pub(super) fn begin_giving(&self) -> u64 {
        let number = self.givings.fetch_add(1, Ordering::AcqRel) + 1;
        self.giving.store(number, Ordering::Release);
        number
    }

    /// It stays after all, as far as this giving goes: its rooms go on, if its fence lets them.
    pub(super) fn stays(&self) {
        self.giving.store(0, Ordering::Release);
        self.in_hand.store(false, Ordering::Release);
        self.notify.notify_one();
    }

    /// Its claim may have been given away under this term: nothing goes on before ownership knows a newer one, or the loss (F1).
    pub(super) fn question(&self, term: Term) {
        self.in_question.fetch_max(term.0, Ordering::AcqRel);
        self.notify.notify_one();
    }

    fn is_in_question(&self, term: Term) -> bool {
        self.in_question.load(Ordering::Acquire) == term.0
    }

    /// Everything is stored: it goes to `next`.
    pub(super) fn give(&self, next: Option<Address>) {
        *self.next_owner.lock() = next;
        self.given.store(true, Ordering::Release);
    }

    /// What was given is the other's: gateways may be told.
    pub(super) fn let_go(&self) {
        self.gone.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Attaches that wait for what becomes of the shard, in order.
    pub(super) fn kept(&self) -> MutexGuard<'_, VecDeque<Attach>> {
        self.kept.lock()
    }

    /// A room that is deleted got as far as `tick`: a room made anew under its name begins above it (H7).
    pub(super) fn note_reached(&self, tick: Tick) {
        self.reached.fetch_max(tick.0, Ordering::AcqRel);
    }

    pub(super) fn reached(&self) -> Tick {
        Tick(self.reached.load(Ordering::Acquire))
    }

    /// Due items that no room has taken yet.
    pub(super) fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }
}
