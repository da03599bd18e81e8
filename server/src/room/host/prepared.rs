//! Worlds made before their shard is this node's: read from the store as a package says, restored on room threads, kept until the shard
//! comes, or does not.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use tenure_shared::{RoomId, ShardId};
use tokio::sync::oneshot;

use super::{
    actor::text,
    config::{PREPARED_BYTES, PREPARED_SHARDS},
    core::Host,
    executor::{Activity, Next},
    inbox::Saved,
    loading,
};
use crate::{
    link::{PACKAGE_ROOMS, Package, PackedRoom, RefuseReason},
    plugin::RoomKind,
    room::world::{RoomWorld, WorldSettings},
    runtime::{Mono, tasks::Kind},
    store::{Checkpoint, WorkItem},
};

/// A world of the former owner's last moment, and what belongs to it.
pub(super) struct PreparedRoom {
    room: RoomId,
    kind: Arc<RoomKind>,
    // Given up only by `into_parts`.
    world: Option<RoomWorld>,
    stored: StoredRoom,
}

/// What the store has of it.
pub(super) struct StoredRoom {
    pub(super) saved: Saved,
    pub(super) dormant: bool,
    pub(super) items: Vec<WorkItem>,
    /// When the former owner's last tick was due, by this node's clock.
    pub(super) ticked: Mono,
}

impl PreparedRoom {
    pub(super) fn room(&self) -> &RoomId {
        &self.room
    }

    pub(super) fn kind(&self) -> &Arc<RoomKind> {
        &self.kind
    }

    pub(super) fn into_parts(mut self) -> Option<(RoomWorld, StoredRoom)> {
        let nothing = StoredRoom {
            saved: self.stored.saved,
            dormant: self.stored.dormant,
            items: Vec::new(),
            ticked: self.stored.ticked,
        };
        Some((self.world.take()?, std::mem::replace(&mut self.stored, nothing)))
    }
}

impl Drop for PreparedRoom {
    fn drop(&mut self) {
        let Some(world) = self.world.take() else { return };
        if catch_unwind(AssertUnwindSafe(|| drop(world))).is_err() {
            tracing::warn!(room = %self.room, "a destructor of game code panicked");
        }
    }
}

/// What worlds that are made ready take of a node's bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Shards.
    pub shards: usize,
    /// Rooms.
    pub rooms: usize,
    /// Bytes of their checkpoints.
    pub bytes: usize,
}

impl std::ops::Add for Space {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            shards: self.shards.saturating_add(other.shards),
            rooms: self.rooms.saturating_add(other.rooms),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Sets of worlds by shard; and those that are being made.
#[derive(Default)]
pub(super) struct Prepared(Arc<Mutex<Sets>>);

#[derive(Default)]
struct Sets {
    kept: BTreeMap<ShardId, Set>,
    // Counts calls: of two for one shard the later one counts.
    calls: u64,
    space: Space,
}

/// Worlds of one package. Not to be dropped while a lock is held, nor on a thread that is not meant for game code: worlds may be large, and
/// have destructors. See [`scrap`].
#[must_use]
pub(super) struct Set {
    call: u64,
    checksum: u64,
    rooms: Vec<PreparedRoom>,
    _place: Arc<Mutex<Place>>,
}

/// What a set takes of the bounds; given back when it is dropped.
struct Place {
    sets: Arc<Mutex<Sets>>,
    space: Space,
}

impl Place {
    fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let mut sets = self.sets.lock();
        if sets.space.bytes.saturating_add(bytes) > PREPARED_BYTES {
            return Err(full(MEMORY));
        }
        sets.space.bytes += bytes;
        self.space.bytes += bytes;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sets = self.sets.lock();
        sets.space.shards -= self.space.shards;
        sets.space.rooms -= self.space.rooms;
        sets.space.bytes -= self.space.bytes;
    }
}

/// Why there is no place.
const MEMORY: &str = "the worlds of other shards take all the memory meant for it";
const MANY: &str = "this node has as many rooms or moves as it may";

fn full(why: &str) -> Refusal {
    (RefuseReason::Full, why.to_owned())
}

type Refusal = (RefuseReason, String);

impl Prepared {
    fn begin(&self, rooms: usize, loaded: usize, most: usize) -> Result<(u64, Place), Refusal> {
        let mut sets = self.0.lock();
        let space = Space { shards: 1, rooms, bytes: 0 };
        fits(sets.space + space, loaded, most)?;
        sets.space = sets.space + space;
        sets.calls += 1;
        Ok((sets.calls, Place { sets: self.0.clone(), space }))
    }

