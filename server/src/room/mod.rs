//! Rooms: the world of one session and the host that runs it.

pub mod host;
