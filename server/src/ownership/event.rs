//! What happens to ownership, and what it asks for: the words of the step machine in `state/`.

use std::time::Duration;

use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

use crate::{
    runtime::{Mono, Wall},
    store::{Claim, Member, Route, Status},
};

/// Times of a lease (config/default.toml, `[lease]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// How long the store keeps a lease after a heartbeat.
    pub ttl: Duration,
    /// From one heartbeat to the next.
    pub heartbeat: Duration,
    /// Longest wait for one call.
    pub deadline: Duration,
    /// How long before the end of the lease its owner stops acting.
    pub margin: Duration,
    /// How often the claims of shards that are held or waited for are read.
    pub claim_check: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3),
            heartbeat: Duration::from_secs(1),
            deadline: Duration::from_millis(500),
            margin: Duration::from_millis(500),
            claim_check: Duration::from_secs(10),
        }
    }
}

/// What the node is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No lease: registering.
    Joining,
    /// A lease, but the cluster is still being looked at and shards asked for: nothing acts.
    Taking,
    /// Acts for what it holds.
    Owning,
    /// The margin passed: asking whether the former lease still stands.
    Lapsed,
    /// Giving everything up.
    Leaving,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named after what they are; each event's line says the rest")]
pub enum Event {
    /// Time passed.
    Tick,
    /// Registered, asked for at `sent`.
    Registered { incarnation: IncarnationId, sent: Mono },
    /// A heartbeat sent at `sent` was accepted.
    Beat { incarnation: IncarnationId, sent: Mono, floor: Term },
    /// A heartbeat or another verb said that this incarnation is gone.
    Gone { incarnation: IncarnationId },
    /// Whether the incarnation has a tombstone now.
    Expired { incarnation: IncarnationId, gone: bool },
    /// A call failed for now: it is made again in time.
    Failed(Call),
    /// All members, at this time of the store.
    Members { members: Vec<Member>, at: Wall },
    /// Routes that changed after `since`.
    Routes { since: u64, counter: u64, changed: Vec<Route> },
    /// The claims of these shards; a shard without one was never claimed.
    Claims { shards: Vec<ShardId>, claims: Vec<Claim> },
    /// A shard was granted, asked for with `seen`.
    Granted { shard: ShardId, incarnation: IncarnationId, seen: Seen, term: Term },
    /// A shard was not granted: its claim is not as seen, or its holder lives.
    Refused { shard: ShardId, incarnation: IncarnationId, term: Term },
    /// A shard was released, or its claim was no longer this one's.
    Released { shard: ShardId, term: Term },
    /// Everything of a shard is stored and `to` has its worlds ready: the claim is to be that one's.
    Transfer { shard: ShardId, term: Term, to: IncarnationId, package: u64, manifest: Vec<(RoomId, u64)> },
    /// A transfer was refused, or nobody knows what became of it.
    NotGiven { shard: ShardId, term: Term },
    /// Another has this node's worlds ready and will say that the claim is this one's: it is not asked for anew before `until`.
    Expect { shard: ShardId, until: Mono },
    /// Who gave the shard says that its claim names this node, with this package.
    Transferred { shard: ShardId, incarnation: IncarnationId, term: Term, package: u64 },
    /// A shard held under `term` was given: the claim names the other under `new`.
    Given { shard: ShardId, term: Term, to: IncarnationId, new: Term },
    /// A write under this term was refused.
    Fenced { shard: ShardId, term: Term },
    /// Everything of a shard is stored and it may be released.
    Gave { shard: ShardId, term: Term },
    /// A shard that is to be given cannot be now.
    Kept { shard: ShardId, term: Term },
    /// Somebody saw this term of the shard.
    TermSeen { shard: ShardId, term: Term },
    /// Somebody looks for a shard that is not held.
    Wanted { shard: ShardId },
    /// What is known of the cluster turned out to be old.
    Refresh,
    /// The member's status was stored.
    Told { incarnation: IncarnationId, status: Status },
    /// Tell members that this one gives its keys away.
    Drain,
    /// Leave for good.
    Leave,
}

/// A claim as it was seen: its holder and term; `None` if nobody ever claimed it.
pub type Seen = Option<(Option<IncarnationId>, Term)>;

/// Which call failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after its effect")]
pub enum Call {
    Register,
    Beat,
    Expire(IncarnationId),
    Members,
    Routes,
    Claims(Vec<ShardId>),
    Status,
    Acquire(ShardId),
    Release(ShardId),
    Deregister,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named after what they are; each is a verb of the store")]
pub enum Effect {
    /// Register as a new incarnation, with a name made by the driver.
    Register,
    /// Renew the lease and spread the highest term seen.
    Beat { incarnation: IncarnationId, floor: Term },
    /// Write the tombstone of a lapsed lease, or of one whose heartbeats stood still.
    Expire { incarnation: IncarnationId, stood_still: Option<u64> },
    /// Read the members.
    ReadMembers,
    /// Read the routes that changed.
    ReadRoutes { since: u64 },
    /// Read the claims of these shards.
    ReadClaims { shards: Vec<ShardId> },
    /// Tell members a status.
    Tell { incarnation: IncarnationId, status: Status },
    /// Take a shard by compare-and-set.
    Acquire { shard: ShardId, caller: IncarnationId, seen: Seen, floor: Term },
    /// Give a claim up.
    Release { shard: ShardId, incarnation: IncarnationId, term: Term },
    /// Give a claim to another member; if that one is gone, give it up.
    Give { shard: ShardId, incarnation: IncarnationId, term: Term, to: IncarnationId, floor: Term },
    /// Give a claim to another member that has the worlds of this package ready; the store checks that the manifest's checkpoints are there.
    Transfer {
        shard: ShardId,
        incarnation: IncarnationId,
        term: Term,
        to: IncarnationId,
        package: u64,
        manifest: Vec<(RoomId, u64)>,
        floor: Term,
    },
    /// Publish the route of a held shard again: the store does not have it.
    Publish { shard: ShardId, incarnation: IncarnationId, term: Term },
    /// Write this node's own tombstone.
    Deregister { incarnation: IncarnationId },
}

/// A shard that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Its term.
    pub term: Term,
    /// The lowest term whose worlds in memory may go on under this one: nobody else owned the shard since.
    pub continues: Option<Term>,
    /// The package with which another handed it to this node, if nobody ran it since.
    pub package: Option<u64>,
}
