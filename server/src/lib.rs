//! Tenure: a game-server framework whose rooms change hands without a dropped socket, a lost input or a second reward.

pub mod config;
pub mod link;
pub mod ownership;
pub mod plugin;
pub mod replication;
pub mod room;
pub mod runtime;
pub mod store;
pub mod timers;
