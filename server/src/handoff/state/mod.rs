//! The rules of a move as two step machines without I/O: [`Source`] is one attempt to give a shard away, [`Target`] is what a node knows of a
//! shard that may come to it. The same machines run in nodes and in the model check.
//!
//! Each step has a deadline ([`Source::due`], [`Target::due`]); a message that is not of the attempt at hand changes nothing.

use std::time::Duration;

mod source;
mod target;

#[cfg(test)]
mod tests;

pub use source::{End, Source, SourceEffect, SourceEvent, Step, Why};
pub use target::{Target, TargetEffect, TargetEvent};

/// Times of a move (config/default.toml, `[handoff]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// Longest wait for one step; a whole freeze takes at most three of them (H5).
    pub step: Duration,
    /// How long worlds that stand ready wait for their claim.
    pub prepared: Duration,
}
