//! What the store keeps: members, claims, rooms, work items, outbox, ledgers, sessions, history.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, PlayerId, RoomId, Term, Tick};

use super::Key;
use crate::runtime::Wall;

/// A member's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Registered, not yet ready.
    Joining,
    /// Receives and serves.
    Serving,
    /// Gives its keys away.
    Draining,
}

/// What a node says about itself when it registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberInfo {
    /// The node's name.
    pub node: String,
    /// `gateway`, `room`.
    pub roles: Vec<String>,
    /// Version of the game, as a text for people.
    pub version: String,
    /// `node.revision`: the number that a deploy sets.
    pub revision: u64,
    /// Where other members reach its links.
    pub link: String,
    /// Where players reach it.
    pub public_url: String,
    /// Version of its time-zone data.
    pub zone_data: String,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// One life of the node.
    pub incarnation: IncarnationId,
    /// What it said about itself.
    pub info: MemberInfo,
    /// Its status.
    pub status: Status,
    /// Heartbeats so far.
    pub beats: u64,
    /// Store time up to which its lease runs.
    pub lease_until: Wall,
    /// Set when it was expired or deregistered: for ever.
    pub tombstone: bool,
    /// Hash of the file of schedules that it runs, as it said last; empty before its first word.
    #[serde(default)]
    pub schedules: String,
}

/// Who owns a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The key.
    pub key: Key,
    /// Its holder; `None` when it was released.
    pub holder: Option<IncarnationId>,
    /// The term; it stays when the key is released.
    pub term: Term,
    /// Checksum of the package of the handoff that made this term.
    pub package: Option<u64>,
}

/// The small state that belongs to a claim: what a daemon keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyState {
    /// Grows by one with each write, over all terms.
    pub version: u64,
    /// What its holder stored.
    pub body: Bytes,
}

/// A hint where a key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// The key.
    pub key: Key,
    /// Its owner, `None` when released.
    pub owner: Option<IncarnationId>,
    /// The term.
    pub term: Term,
}

/// What is known of a room without loading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSummary {
    /// The room.
    pub room: RoomId,
    /// Seats taken, connected or in their grace.
    pub seats: u32,
    /// Most seats.
    pub max_seats: u32,
    /// Text that the game set, for lobbies.
    pub metadata: Bytes,
    /// Unloaded: costs no tick.
    pub dormant: bool,
    /// Not to be found by `join_or_create`.
    pub private: bool,
    /// No new seats.
    pub locked: bool,
}

/// A room's stored state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Summary.
    pub summary: RoomSummary,
    /// Term under which it was made.
    pub term: Term,
    /// Tick at which it was made.
    pub tick: Tick,
    /// Grows by one with each checkpoint of the room.
    pub version: u64,
    /// The world, encoded by `room`.
    pub body: Bytes,
}

/// Identity of a work item: `(room, job, key)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkId {
    /// The room it is for.
    pub room: RoomId,
    /// The registered job, or `schedule/<id>`.
    pub job: Arc<str>,
    /// For schedules the `scheduled_for`, microseconds; required for game code.
    pub key: Arc<str>,
}

/// The job of items that hold a grant which its ledger refused: they wait for a person, and outlive their room (H6).
pub const REFUSED_GRANT: &str = "tenure/refused-grant";

/// Jobs of items that hold a charge which was taken, and whose purchase no build has handed over yet; behind it the charge's source. They
/// wait for a build that can, and outlive their room (H6).
pub const OWED_CHARGE: &str = "tenure/owed-charge/";

/// Whether items of a job are owed to players, not to their room: they stay when it is deleted.
pub fn is_owed(job: &str) -> bool {
    job == REFUSED_GRANT || job.starts_with(OWED_CHARGE)
}

/// An item that was scheduled and changes nothing, since one of its identity is done already, or is parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignored {
    /// Its identity.
    pub id: WorkId,
    /// Whether the former one is parked, and waits for a person; else it is done, for ever.
    pub parked: bool,
}

/// Due work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Its identity.
    pub id: WorkId,
    /// Not before this, by the store's clock.
    pub due: Wall,
    /// Failed attempts so far.
    pub attempt: u32,
    /// No longer tried; the reason of the last failure.
    pub parked: Option<String>,
    /// For the handler; a cursor of a paged decision lives here too.
    pub payload: Bytes,
}

/// What names a grant for ever: applied at most once per ledger (H6).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Arc<str>);

