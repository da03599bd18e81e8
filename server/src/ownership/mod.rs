//! Ownership: this node's life in the store, its lease, and the shards it holds (DESIGN.md §6).
//!
//! Safety is the fence: every durable write carries one, and the store refuses an old one. The lease only makes an owner stop by
//! itself soon enough, so that nothing is shown which could never be stored. [`Ownership::holds`] is asked before every tick; when it
//! says no, rooms freeze and keep their worlds until [`Ownership::changes`] tells what became of their shard.
//!
//! ```text
//!            Registered            all shards asked for
//! Joining ───────────────► Taking ───────────────────────► Owning
//!    ▲                       ▲ beat accepted                  │ margin passed without an accepted beat
//!    │ tombstone             │ (store still has the lease)    ▼
//!    └────────────────────── Lapsed ◄─────────────────────────┘
//! ```

mod call;
mod event;
mod lease;
mod node;
mod shard;
mod state;

#[cfg(test)]
mod tests;

pub use event::Times;
pub use node::{Held, LINK_PROTOCOL, Options, Ownership};