    /// Keeps a set, unless a later one is there; gives what is not needed, and whether a later one is there.
    fn keep(&self, shard: ShardId, set: Set) -> (Option<Set>, bool) {
        let mut sets = self.0.lock();
        match sets.kept.get(&shard) {
            Some(later) if later.call > set.call => (Some(set), true),
            _ => (sets.kept.insert(shard, set), false),
        }
    }

    /// The shard begins: its worlds, if they are of the package that it came with, and otherwise what is not needed.
    pub(super) fn take(&self, shard: ShardId, package: Option<u64>) -> (Vec<PreparedRoom>, Option<Set>) {
        let set = self.0.lock().kept.remove(&shard);
        match set {
            Some(set) if package == Some(set.checksum) => (set.rooms, None),
            Some(set) => {
                tracing::debug!(%shard, "the worlds that were made ready are not those of the shard: it is read");
                (Vec::new(), Some(set))
            }
            None => (Vec::new(), None),
        }
    }

    /// The worlds of a package, which are not needed any more.
    pub(super) fn discard(&self, shard: ShardId, checksum: u64) -> Option<Set> {
        let mut sets = self.0.lock();
        let is_meant = sets.kept.get(&shard).is_some_and(|set| set.checksum == checksum);
        is_meant.then(|| sets.kept.remove(&shard)).flatten()
    }
}

/// Whether so much may be ready beside the rooms that are loaded.
fn fits(space: Space, loaded: usize, most: usize) -> Result<(), Refusal> {
    if space.shards > PREPARED_SHARDS || loaded.saturating_add(space.rooms) > most {
        return Err(full(MANY));
    }
    if space.bytes > PREPARED_BYTES { Err(full(MEMORY)) } else { Ok(()) }
}

/// Worlds that nobody needs are dropped on the room threads, one after the other.
pub(super) fn scrap(host: &Arc<Host>, unwanted: Option<Set>) {
    let Some(set) = unwanted else { return };
    let Some(label) = set.rooms.first().map(|room| room.room().as_str().into()) else { return };
    drop(host.executor.spawn(label, Box::new(Scrapping(set))));
}

/// Drops the worlds of a set.
struct Scrapping(Set);

impl Activity for Scrapping {
    fn run(&mut self, now: Mono) -> Next {
        drop(self.0.rooms.pop());
        if self.0.rooms.is_empty() { Next::Done } else { Next::At(now) }
    }
}

/// Whether a package of a shard that takes so much would be made ready now.
pub(super) fn takes(host: &Host, shard: ShardId, space: Space) -> Result<(), Refusal> {
    free(host, shard)?;
    let taken = host.prepared.0.lock().space;
    fits(taken + space, host.rooms.len(), host.config.max_rooms)
}

/// Where the shard would begin, if nothing of it is here.
fn free(host: &Host, shard: ShardId) -> Result<&parking_lot::RwLock<Option<Arc<super::shard::Shard>>>, Refusal> {
    if host.stopping.load(Ordering::Acquire) || host.shutdown.is_stopped() {
        return Err(stopping());
    }
    let slot = host.shards.get(shard.0 as usize).filter(|slot| slot.read().is_none());
    slot.ok_or_else(|| (RefuseReason::NotServing, format!("shard {shard} is served here, or there is none")))
}

pub(super) async fn prepare(host: &Arc<Host>, shard: ShardId, package: &Package) -> Result<u64, Refusal> {
    let received = host.clock.now();
    let slot = free(host, shard)?;
    let rooms = &package.rooms;
    let sound = rooms.iter().all(|packed| packed.room.shard(host.config.shards) == shard)
        && rooms.is_sorted_by(|a, b| a.room < b.room)
        && rooms.len() <= PACKAGE_ROOMS;
    if !sound {
        return Err((RefuseReason::NotStored, "the package is not one of this shard".to_owned()));
    }
    let (call, place) = host.prepared.begin(rooms.len(), host.rooms.len(), host.config.max_rooms)?;
    let place = Arc::new(Mutex::new(place));
    let answers: Vec<_> = rooms.iter().map(|packed| start(host, packed.clone(), received, place.clone())).collect();
    let mut set = Set { call, checksum: package.checksum(), rooms: Vec::with_capacity(answers.len()), _place: place };
    for answer in answers {
        match answer.await.unwrap_or_else(|_| Err(stopping())) {
            Ok(made) => set.rooms.push(made),
            Err(refusal) => {
                scrap(host, Some(set));
                return Err(refusal);
            }
        }
    }
    let checksum = set.checksum;
    let (unwanted, refused) = {
        // Held while it is kept: a shard that begins takes what is there, and what comes later finds that it has begun.
        let begun = slot.read();
        if begun.is_some() {
            (Some(set), Some((RefuseReason::NotServing, format!("shard {shard} is served here"))))
        } else {
            let (unwanted, later) = host.prepared.keep(shard, set);
            (unwanted, later.then(|| (RefuseReason::NotStored, "a later package has come".to_owned())))
        }
    };
    scrap(host, unwanted);
    refused.map_or(Ok(checksum), Err)
}

