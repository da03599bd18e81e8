//! One room as data and systems: a `bevy_ecs` world, its seats, timers and inputs. No I/O and no clock of its own: time, durable
//! answers and inputs come in with a tick, frames and durable effects go out.

mod api;

use std::sync::Arc;

pub use api::{
    AttachRefused, Attachment, DueWork, Effects, GrantResult, MAX_ERRORS, TickInput, TickOutput, WorldError,
    WorldSettings,
};
use tenure_shared::{Generation, RoomId, SeatId, Term, Tick, codes::ErrorCode};

use crate::{
    link::{Attach, Attached, GatewayId, Input, ToGateway},
    plugin::RoomKind,
    runtime::Wall,
    store::{Checkpoint, RoomSummary},
};

/// One room's world. `Send`: it ticks on any thread, one at a time.
pub struct RoomWorld {
    kind: Arc<RoomKind>,
    room: RoomId,
    term: Term,
    tick: Tick,
    version: u64,
    now: u64,
}

impl RoomWorld {
    /// A new room: startup systems run, nobody is there.
    ///
    /// # Errors
    /// When the plugin is not the same each time it is built.
    pub fn create(
        kind: &Arc<RoomKind>,
        room: RoomId,
        _settings: &WorldSettings,
        term: Term,
        _seed: u64,
        _wall: Wall,
    ) -> Result<Self, WorldError> {
        Ok(Self { kind: kind.clone(), room, term, tick: Tick(0), version: 0, now: 0 })
    }

    /// A room from its checkpoint. Seats come back disconnected, in their grace, whole again; nothing is news to systems (H12).
    ///
    /// # Errors
    /// When the checkpoint cannot be read by this build. It never panics.
    pub fn restore(
        kind: &Arc<RoomKind>,
        _settings: &WorldSettings,
        term: Term,
        stored: &Checkpoint,
    ) -> Result<Self, WorldError> {
        let (kind, room) = (kind.clone(), stored.summary.room.clone());
        Ok(Self { kind, room, term, tick: stored.tick, version: stored.version, now: 0 })
    }

    /// A player takes a seat, between ticks. A player has at most one seat: he takes his own again, with a higher generation, and the
    /// socket that had it is closed by a message in [`take_messages`](Self::take_messages).
    ///
    /// # Errors
    /// When the room is full or locked, or the game refuses.
    pub fn attach(&mut self, attach: &Attach) -> Result<Attached, AttachRefused> {
        let message = format!("{} takes no seats", attach.room);
        Err(AttachRefused { code: ErrorCode::MayRetry, message, retry_after: Some(1_000) })
    }

    /// Members of a world that this one replaces take their seats again: one `Restored` per gateway; a seat that this world does not
    /// know is closed with 4001 and joins anew.
    pub fn adopt(&mut self, _members: &[Attachment]) -> Vec<(GatewayId, ToGateway)> {
        Vec::new()
    }

    /// The connected seats.
    pub fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// A socket is gone, or its player leaves. `false` if the generation is an older one: then nothing happens (LESSONS C49).
    pub fn detach(&mut self, _seat: SeatId, _generation: Generation, _consented: bool) -> bool {
        false
    }

    /// A snapshot for a seat; `None` if the generation is an older one.
    pub fn resync(&mut self, _seat: SeatId, _generation: Generation) -> Option<(GatewayId, ToGateway)> {
        None
    }

    /// A numbered message or request: it waits for the next tick. What is repeated or of an older generation is ignored.
    ///
    /// # Errors
    /// A gap in the numbers, or a seat whose queue is at its bound: then nothing was taken.
    pub fn input(&mut self, _input: Input) -> Result<(), (SeatId, ErrorCode, String)> {
        Ok(())
    }

    /// One tick.
    ///
    /// # Panics
    /// When game code panics: the world is half-ticked then and must be dropped.
    pub fn tick(&mut self, _input: TickInput) -> TickOutput {
        self.tick.0 += 1;
        self.now += 1_000_000_000 / u64::from(self.kind.tick_rate().max(1));
        TickOutput::default()
    }

    /// Messages that came up between ticks (closes, `Left`).
    pub fn take_messages(&mut self) -> Vec<(GatewayId, ToGateway)> {
        Vec::new()
    }

    /// The room's state, with the next version.
    pub fn checkpoint(&mut self, dormant: bool) -> Checkpoint {
        self.version += 1;
        let summary = RoomSummary { dormant, ..self.summary() };
        Checkpoint { summary, term: self.term, tick: self.tick, version: self.version, body: bytes::Bytes::new() }
    }

    /// The store has the checkpoint of this version: the `saved` marks move.
    pub fn saved(&mut self, _version: u64) {}

    /// Whether anything happened since the last checkpoint.
    pub fn dirty(&self) -> bool {
        true
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

    /// The room goes on under another term.
    pub fn set_term(&mut self, term: Term) {
        self.term = term;
    }

    /// The last tick.
    pub fn tick_number(&self) -> Tick {
        self.tick
    }

    /// Version of the last checkpoint.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What is shown of the room without loading it.
    pub fn summary(&self) -> RoomSummary {
        RoomSummary {
            room: self.room.clone(),
            seats: self.seats(),
            max_seats: self.kind.max_seats(),
            metadata: bytes::Bytes::new(),
            dormant: false,
            private: self.kind.private(),
            locked: false,
        }
    }

    /// Seats taken: connected or in their grace.
    pub fn seats(&self) -> u32 {
        0
    }

    /// Connected seats.
    pub fn connected(&self) -> u32 {
        0
    }

    /// Room time since which no seat is taken, nanoseconds; `None` while one is.
    pub fn empty_since(&self) -> Option<u64> {
        Some(self.now)
    }

    /// Room time, nanoseconds: it stands still while the room does not tick.
    pub fn room_time(&self) -> u64 {
        self.now
    }
}
