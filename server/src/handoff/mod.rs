//! Shards move between nodes: the rules in `state/`, and the drivers that do the I/O around them: `driver.rs` reads what comes and decides what
//! begins, `leaving.rs` gives one shard away, `coming.rs` makes ready what is offered; `rests.rs` says when what stayed is tried again.
//!
#![doc = include_str!("../../../docs/handoff.md")]

mod coming;
mod driver;
mod inbox;
mod leaving;
mod rests;
pub mod state;

pub use driver::{Handoff, HandoffParts};
