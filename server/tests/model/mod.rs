//! Models of small clusters for `model_check.rs`: the real store rules and the real step machine of ownership, all interleavings.

pub mod cluster;
pub mod graph;
pub mod handing;
pub mod intern;
pub mod machine;
mod moves;
pub mod parts;
pub mod room;
pub mod store;

mod commits;
mod failover;
mod gateways;
mod handoff;
mod inputs;
mod lease;