fn stopping() -> Refusal {
    (RefuseReason::Draining, "the node is stopping".to_owned())
}

/// Makes one room in the background, until nobody waits for it any more. How many are read at a time is bounded by the host's loads.
fn start(
    host: &Arc<Host>,
    packed: PackedRoom,
    received: Mono,
    place: Arc<Mutex<Place>>,
) -> oneshot::Receiver<Result<PreparedRoom, Refusal>> {
    let (mut answer, made) = oneshot::channel();
    let inner = host.clone();
    host.tasks.spawn("prepare room", Kind::Job, async move {
        let made = tokio::select! {
            biased;
            () = answer.closed() => return,
            made = make(&inner, &packed, received, &place) => made,
        };
        drop(place);
        drop(answer.send(made));
    });
    made
}

async fn make(
    host: &Arc<Host>,
    packed: &PackedRoom,
    received: Mono,
    place: &Mutex<Place>,
) -> Result<PreparedRoom, Refusal> {
    let room = &packed.room;
    let unreadable = |reason: String| (RefuseReason::Unreadable, format!("{room}: {reason}"));
    let Some(kind) = host.kinds.get(room.kind()) else {
        return Err(unreadable("no game of this kind is registered".to_owned()));
    };
    let not_stored = |reason: String| (RefuseReason::NotStored, format!("{room}: {reason}"));
    let loaded = loading::load(host, room).await.map_err(|error| not_stored(error.to_string()))?;
    let checkpoint = loaded.checkpoint.ok_or_else(|| not_stored("it is not in the store".to_owned()))?;
    let saved = Saved::of(&checkpoint);
    if (saved.version, saved.hash) != (packed.version, packed.hash) {
        return Err(not_stored(format!("its checkpoint has version {}, not {}", saved.version, packed.version)));
    }
    place.lock().grow(checkpoint.body.len() + loaded.items.iter().map(|item| item.payload.len()).sum::<usize>())?;
    let dormant = checkpoint.summary.dormant;
    let waited = std::time::Duration::from_micros(u64::from(packed.waited));
    let ticked = Mono(received.0.saturating_sub(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX)));
    let stored = StoredRoom { saved, dormant, items: loaded.items, ticked };
    let (answer, made) = oneshot::channel();
    let settings = host.config.world.clone();
    let restore = Restore { kind: kind.clone(), settings, checkpoint, stored, answer };
    // Game code may run in it: on the threads that are meant for it.
    drop(host.executor.spawn(room.as_str().into(), Box::new(Restoring(Some(Box::new(restore))))));
    match made.await {
        Ok(made) => made.map_err(unreadable),
        Err(_) => Err(stopping()),
    }
}

struct Restore {
    kind: Arc<RoomKind>,
    settings: WorldSettings,
    checkpoint: Checkpoint,
    stored: StoredRoom,
    answer: oneshot::Sender<Result<PreparedRoom, String>>,
}

/// Makes one world.
struct Restoring(Option<Box<Restore>>);

impl Activity for Restoring {
    fn run(&mut self, _: Mono) -> Next {
        let Some(restore) = self.0.take() else { return Next::Done };
        let Restore { kind, settings, checkpoint, stored, answer } = *restore;
        if answer.is_closed() {
            return Next::Done;
        }
        // Under the term that it ended under; it gets that of its shard when that one begins.
        let restored = catch_unwind(AssertUnwindSafe(|| {
            RoomWorld::restore(&kind, &settings, checkpoint.term, &checkpoint).map_err(|error| error.to_string())
        }));
        let world = restored.unwrap_or_else(|panic| Err(text(&*panic)));
        let room = checkpoint.summary.room.clone();
        let made = world.map(|world| PreparedRoom { room, kind, world: Some(world), stored });
        // Nobody waits for it any more: it is dropped here.
        drop(answer.send(made));
        Next::Done
    }
}
