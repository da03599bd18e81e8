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

/// Sets of worlds by shard; and those that are being made.
#[derive(Default)]
pub(super) struct Prepared(Arc<Mutex<Sets>>);

#[derive(Default)]
struct Sets {
    kept: BTreeMap<ShardId, Set>,
    // Counts calls: of two for one shard the later one counts.
    calls: u64,
    shards: usize,
    rooms: usize,
    bytes: usize,
}

struct Set {
    call: u64,
    checksum: u64,
    rooms: Vec<PreparedRoom>,
    _place: Arc<Mutex<Place>>,
}

/// What a set takes of the bounds; given back when it is dropped.
struct Place {
    sets: Arc<Mutex<Sets>>,
    rooms: usize,
    bytes: usize,
}

impl Place {
    fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let mut sets = self.sets.lock();
        if sets.bytes.saturating_add(bytes) > PREPARED_BYTES {
            return Err((RefuseReason::Full, "the worlds of other shards take all the memory meant for it".to_owned()));
        }
        sets.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sets = self.sets.lock();
        sets.shards -= 1;
        sets.rooms -= self.rooms;
        sets.bytes -= self.bytes;
    }
}

type Refusal = (RefuseReason, String);

impl Prepared {
    /// Rooms that are ready or being made ready.
    pub(super) fn rooms(&self) -> usize {
        self.0.lock().rooms
    }

    fn begin(&self, rooms: usize, loaded: usize, most: usize) -> Result<(u64, Place), Refusal> {
        let mut sets = self.0.lock();
        if sets.shards >= PREPARED_SHARDS || loaded + sets.rooms + rooms > most {
            return Err((RefuseReason::Full, "this node has as many rooms or moves as it may".to_owned()));
        }
        sets.shards += 1;
        sets.rooms += rooms;
        sets.calls += 1;
        Ok((sets.calls, Place { sets: self.0.clone(), rooms, bytes: 0 }))
    }

    /// Keeps a set, unless a later one is there.
    fn keep(&self, shard: ShardId, set: Set) -> bool {
        // Dropped when the lock is free: game code has destructors.
        let (kept, _dropped) = {
            let mut sets = self.0.lock();
            match sets.kept.get(&shard) {
                Some(later) if later.call > set.call => (false, Some(set)),
                _ => (true, sets.kept.insert(shard, set)),
            }
        };
        kept
    }

    /// The shard begins: its worlds, if they are of the package that it came with.
    pub(super) fn take(&self, shard: ShardId, package: Option<u64>) -> Vec<PreparedRoom> {
        let set = self.0.lock().kept.remove(&shard);
        match set {
            Some(set) if package == Some(set.checksum) => set.rooms,
            Some(_) => {
                tracing::debug!(%shard, "the worlds that were made ready are not those of the shard: it is read");
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    pub(super) fn discard(&self, shard: ShardId, checksum: u64) {
        let _dropped = {
            let mut sets = self.0.lock();
            let is_meant = sets.kept.get(&shard).is_some_and(|set| set.checksum == checksum);
            is_meant.then(|| sets.kept.remove(&shard))
        };
    }
}

pub(super) async fn prepare(host: &Arc<Host>, shard: ShardId, package: &Package) -> Result<u64, Refusal> {
    let received = host.clock.now();
    if host.stopping.load(Ordering::Acquire) || host.shutdown.is_stopped() {
        return Err(stopping());
    }
    let Some(slot) = host.shards.get(shard.0 as usize).filter(|slot| slot.read().is_none()) else {
        return Err((RefuseReason::NotServing, format!("shard {shard} is served here, or there is none")));
    };
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
    let mut made = Vec::with_capacity(answers.len());
    for answer in answers {
        made.push(answer.await.unwrap_or_else(|_| Err(stopping()))?);
    }
    let checksum = package.checksum();
    let set = Set { call, checksum, rooms: made, _place: place };
    // Held while it is kept: a shard that begins takes what is there, and what comes later finds that it has begun.
    let begun = slot.read();
    if begun.is_some() {
        drop(begun);
        return Err((RefuseReason::NotServing, format!("shard {shard} is served here")));
    }
    if !host.prepared.keep(shard, set) {
        return Err((RefuseReason::NotStored, "a later package has come".to_owned()));
    }
    Ok(checksum)
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
    if saved != (Saved { version: packed.version, hash: packed.hash }) {
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
