//! A shard that stands still, in the hands of whoever decides what becomes of it: it goes on here, is another's, or is in doubt.

use std::sync::{Arc, atomic::Ordering};

use tenure_shared::Term;

use super::{attaching, config::PACKAGE_BYTES, core::Host, inbox::RoomHandle, prepared::Space, shard::Shard};
use crate::{
    link::{Address, PACKAGE_ROOMS, Package, PackedRoom},
    store::Fence,
};

/// A shard whose rooms stop at a tick boundary and store themselves; from [`super::Hands::freeze`]. Dropped without a word its rooms go on.
pub struct Frozen {
    host: Arc<Host>,
    shard: Arc<Shard>,
    fence: Fence,
    number: u64,
    end: End,
}

/// What becomes of the shard when this is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stays,
    InDoubt,
    Moved,
}

impl Frozen {
    /// Stops the rooms; `None` if somebody is at it already.
    pub(super) fn begin(host: &Arc<Host>, shard: &Arc<Shard>, fence: &Fence) -> Option<Self> {
        if !shard.is_ready() || shard.is_lost() || fence.term() != shard.term() || !shard.may_begin_giving() {
            return None;
        }
        let number = shard.begin_giving();
        let this = Self { host: host.clone(), shard: shard.clone(), fence: fence.clone(), number, end: End::Stays };
        this.wake();
        Some(this)
    }

    /// The term that the rooms ran under.
    pub fn term(&self) -> Term {
        self.fence.term()
    }

    /// Resolves when every room stands still and everything is stored. What runs is in the package, at most [`PACKAGE_ROOMS`] rooms of it with
    /// `PACKAGE_BYTES` of checkpoints; what is still being read, parked or cut off is loaded by the next owner as after a takeover. `None`: the shard was lost, is in
    /// doubt, or the node stops. It has no deadline of its own. Cancel-safe.
    pub async fn stored(&mut self) -> Option<Package> {
        let (host, shard) = (self.host.clone(), self.shard.clone());
        let mut changes = host.ownership.changes();
        let mut waiting = host.rooms_of(shard.id());
        loop {
            let progress = host.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            changes.seen();
            let ours = host.ownership.fence(shard.id()).as_ref() == Some(&self.fence);
            if !ours || shard.is_lost() || shard.is_doubted() || host.shutdown.is_stopped() {
                return None;
            }
            waiting.retain(|handle| !self.is_still(handle));
            if waiting.is_empty() && shard.is_handed_over() {
                // Also those that came, or moved on, meanwhile.
                let rooms = host.rooms_of(shard.id());
                if rooms.iter().all(|handle| self.is_still(handle)) {
                    return Some(self.pack(&rooms));
                }
                waiting = rooms;
                continue;
            }
            tokio::select! {
                biased;
                () = progress => {}
                changed = changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = host.shutdown.stopped() => return None,
            }
        }
    }

    /// The store is about to be asked to give the claim away: from here on only a new term decides, also if this is dropped (F1).
    pub fn asking(&mut self) {
        self.end = End::InDoubt;
    }

    /// The rooms go on under the same term. Whoever had asked for the giving says so to [`crate::ownership::Ownership::kept`].
    pub fn thaw(mut self) {
        self.end = End::Stays;
    }

    /// It is open whether the claim is another's: the rooms stand still until there is a new term, or the loss is known.
    pub fn doubted(mut self) {
        self.end = End::InDoubt;
    }

    /// The claim is another's: the worlds are dropped, and gateways are told where the shard is.
    pub fn moved(mut self, to: Option<Address>) {
        self.end = End::Moved;
        self.shard.give(to);
    }

    /// A room that ends counts: what it stored is what the next owner finds.
    fn is_still(&self, handle: &Arc<RoomHandle>) -> bool {
        let gone = || self.host.rooms.get(&handle.room).is_none_or(|known| !Arc::ptr_eq(&known, handle));
        handle.still.load(Ordering::Acquire) == self.number || gone()
    }

    fn pack(&self, rooms: &[Arc<RoomHandle>]) -> Package {
        let now = self.host.clock.now();
        let packed = rooms.iter().filter_map(|handle| {
            let packed = (*handle.packed.lock())?;
            let waited = u32::try_from(now.since(packed.ticked).as_micros()).unwrap_or(u32::MAX);
            let (room, saved) = (handle.room.clone(), packed.saved);
            Some((saved.bytes, PackedRoom { room, version: saved.version, hash: saved.hash, waited }))
        });
        let mut rooms: Vec<_> = packed.collect();
        rooms.sort_by(|a, b| a.1.room.cmp(&b.1.room));
        rooms.truncate(fit(rooms.iter().map(|(bytes, _)| *bytes)).rooms);
        Package { rooms: rooms.into_iter().map(|(_, packed)| packed).collect() }
    }

    fn wake(&self) {
        for handle in self.host.rooms_of(self.shard.id()) {
            handle.wake();
        }
    }
}

/// What a package of rooms with checkpoints of these lengths takes where it is made ready, as far as it goes.
pub(super) fn fit(rooms: impl Iterator<Item = usize>) -> Space {
    let mut space = Space { shards: 1, ..Space::default() };
    for bytes in rooms.take(PACKAGE_ROOMS) {
        if space.rooms > 0 && space.bytes.saturating_add(bytes) > PACKAGE_BYTES {
            break;
        }
        space.bytes = space.bytes.saturating_add(bytes);
        space.rooms += 1;
    }
    space
}

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frozen({}, {})", self.shard.id(), self.fence.term())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.end == End::Moved {
            self.shard.let_go();
            if self.host.ownership.fence(self.shard.id()).as_ref() == Some(&self.fence) {
                // Not given after all: under this term nothing goes on any more.
                self.host.ownership.fenced(&self.fence);
            }
            return;
        }
        if self.end == End::InDoubt {
            self.shard.question(self.fence.term());
            self.host.ownership.fenced(&self.fence);
        }
        self.shard.stays();
        self.wake();
        attaching::offer_kept(&self.host, &self.shard);
    }
}
