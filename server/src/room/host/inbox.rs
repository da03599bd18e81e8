//! What waits for a room: inputs for its next tick, wishes of gateways, answers of the store; and the map from room to inbox.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::BuildHasher,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tenure_shared::{Generation, PlayerId, RoomId, SeatId};

use super::{
    actor::DISPOSE_JOB,
    config::{ROOM_EVENTS, ROOM_INPUTS},
    executor::Wake,
    loading::Loaded,
};
use crate::{
    link::{Attach, GatewayId, Input},
    plugin::TaskResult,
    room::world::{DueWork, GrantResult, MissedGrants},
    runtime::{Mono, mailbox::Refused},
    store::{Checkpoint, Error, Ignored, WorkId},
};

/// What a gateway wants from a room. It waits while the room is loaded, created, frozen or saved.
#[derive(Debug)]
pub(super) enum Wish {
    Attach(Attach),
    Detach { seat: SeatId, generation: Generation, consented: bool },
    Resync { seat: SeatId, generation: Generation },
}

/// What the host tells a room. Each kind has a bound of its own (work and results by windows, answers one per question).
pub(super) enum Event {
    /// The answer to the room's load.
    Loaded(Result<Loaded, Error>),
    /// Requests are durable.
    Committed(Durable),
    /// The store refused this room's request for good.
    Refused { error: Error, merged: usize },
    /// Due work.
    Work(Box<DueWork>),
    /// What the ledger did with the grant at this outbox position.
    Granted(u64, Box<GrantResult>),
    /// Balances that were asked for, and ledgers of players who came back.
    Ledgers(Vec<(PlayerId, Vec<(String, i64)>)>, Vec<MissedGrants>),
    /// A task ended.
    Task { epoch: u64, id: u64, result: TaskResult },
    /// The shard goes on from memory under a new term. The store may have forgotten what was acknowledged before; `forgot`: it has, by the numbers of
    /// its commits.
    Continued { forgot: bool },
    /// The shard is another's: the room stops without a word.
    Lost,
    /// Save and end.
    Stop,
    /// A person wants a parked room to run again.
    Unpark,
}

/// What became durable of a room's requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Durable {
    /// Version of the checkpoint, if there was one.
    pub(super) version: Option<u64>,
    /// How many requests.
    pub(super) merged: usize,
    /// Items that are no longer in the room's hands.
    pub(super) items: Vec<WorkId>,
    /// Items of game code that were scheduled in vain.
    pub(super) ignored: Vec<Ignored>,
    /// Outbox positions trimmed.
    pub(super) trimmed: Vec<u64>,
}

/// A room that stands still, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// Its checkpoint.
    pub(super) saved: Saved,
    /// When its last tick was due.
    pub(super) ticked: Mono,
}

/// Which checkpoint of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// Its version.
    pub(super) version: u64,
    /// xxh3 of its body.
    pub(super) hash: u64,
    /// Length of its body.
    pub(super) bytes: usize,
}

impl Saved {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        let body = &checkpoint.body;
        Self { version: checkpoint.version, hash: xxhash_rust::xxh3::xxh3_64(body), bytes: body.len() }
    }
}

/// Named stage of a room, for the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Stage {
    /// Its checkpoint is read, or its first one is stored.
    Loading,
    /// It ticks.
    Running,
    /// Its owner's lease is in doubt: it stands still.
    Frozen,
    /// Its last checkpoint is stored before it is unloaded, or it is deleted.
    Saving,
    /// It failed, and its last checkpoint is read.
    Restoring,
    /// It failed too often: it stays away until a person says so, or its next owner reads it.
    Parked,
}

impl Stage {
    const ALL: [Stage; 6] =
        [Stage::Loading, Stage::Running, Stage::Frozen, Stage::Saving, Stage::Restoring, Stage::Parked];

    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Loading => "loading",
            Stage::Running => "running",
            Stage::Frozen => "frozen",
            Stage::Saving => "saving",
            Stage::Restoring => "restoring",
            Stage::Parked => "parked",
        }
    }
}

