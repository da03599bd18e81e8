//! Tenure: a game-server framework whose rooms change hands without a dropped socket, a lost input or a second reward.

pub mod config;
pub mod link;
pub mod ownership;
pub mod plugin;
pub mod prelude;
pub mod replication;
pub mod room;
pub mod runtime;
pub mod store;
pub mod timers;

/// The entity component system that rooms are made of.
pub use bevy_ecs as ecs;

/// For tests of games.
pub mod test {
    pub use crate::room::test_room::{Fate, State, TestRoom, TestSeat};
}

#[cfg(doctest)]
#[doc = include_str!("../../docs/writing-a-game.md")]
struct WritingAGame;
