//! Tenure: a game-server framework whose rooms change hands without a dropped socket, a lost input or a second reward.

pub mod app;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod gateway;
pub mod handoff;
pub mod link;
pub mod ops;
pub mod ownership;
pub mod plugin;
pub mod prelude;
pub mod replication;
pub mod room;
pub mod runtime;
pub mod store;
pub mod telemetry;
pub mod timers;

pub use app::App;
/// The entity component system that rooms are made of.
pub use bevy_ecs as ecs;
pub use bytes::Bytes;
pub use gateway::Assets;
pub use plugin::{RoomBuilder, RoomPlugin};
/// A slice of the rooms, for daemons that divide them.
pub use tenure_shared::ShardId;

/// For tests of games.
pub mod test {
    pub use crate::room::test_room::{Fate, State, TestRoom, TestSeat};
}

#[cfg(doctest)]
#[doc = include_str!("../../docs/daemons.md")]
struct DaemonsPage;

#[cfg(doctest)]
#[doc = include_str!("../../docs/first-game.md")]
struct FirstGame;

#[cfg(doctest)]
#[doc = include_str!("../../docs/logging-in.md")]
struct LoggingIn;

#[cfg(doctest)]
#[doc = include_str!("../../docs/writing-a-game.md")]
struct WritingAGame;