/// A loaded room from outside.
pub(super) struct RoomHandle {
    pub(super) room: RoomId,
    inbox: Mutex<Inbox>,
    wake: OnceLock<Arc<dyn Wake>>,
    stage: AtomicU32,
    pub(super) seats: AtomicU32,
    pub(super) connected: AtomicU32,
    pub(super) tick: AtomicU64,
    pub(super) ticks_late: AtomicU64,
    pub(super) ticks_dropped: AtomicU64,
    pub(super) reason: Mutex<Option<String>>,
    pub(super) told_to_stop: AtomicBool,
    /// The last giving of its shard for which it stands still with everything stored, and what of it the next owner can go on from.
    pub(super) still: AtomicU64,
    pub(super) packed: Mutex<Option<Packed>>,
    /// Length of its last checkpoint.
    pub(super) bytes: AtomicUsize,
}

#[derive(Default)]
struct Inbox {
    inputs: Vec<(GatewayId, Input)>,
    wishes: VecDeque<Wish>,
    events: VecDeque<Event>,
    closed: bool,
}

impl RoomHandle {
    pub(super) fn new(room: RoomId) -> Self {
        Self {
            room,
            inbox: Mutex::default(),
            wake: OnceLock::new(),
            stage: AtomicU32::new(Stage::Loading as u32),
            seats: AtomicU32::new(0),
            connected: AtomicU32::new(0),
            tick: AtomicU64::new(0),
            ticks_late: AtomicU64::new(0),
            ticks_dropped: AtomicU64::new(0),
            reason: Mutex::new(None),
            told_to_stop: AtomicBool::new(false),
            still: AtomicU64::new(0),
            packed: Mutex::new(None),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn wake_by(&self, wake: Arc<dyn Wake>) {
        if self.wake.set(wake).is_ok() {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake.wake();
        }
    }

    pub(super) fn stage(&self) -> Stage {
        let index = self.stage.load(Ordering::Relaxed) as usize;
        Stage::ALL.get(index).copied().unwrap_or(Stage::Loading)
    }

    pub(super) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u32, Ordering::Relaxed);
    }

    /// Inputs wait for the next tick: they wake nobody.
    pub(super) fn input(&self, gateway: GatewayId, input: Input) -> Result<(), Refused<Input>> {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return Err(Refused::Closed(input));
        }
        if inbox.inputs.len() >= ROOM_INPUTS {
            return Err(Refused::Full(input));
        }
        inbox.inputs.push((gateway, input));
        Ok(())
    }

    /// Detaches wait for the next tick, behind the inputs that came before them; the rest wakes the room.
    pub(super) fn wish(&self, wish: Wish) -> Result<(), Refused<Wish>> {
        let wakes = !matches!(wish, Wish::Detach { .. });
        {
            let mut inbox = self.inbox.lock();
            if inbox.closed {
                return Err(Refused::Closed(wish));
            }
            if inbox.wishes.len() >= ROOM_EVENTS {
                return Err(Refused::Full(wish));
            }
            inbox.wishes.push_back(wish);
        }
        if wakes {
            self.wake();
        }
        Ok(())
    }

    /// `false` when the room has just ended: look it up again.
    pub(super) fn tell(&self, event: Event) -> bool {
        // A running room sees these at its next tick; every other stage waits for them.
        let waits = matches!(event, Event::Committed(_) | Event::Work(_) | Event::Granted(..) | Event::Ledgers(..));
        {
            let mut inbox = self.inbox.lock();
            if inbox.closed {
                return false;
            }
            inbox.events.push_back(event);
        }
        if !(waits && self.stage() == Stage::Running) {
            self.wake();
        }
        true
    }

    /// One at a time: what the room has not looked at yet keeps its inbox from being closed.
    pub(super) fn next_event(&self) -> Option<Event> {
        self.inbox.lock().events.pop_front()
    }

    pub(super) fn has_events(&self) -> bool {
        !self.inbox.lock().events.is_empty()
    }

    /// All inputs, for an empty list whose memory the next ones use.
    pub(super) fn swap_inputs(&self, empty: &mut Vec<(GatewayId, Input)>) {
        empty.clear();
        std::mem::swap(&mut self.inbox.lock().inputs, empty);
    }

    /// All wishes; or, between ticks, those at the front that need no tick.
    pub(super) fn take_wishes(&self, between_ticks: bool) -> VecDeque<Wish> {
        let mut inbox = self.inbox.lock();
        if !between_ticks {
            return std::mem::take(&mut inbox.wishes);
        }
        let ready = inbox.wishes.iter().position(|w| matches!(w, Wish::Detach { .. })).unwrap_or(inbox.wishes.len());
        inbox.wishes.drain(..ready).collect()
    }

    pub(super) fn put_back(&self, wishes: VecDeque<Wish>) {
        let mut inbox = self.inbox.lock();
        for wish in wishes.into_iter().rev() {
            inbox.wishes.push_front(wish);
        }
    }

    pub(super) fn has_attach(&self) -> bool {
        self.inbox.lock().wishes.iter().any(|w| matches!(w, Wish::Attach(_)))
    }

    /// Ends the inbox if nothing waits in it that needs the room (H4, C48): who comes later looks the room up again.
    pub(super) fn close(&self, force: bool) -> bool {
        let mut inbox = self.inbox.lock();
        let wants = |event: &Event| match event {
            // Its own deletion needs no loaded room.
            Event::Work(work) => &*work.item.id.job != DISPOSE_JOB,
            Event::Granted(..) => true,
            _ => false,
        };
        let wanted = inbox.wishes.iter().any(|w| matches!(w, Wish::Attach(_))) || inbox.events.iter().any(wants);
        if wanted && !force {
            return false;
        }
        inbox.closed = true;
        true
    }
}

