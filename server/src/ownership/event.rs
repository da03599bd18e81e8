//! What happens to ownership, and what it asks for: the words of the step machine in `state.rs`.

use std::time::Duration;

use tenure_shared::{IncarnationId, ShardId, Term};

use crate::{
    runtime::Mono,
    store::{Claim, Status},
};

/// Times of a lease (DESIGN.md §14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long the store keeps a lease after a heartbeat.
    pub ttl: Duration,
    /// From one heartbeat to the next.
    pub heartbeat: Duration,
    /// Longest wait for one call.
    pub deadline: Duration,
    /// How long before the end of the lease its owner stops acting.
    pub margin: Duration,
    /// How often all claims are compared with what is held, and free ones taken.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No lease: registering.
    Joining,
    /// A lease, but the shards are still being asked for: nothing acts.
    Taking,
    /// Acts for what it holds.
    Owning,
    /// The margin passed: asking whether the former lease still stands.
    Lapsed,
    /// Giving everything up.
    Leaving,
}

/// What happened.
#[derive(Clone, Debug)]
pub(super) enum Event {
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
    /// All claims on shards.
    Claims(Vec<Claim>),
    /// A shard was granted, asked for with `seen`.
    Granted { shard: ShardId, incarnation: IncarnationId, seen: Seen, term: Term },
    /// A shard was not granted; who has it.
    Refused { shard: ShardId, incarnation: IncarnationId, holder: String },
    /// A write under this term was refused.
    Fenced { shard: ShardId, term: Term },
    /// The member's status was stored.
    Told { incarnation: IncarnationId, status: Status },
    /// Tell members that this one gives its keys away.
    Drain,
    /// Leave for good.
    Leave,
}

/// A claim as it was seen.
pub(super) type Seen = Option<(Option<IncarnationId>, Term)>;

/// Which call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Register,
    Beat,
    Expire,
    Claims,
    Status,
    Acquire(ShardId),
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Register as a new incarnation, with a name made by the driver.
    Register,
    Beat {
        incarnation: IncarnationId,
    },
    Expire {
        incarnation: IncarnationId,
    },
    ReadClaims,
    Tell {
        incarnation: IncarnationId,
        status: Status,
    },
    Acquire {
        shard: ShardId,
        caller: IncarnationId,
        seen: Seen,
        floor: Term,
    },
    Release {
        shard: ShardId,
        incarnation: IncarnationId,
        term: Term,
    },
    Deregister {
        incarnation: IncarnationId,
    },
}

/// A shard that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) term: Term,
    /// The lowest term whose worlds in memory may go on under this one: nobody else owned the shard since.
    pub(super) continues: Option<Term>,
}
