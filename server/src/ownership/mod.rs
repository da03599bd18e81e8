//! Ownership: this node's life in the store, its lease, the shards it holds, and what it knows of the cluster (docs/ARCHITECTURE.md).
//!
//! Safety is the fence: every durable write carries one, and the store refuses an old one. The lease only makes an owner stop by
//! itself soon enough, so that nothing is shown which could never be stored. [`Ownership::holds`] is asked before every tick; when it
//! says no, rooms freeze and keep their worlds until [`Ownership::changes`] tells what became of their shard.
//!
//! ```text
//!            Registered            cluster known, all shards asked for
//! Joining ───────────────► Taking ───────────────────────────────────► Owning
//!    ▲                       ▲ beat accepted                             │ margin passed without an accepted beat
//!    │ tombstone             │ (store still has the lease)               ▼
//!    └────────────────────── Lapsed ◄────────────────────────────────────┘
//! ```
//!
//! Which shards a node holds is said by [`placement`], which every node computes alike from members and claims. A move is started by
//! the owner ([`Ownership::gives`], [`Ownership::gave`]) or, for a shard without one, by its target; the claim decides every race.

mod call;
mod driver;
mod event;
mod handle;
mod lease;
mod options;
pub mod placement;
mod shard;
mod state;
mod view;
mod waiting;

#[cfg(test)]
mod tests;

pub use event::Times;
pub use handle::Ownership;
pub use options::{Held, LeaseThread, Options, Transfer};
pub use view::{Owned, View};

/// The step machine, for model checks and simulations: not part of the API.
#[doc(hidden)]
pub mod model_check {
    pub use super::{
        event::{Call, Effect, Event, Holding, Phase, Seen, Times},
        state::{State, Touched},
    };
}
