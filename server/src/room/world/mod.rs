//! One room as data and systems: a `bevy_ecs` world, its seats, timers and inputs. No I/O and no clock of its own: time, durable
//! answers and inputs come in with a tick, frames and durable effects go out.

mod adopt;
mod api;
mod attach;
mod build;
mod checkpoint;
mod durable;
mod frames;
mod inputs;
mod known;
mod missed;
pub(in crate::room) mod owed;
mod restore;
mod rewards;
mod seats;
mod tick;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

pub use api::{
    AttachRefused, Attachment, DueWork, Effects, GrantResult, InputRefused, MAX_ERRORS, MissedGrants, Reached,
    TickInput, TickOutput, WorldError, WorldSettings,
};
use bevy_ecs::{schedule::Schedule, world::World};
use bytes::Bytes;
use tenure_shared::{PlayerId, RoomId, SeatId, Seq, Term, Tick};

pub use known::Remember;

use self::{inputs::InputQueue, known::Known, missed::Missed, seats::SeatState};
use crate::{
    link::{GatewayId, ToGateway},
    plugin::{
        Handlers, RoomKind,
        params::{self, TickNow},
    },
    replication::Replicator,
    runtime::Wall,
    store::{GrantId, RoomSummary},
};

/// Comings and goings that are remembered until somebody asks.
const COMINGS: usize = 384;

/// Moments that were shown, perhaps, and rolled back: those after the checkpoint that a world was restored from and before its own first.
#[derive(Clone, Copy, Debug)]
struct Lost {
    after: (Term, Tick),
    before: (Term, Tick),
}

impl Lost {
    fn contains(self, shown: (Term, Tick)) -> bool {
        self.after < shown && shown < self.before
    }
}

/// One room's world. `Send`: it ticks on any thread, one at a time.
pub struct RoomWorld {
    kind: Arc<RoomKind>,
    room: RoomId,
    settings: WorldSettings,
    term: Term,
    tick: Tick,
    /// What may have been shown and is not in this world.
    lost: Lost,
    /// Version of the last checkpoint.
    version: u64,
    /// When this room was made, by the store's clock: a room that is deleted and made again under its name is another one.
    born: Wall,
    /// Room time, nanoseconds.
    now: u64,
    /// Length of a tick, nanoseconds.
    dt: u64,
    wall: Wall,

    world: World,
    schedule: Schedule,
    handlers: Handlers,
    replicator: Replicator,

    seats: BTreeMap<SeatId, SeatState>,
    next_seat: u32,
    /// Numbers of seats that were given after a checkpoint that this room was restored from, oldest first: they are not over, but unknown.
    forgotten: Vec<(u32, u32)>,
    inputs: InputQueue,
    known: Known,

    effects: Effects,
    /// Grants that game code decided in this life of the room: a part of their identities.
    grants: u64,
    /// Results that game code has been given, until the store has a checkpoint that says so.
    delivered: BTreeMap<GrantId, Option<u64>>,
    /// How many more charges may wait as work, in this tick.
    owed_places: usize,
    /// What each seat had applied in checkpoints that the store does not have yet.
    saves: VecDeque<(u64, Vec<(SeatId, Seq)>)>,
    balances_wanted: BTreeSet<PlayerId>,
    missed: Missed,
    /// Tasks that a move interrupted, to be told so.
    interrupted: Vec<u64>,
    /// Stored resources that this build does not know: carried along (a rollback loses nothing).
    carried: Vec<(Arc<str>, u32, Bytes)>,

    messages: Vec<(GatewayId, ToGateway)>,
    errors: Vec<String>,
    /// Who took a seat or gave his up, and nobody asked yet.
    comings: Vec<(PlayerId, bool)>,
    empty_since: Option<u64>,
    /// Room time of the last frame that everybody got, nanoseconds.
    last_body: u64,
    dirty: bool,
    /// Something came since the last tick that systems have not seen: in a restored world they never would.
    unseen: bool,
}