const SLICES: usize = 64;

/// Loaded rooms by id, in slices so that inputs of different rooms do not meet.
pub(super) struct Directory {
    hasher: std::hash::RandomState,
    slices: Vec<RwLock<HashMap<RoomId, Arc<RoomHandle>>>>,
    len: AtomicUsize,
}

impl Default for Directory {
    fn default() -> Self {
        let slices = (0..SLICES).map(|_| RwLock::default()).collect();
        Self { hasher: std::hash::RandomState::new(), slices, len: AtomicUsize::new(0) }
    }
}

impl Directory {
    fn slice(&self, room: &RoomId) -> &RwLock<HashMap<RoomId, Arc<RoomHandle>>> {
        let index = self.hasher.hash_one(room) as usize % SLICES;
        &self.slices[index]
    }

    pub(super) fn get(&self, room: &RoomId) -> Option<Arc<RoomHandle>> {
        self.slice(room).read().get(room).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The handle of a room, and whether it was made now (then the caller starts the room).
    pub(super) fn open(&self, room: &RoomId) -> (Arc<RoomHandle>, bool) {
        match self.slice(room).write().entry(room.clone()) {
            Entry::Occupied(entry) => (entry.get().clone(), false),
            Entry::Vacant(entry) => {
                self.len.fetch_add(1, Ordering::Relaxed);
                (entry.insert(Arc::new(RoomHandle::new(room.clone()))).clone(), true)
            }
        }
    }

    pub(super) fn remove(&self, handle: &Arc<RoomHandle>) {
        let mut slice = self.slice(&handle.room).write();
        if slice.get(&handle.room).is_some_and(|known| Arc::ptr_eq(known, handle)) {
            slice.remove(&handle.room);
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Those that `pick` wants, by room id: the order in which rooms are told something is the same in every run of a simulation.
    pub(super) fn filtered(&self, pick: impl Fn(&RoomId) -> bool) -> Vec<Arc<RoomHandle>> {
        let mut found = Vec::new();
        for slice in &self.slices {
            found.extend(slice.read().values().filter(|handle| pick(&handle.room)).cloned());
        }
        found.sort_unstable_by(|a, b| a.room.cmp(&b.room));
        found
    }

    /// All handles, by room id.
    pub(super) fn all(&self) -> Vec<Arc<RoomHandle>> {
        self.filtered(|_| true)
    }
}
