//! Rooms: the world that ticks, and the host that runs it.

pub mod host;
pub mod test_room;
pub mod world;
