//! Shards move between nodes (`docs/handoff.md`).

pub mod state;