/// A grant (or charge) decided, not yet in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Identity.
    pub id: GrantId,
    /// Whose ledger.
    pub player: PlayerId,
    /// Schedule id, job or reason: shown to the player.
    pub source: Arc<str>,
    /// When it was due; `None` for grants of game code.
    pub scheduled_for: Option<Wall>,
    /// Currency → amount; negative amounts are charges, refused below 0 as a whole.
    pub amounts: BTreeMap<Arc<str>, i64>,
    /// Cap for positive amounts of this source.
    pub cap: Option<Cap>,
    /// Handed back with the result, so that the room knows what the answer belongs to; opaque, at most 256 bytes.
    pub token: Bytes,
}

/// At most so much per player from this source within the period that began at `since`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// Start of the period (the day), microseconds since 1970; a later start begins a new count.
    pub since: Wall,
    /// Currency → most in the period.
    pub limits: BTreeMap<Arc<str>, i64>,
}

/// A grant in a shard's outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// Position in the shard's outbox, from 1, never used again.
    pub position: u64,
    /// Room that decided it.
    pub room: RoomId,
    /// The grant.
    pub grant: Grant,
}

/// What the ledger did with a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// Recorded now: what was really given after caps.
    Given(BTreeMap<Arc<str>, i64>),
    /// Recorded before: what was given then.
    Already(BTreeMap<Arc<str>, i64>),
    /// A charge that would go below 0: nothing changed, and this answer is recorded for the identity.
    Insufficient,
}

/// A line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Identity of the grant.
    pub id: GrantId,
    /// Schedule id, job or reason.
    pub source: Arc<str>,
    /// When it was due.
    pub scheduled_for: Option<Wall>,
    /// What was given; empty when a charge was refused as insufficient.
    pub given: BTreeMap<Arc<str>, i64>,
    /// Whether a charge was refused.
    pub insufficient: bool,
    /// Store time.
    pub at: Wall,
}

/// A player's session in one room: how a seat is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Whose.
    pub player: PlayerId,
    /// The room.
    pub room: RoomId,
    /// The seat.
    pub seat: u32,
    /// Join options: a seat that a restored world does not know is joined anew from them.
    pub options: Bytes,
    /// Token that resumes now.
    pub current: String,
    /// Token that takes over once it was used or acknowledged.
    pub next: Option<String>,
    /// Grows with each change; the compare-and-set value.
    pub version: u64,
}

/// A line of a key's ownership history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The term that began.
    pub term: Term,
    /// Its owner; `None` for a release.
    pub owner: Option<IncarnationId>,
    /// The holder before.
    pub from: Option<IncarnationId>,
    /// `acquire`, `reacquire`, `takeover`, `transfer`, `release`.
    pub cause: String,
    /// Store time.
    pub at: Wall,
}

/// A line of the history of completed work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedWork {
    /// Which item.
    pub id: WorkId,
    /// Under which term it was completed.
    pub term: Term,
    /// Store time.
    pub at: Wall,
}

/// What one commit does, in one atomic step (H6). Empty parts do nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Checkpoints to store; refused (`Conflict`) when (term, tick) of one is below the stored one's, or its version is not higher.
    pub checkpoints: Vec<Checkpoint>,
    /// Rooms to delete, with their items, but for those that are owed to players ([`is_owed`]).
    pub deleted: Vec<RoomId>,
    /// Items to schedule; an identity that exists or was completed changes nothing, unless the item is pending and differs: then it is
    /// replaced. Of the parts for work, `cancelled` is carried out first, then this and the others in the order below, `completed` last.
    pub scheduled: Vec<WorkItem>,
    /// Items completed; refused as a whole (`Conflict`) when one is not pending.
    pub completed: Vec<WorkId>,
    /// Items whose payload moves on without completion (cursor of a paged decision).
    pub advanced: Vec<(WorkId, Bytes)>,
    /// Items that failed: attempt + 1, not before the given time.
    pub failed: Vec<(WorkId, Wall)>,
    /// Items parked, with the reason.
    pub parked: Vec<(WorkId, String)>,
    /// Items cancelled.
    pub cancelled: Vec<WorkId>,
    /// Grants decided, appended to the outbox in order.
    pub grants: Vec<(RoomId, Grant)>,
    /// Outbox positions applied to ledgers: trimmed.
    pub trimmed: Vec<u64>,
    /// Decisions that were acknowledged before, said again after all of the above to a store that may have forgotten them.
    pub again: Vec<Again>,
}

/// A decision that the store acknowledged once, and may have forgotten since (DESIGN, "What a store may forget"). It changes nothing where one
/// of its items is known as done: they were one commit. Otherwise its items are done now, pending or not, and its grants are in the outbox.
/// Without items it cannot be told whether the store has it: its grants are there again, and the ledger knows their identities (H6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Items that it completed.
    pub completed: Vec<WorkId>,
    /// Its grants.
    pub grants: Vec<(RoomId, Grant)>,
}

impl Batch {
    /// Whether it would do nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
