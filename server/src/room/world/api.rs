//! What goes into a room's world and what comes out: plain data, no I/O (the contract with the room host).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_shared::{
    Generation, PlayerId, SeatId, Tick,
    codes::{CloseCode, ErrorCode},
    limits,
};

use crate::{
    link::{ConnId, GatewayId, ToGateway},
    plugin::{Reward, TaskFuture, TaskResult},
    runtime::Wall,
    store::{Applied, Grant, GrantId, LedgerEntry, WorkId, WorkItem},
};

/// Bounds of a world, from the config (config/default.toml).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldSettings {
    /// Name of the node that the world runs at; for people alone.
    pub node: Arc<str>,
    /// Most inputs of a seat applied in one tick.
    pub inputs_per_tick: usize,
    /// How long a seat outlives its socket, in room time, unless the kind says otherwise.
    pub reconnect_grace: Duration,
    /// Most inputs of a seat waiting to be applied, count.
    pub unsaved_inputs: usize,
    /// Most inputs of a seat waiting to be applied, bytes.
    pub unsaved_bytes: usize,
    /// Largest checkpoint, bytes. A larger one is reported in [`TickOutput::errors`].
    pub max_checkpoint: usize,
    /// Most grants that one tick decides for one reward.
    pub max_grants_per_step: usize,
    /// Most players that the room remembers, of those whom schedules ask about.
    pub max_known: usize,
    /// Most tasks of game code in flight.
    pub max_tasks: usize,
    /// Most local timers.
    pub max_timers: usize,
    /// Most requests that wait for a later answer, whole room.
    pub max_pending_replies: usize,
    /// Most bytes of messages to one seat that wait for a frame.
    pub max_out_bytes: usize,
}

impl Default for WorldSettings {
    fn default() -> Self {
        Self {
            node: "".into(),
            inputs_per_tick: 8,
            reconnect_grace: Duration::from_secs(30),
            unsaved_inputs: limits::UNSAVED_INPUTS,
            unsaved_bytes: limits::UNSAVED_INPUT_BYTES,
            max_checkpoint: 1024 * 1024,
            max_grants_per_step: 500,
            max_known: 1_000,
            max_tasks: 64,
            max_timers: 10_000,
            max_pending_replies: 1_024,
            max_out_bytes: 64 * 1024,
        }
    }
}

/// Why a world could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The checkpoint's bytes are not what this version writes.
    #[error("the checkpoint cannot be read: {0}")]
    Damaged(String),
    /// The checkpoint was written by a newer build.
    #[error("{what} {name:?} was stored in version {stored}; this build reads up to {known}")]
    Newer {
        /// Component or resource.
        what: &'static str,
        /// Its name.
        name: String,
        /// Version in the checkpoint.
        stored: u32,
        /// Version of this build.
        known: u32,
    },
    /// A stored value could not be read or migrated.
    #[error("{what} {name:?}: {reason}")]
    Value {
        /// Component or resource.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The kind's plugin registered something else than at the start.
    #[error("the plugin of kind {0:?} does not register the same things each time it is built")]
    Unstable(String),
}

/// Why a seat was not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRefused {
    /// For programs.
    pub code: ErrorCode,
    /// The game's own word, with [`ErrorCode::Refused`].
    pub word: Option<Box<str>>,
    /// For people.
    pub message: String,
    /// Milliseconds after which it may be tried again.
    pub retry_after: Option<u32>,
    /// Set when the socket must be closed: its seat is another one's.
    pub close: Option<CloseCode>,
}

/// Why an input was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputRefused {
    /// Too many of the seat wait: its socket must come back and send from the number owed (H4).
    Overrun {
        /// The seat.
        seat: SeatId,
        /// For people.
        reason: String,
    },
    /// The seat is over, or its attachment is not of this world.
    Gone {
        /// The seat.
        seat: SeatId,
        /// From the input.
        generation: Generation,
    },
}

