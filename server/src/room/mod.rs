//! Rooms: the world that ticks, and the host that runs it.

pub mod host;
pub mod world;