impl RoomWorld {
    /// Messages that came up between ticks (closes, `Left`).
    pub fn take_messages(&mut self) -> Vec<(GatewayId, ToGateway)> {
        std::mem::take(&mut self.messages)
    }

    /// Whether anything happened since the last checkpoint. A tick counts: room time went on.
    pub fn dirty(&self) -> bool {
        self.dirty
    }

    /// Whether seats were taken or lost since the last tick: a restored world is no news to systems, so that they would never see it.
    pub fn unseen(&self) -> bool {
        self.unseen
    }

    /// The room's id.
    pub fn room(&self) -> &RoomId {
        &self.room
    }

    /// The kind.
    pub fn kind(&self) -> &Arc<RoomKind> {
        &self.kind
    }

    /// The owner's term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The room goes on under another term, from memory: whatever it showed under its former one is in it.
    pub fn set_term(&mut self, term: Term) {
        let after = self.lost.after.max((self.term, self.tick));
        self.lost = Lost { after, before: (term, Tick(0)) };
        self.term = term;
    }

    /// A new room goes on from this tick instead of 0. One that was deleted and made anew under the same term must not use a (term,
    /// tick) of its former life again: they order frames and name grants (H6, H7).
    pub fn begin_at(&mut self, tick: Tick) {
        self.tick = self.tick.max(tick);
        if let Some(mut state) = self.world.get_resource_mut::<TickNow>() {
            state.0.n = self.tick.0;
        }
    }

    /// The last tick.
    pub fn tick_number(&self) -> Tick {
        self.tick
    }

    /// Numbers that were given away: what replaces this world goes on above them.
    pub fn reached(&self) -> Reached {
        Reached { tick: self.tick, next_seat: self.next_seat }
    }

    /// Version of the last checkpoint.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Room time, nanoseconds: it stands still while the room does not tick.
    pub fn room_time(&self) -> u64 {
        self.now
    }

    /// What is shown of the room without loading it.
    pub fn summary(&self) -> RoomSummary {
        let control = self.world.get_resource::<params::ControlState>();
        RoomSummary {
            room: self.room.clone(),
            seats: self.seats(),
            max_seats: self.kind.max_seats(),
            metadata: control.map(|c| c.metadata.clone()).unwrap_or_default(),
            dormant: false,
            private: control.is_some_and(|c| c.private),
            locked: control.is_some_and(|c| c.locked),
        }
    }

    /// Who took a seat (true) or gave his up since this was last asked, in order; the oldest are forgotten when nobody asks.
    pub fn take_comings(&mut self) -> Vec<(PlayerId, bool)> {
        std::mem::take(&mut self.comings)
    }

    pub(super) fn came(&mut self, player: &PlayerId, stays: bool) {
        if self.comings.len() == COMINGS {
            self.comings.remove(0);
        }
        self.comings.push((player.clone(), stays));
    }

    /// Seats taken: connected or in their grace.
    pub fn seats(&self) -> u32 {
        u32::try_from(self.seats.len()).unwrap_or(u32::MAX)
    }

    /// Connected seats.
    pub fn connected(&self) -> u32 {
        self.seats.values().filter(|seat| seat.link.is_some()).count() as u32
    }

    /// Room time since which no seat is taken, nanoseconds; `None` while one is.
    pub fn empty_since(&self) -> Option<u64> {
        self.empty_since
    }

    /// The room remembers these players from now on, and forgets all others.
    pub fn remember(&mut self, whom: Remember) {
        self.known.remember(whom, self.wall);
    }

    fn error(&mut self, text: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(text);
        }
        metrics::counter!("tenure_room_errors_total", "kind" => self.kind.name().to_owned()).increment(1);
    }
}

impl std::fmt::Debug for RoomWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoomWorld({}, term {}, tick {}, {} seats)", self.room, self.term, self.tick, self.seats.len())
    }
}

/// A room ticks on whatever thread its host gives it.
const _: fn() = || {
    fn sends<T: Send>() {}
    sends::<RoomWorld>();
};
