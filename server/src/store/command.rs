//! The verbs as data, so that one model, a queue, a simulation and a Redis script can carry them alike.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term};

use super::{
    Applied, Batch, Checkpoint, Claim, CompletedWork, Error, Fence, Grant, HistoryEntry, Ignored, Key, KeyState,
    LedgerEntry, Member, MemberInfo, OutboxEntry, RoomSummary, Route, Session, Status, WorkId, WorkItem,
};
use crate::runtime::Wall;

/// One verb with its arguments. Every verb is idempotent: a call whose answer was lost may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the fields are named after what they are; each verb's line says what it does with them"
)]
pub enum Command {
    /// Makes a member (joining) with a lease of `ttl` from the store's now. → [`Reply::Done`]
    Register { incarnation: IncarnationId, info: MemberInfo, ttl: Duration },
    /// Renews the lease; refused with [`Error::Tombstoned`] after a tombstone or when absent. `floor` is the highest term that the caller
    /// has seen anywhere: heartbeats spread it. → [`Reply::Beat`]
    Heartbeat { incarnation: IncarnationId, ttl: Duration, floor: Term },
    /// Writes the tombstone if the lease has lapsed by the store's clock, if the record is absent, or if its heartbeats are still at
    /// `stood_still`, which the caller saw for three times the lease by its own monotonic clock. → [`Reply::Expired`]
    Expire { incarnation: IncarnationId, stood_still: Option<u64> },
    /// Sets a member's status. → [`Reply::Done`]
    SetStatus { incarnation: IncarnationId, status: Status },
    /// Says which file of schedules a member runs: it may change while it lives. → [`Reply::Done`]
    SetSchedules { incarnation: IncarnationId, hash: String },
    /// All members without a tombstone. → [`Reply::Members`]
    Members,
    /// Writes the caller's own tombstone: it is gone on purpose. → [`Reply::Done`]
    Deregister { incarnation: IncarnationId },

    /// Compare-and-set of a claim (H2): granted if it is still as `seen` (holder, term; `None` = no claim yet) and is free, released, the
    /// caller's own, or its holder is tombstoned or has no lease record. The caller must be a live member. → [`Reply::Granted`]
    Acquire { key: Key, caller: IncarnationId, seen: Option<(Option<IncarnationId>, Term)>, floor: Term },
    /// Gives a claim to another live member; refused when a checkpoint of the manifest (room, version) is not stored. → [`Reply::Granted`] (of the target)
    Transfer { fence: Fence, to: IncarnationId, package: u64, manifest: Vec<(RoomId, u64)>, floor: Term },
    /// Gives a claim up; its term stays. → [`Reply::Done`]
    Release { fence: Fence },
    /// Publishes the route of a claim that is held again, where it is lost or older. → [`Reply::Done`]
    Publish { fence: Fence },
    /// One claim. → [`Reply::Claim`]
    Claim { key: Key },
    /// The claims of these keys (at most 1,000) in their order; keys that nobody ever claimed are left out. → [`Reply::Claims`]
    Claims { keys: Vec<Key> },
    /// Routes changed since the counter, at most 1,000; a counter of 0 gives all. → [`Reply::Routes`]
    Routes { since: u64 },
    /// Agrees on a constant: the first writer decides (of `model::AGREED_LINKS` anew when no member lives any more). → [`Reply::Agreed`]; another value: [`Error::Disagreement`]
    Agree { name: String, value: String },
    /// As `Agree`, but gives the agreed value instead of an error (the cluster's guest-token secret). → [`Reply::Agreed`]
    AgreeOrGet { name: String, value: String },
    /// Puts another value in the place of the agreed one, if that is still `agreed`. → [`Reply::Agreed`]; otherwise [`Error::Disagreement`]
    Reagree { name: String, agreed: String, value: String },

    /// A room's checkpoint. → [`Reply::Checkpoint`]
    Load { room: RoomId },
    /// Rooms of a shard after `after`, at most `limit` (bounded by 1,000). → [`Reply::Rooms`]
    Rooms { shard: ShardId, after: Option<RoomId>, limit: usize },

    /// The one durable write of a shard (H1, H3). `number` grows by one per commit of the shard and term, from 1: the last number again gives the
    /// same answer and changes nothing, a lower one is [`Error::OutOfOrder`]. The batch must belong to the shard of the fence; grants
    /// that find no room in the outbox are [`Error::Full`]. → [`Reply::Committed`]
    Commit { fence: Fence, shards: u32, number: u64, batch: Batch },

    /// Pending, unparked items of the shard due at or before `before`, earliest first, behind the item `after` (its due time and identity),
    /// at most `limit` (bounded by 1,000). → [`Reply::Work`]
    Due { shard: ShardId, before: Wall, after: Option<(Wall, WorkId)>, limit: usize },
    /// How many items of the shard are overdue, counted up to 10,000. → [`Reply::Count`]
    Overdue { shard: ShardId },
    /// All items of a shard after `after`, parked included. → [`Reply::Work`]
    Work { shard: ShardId, after: Option<WorkId>, limit: usize },
    /// The items of one room of a shard after `after`, parked included: what its neighbours have is not read. → [`Reply::Work`]
    RoomWork { shard: ShardId, room: RoomId, after: Option<WorkId>, limit: usize },
    /// Makes a parked item due now. → [`Reply::Done`]
    Retry { fence: Fence, id: WorkId },
    /// Outbox of a shard after a position. → [`Reply::Outbox`]
    Outbox { shard: ShardId, after: u64, limit: usize },