/// A connected seat: what the host needs to carry members over to a world restored in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its gateway.
    pub gateway: GatewayId,
    /// Its socket.
    pub conn: ConnId,
    /// The seat.
    pub seat: SeatId,
    /// Number of the attachment.
    pub generation: Generation,
    /// Highest count of resumes with which the seat was taken.
    pub resumes: u32,
    /// Who.
    pub player: PlayerId,
}

/// Numbers that a failed world has given away, perhaps without a checkpoint that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last tick that it began: sockets may have been shown up to it (H7).
    pub tick: Tick,
    /// The next seat number.
    pub next_seat: u32,
}

/// What a tick is given.
#[derive(Debug, Default)]
pub struct TickInput {
    /// The store's clock, as far as known.
    pub wall: Wall,
    /// Work that is due.
    pub due: Vec<DueWork>,
    /// What ledgers answered.
    pub results: Vec<GrantResult>,
    /// How many more charges may wait as work for a build that hands them over.
    pub owed_places: usize,
    /// Balances that were asked for by [`TickOutput::balances_wanted`].
    pub balances: Vec<(PlayerId, Vec<(String, i64)>)>,
    /// Ledgers that were asked for by [`TickOutput::missed_wanted`].
    pub missed: Vec<MissedGrants>,
    /// Ends of tasks.
    pub tasks: Vec<(u64, TaskResult)>,
    /// Next due time per schedule id, changes only (`None`: no further occurrence).
    pub schedules: Vec<(Arc<str>, Option<Wall>)>,
}

/// Work that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct DueWork {
    /// The item.
    pub item: WorkItem,
    /// Set for items of a schedule (`schedule/<id>`).
    pub reward: Option<Reward>,
}

/// What a ledger did with a grant. It may come more than once: game code sees it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantResult {
    /// The grant.
    pub grant: Grant,
    /// What became of it.
    pub applied: Applied,
    /// The player's balances afterwards.
    pub balances: Vec<(String, i64)>,
}

/// The newest lines of the ledger of a player who came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedGrants {
    /// Who.
    pub player: PlayerId,
    /// Until when he had been here: what is younger is news.
    pub since: Wall,
    /// Some of the newest lines.
    pub lines: Vec<LedgerEntry>,
    /// The balances that they led to.
    pub balances: Vec<(String, i64)>,
}

/// What a tick did.
#[derive(Default)]
pub struct TickOutput {
    /// For gateways: at most one frame for each, closes and the like.
    pub messages: Vec<(GatewayId, ToGateway)>,
    /// Durable effects.
    pub effects: Effects,
    /// Tasks to run; their results come back in [`TickInput::tasks`].
    pub tasks: Vec<(u64, TaskFuture)>,
    /// Players whose balances are wanted.
    pub balances_wanted: Vec<PlayerId>,
    /// Players who came back, and since when what they were given is wanted.
    pub missed_wanted: Vec<(PlayerId, Wall)>,
    /// The game wants the room to end.
    pub dispose: bool,
    /// What others see of the room has changed: it was locked, hidden or described, or the opposite.
    pub switched: bool,
    /// What went wrong in game code, for the log; at most [`MAX_ERRORS`].
    pub errors: Vec<String>,
}

/// Most error texts of one tick; more are counted in the last one.
pub const MAX_ERRORS: usize = 16;

/// Durable effects of a tick. If there are any, the tick's checkpoint goes into the same commit (H6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Items to schedule.
    pub scheduled: Vec<WorkItem>,
    /// Items cancelled.
    pub cancelled: Vec<WorkId>,
    /// Items done.
    pub completed: Vec<WorkId>,
    /// Items with more pages to come: their new payload.
    pub advanced: Vec<(WorkId, Bytes)>,
    /// Items whose handler failed, with the reason.
    pub failed: Vec<(WorkId, String)>,
    /// Grants decided, for the outbox.
    pub grants: Vec<Grant>,
    /// Grants whose results this tick has given to game code: their outbox positions are trimmed in the commit that carries this
    /// tick's checkpoint, and in no earlier one.
    pub delivered: Vec<GrantId>,
}

impl Effects {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