    /// Applies a grant to a ledger, once per identity, caps and balances in the same step. → [`Reply::Applied`]
    Apply { grant: Grant },
    /// A player's balances. → [`Reply::Balances`]
    Balances { player: PlayerId },
    /// A player's ledger lines, newest first, at most `limit` (bounded by 1,000). → [`Reply::Ledger`]
    Ledger { player: PlayerId, limit: usize },
    /// A player's session in a room. → [`Reply::Session`]
    Session { player: PlayerId, room: RoomId },
    /// Stores a session if the stored version is `seen` (0: none). `None` deletes it. → [`Reply::Done`] or [`Error::Conflict`]
    PutSession { player: PlayerId, room: RoomId, seen: u64, session: Option<Session> },

    /// The small state that belongs to a claim. → [`Reply::State`]
    State { key: Key },
    /// Stores the small state of a claim (H1, H3) if its stored version is `seen` (0: none); the version grows by one. A repeat changes
    /// nothing; another version is [`Error::Conflict`]. → [`Reply::Done`]
    PutState { fence: Fence, seen: u64, body: Bytes },

    /// Ownership history of a key, oldest first. → [`Reply::History`]
    History { key: Key },
    /// The latest `limit` (bounded by 1,000) lines of a shard's completed work, oldest first. → [`Reply::Completed`]
    Completed { shard: ShardId, limit: usize },
}

impl Command {
    /// Whether it only reads: it needs no durable write and may be answered at once.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Command::Members
                | Command::Claim { .. }
                | Command::Claims { .. }
                | Command::Routes { .. }
                | Command::Load { .. }
                | Command::Rooms { .. }
                | Command::Due { .. }
                | Command::Overdue { .. }
                | Command::Work { .. }
                | Command::RoomWork { .. }
                | Command::Outbox { .. }
                | Command::Balances { .. }
                | Command::Ledger { .. }
                | Command::Session { .. }
                | Command::State { .. }
                | Command::History { .. }
                | Command::Completed { .. }
        )
    }

    /// Whether leases hang on it: such a verb stands before all others in a queue. Transfer and release are not among them:
    /// they must not overtake the commits that their caller sent before.
    pub fn is_urgent(&self) -> bool {
        matches!(
            self,
            Command::Register { .. }
                | Command::Heartbeat { .. }
                | Command::Expire { .. }
                | Command::SetStatus { .. }
                | Command::Members
                | Command::Deregister { .. }
                | Command::Acquire { .. }
                | Command::Publish { .. }
                | Command::Claim { .. }
                | Command::Claims { .. }
                | Command::Routes { .. }
                | Command::Agree { .. }
                | Command::AgreeOrGet { .. }
                | Command::Reagree { .. }
        )
    }
}

/// The answer to a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after what they are; each answer's line says the rest")]
pub enum Reply {
    /// It is done.
    Done,
    /// Heartbeats so far, and the highest term the store ever issued (the floor that heartbeats spread).
    Beat { beats: u64, floor: Term },
    /// Whether there is a tombstone now.
    Expired(bool),
    /// Members.
    Members(Vec<Member>),
    /// The term granted.
    Granted(Term),
    /// A claim.
    Claim(Option<Claim>),
    /// Claims.
    Claims(Vec<Claim>),
    /// Change counter and the routes changed.
    Routes { counter: u64, changed: Vec<Route> },
    /// The agreed value.
    Agreed(String),
    /// A checkpoint.
    Checkpoint(Option<Checkpoint>),
    /// Rooms.
    Rooms(Vec<RoomSummary>),
    /// The commit is durable; outbox positions of its grants in order, and what it scheduled in vain. A commit that is repeated, since its
    /// answer was lost, is not told of the latter again.
    Committed { positions: Vec<u64>, ignored: Vec<Ignored> },
    /// Work items.
    Work(Vec<WorkItem>),
    /// A count.
    Count(u64),
    /// Outbox entries.
    Outbox(Vec<OutboxEntry>),
    /// What the ledger did, and the balances afterwards.
    Applied { applied: Applied, balances: Vec<(String, i64)> },
    /// Balances.
    Balances(Vec<(String, i64)>),
    /// Ledger lines.
    Ledger(Vec<LedgerEntry>),
    /// A session.
    Session(Option<Session>),
    /// The state of a claim; `None` if none was ever stored.
    State(Option<KeyState>),
    /// Ownership history.
    History(Vec<HistoryEntry>),
    /// Completed work.
    Completed(Vec<CompletedWork>),
}

/// An answer with the store's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The store's clock when it answered.
    pub at: Wall,
    /// The answer.
    pub reply: Result<Reply, Error>,
}
