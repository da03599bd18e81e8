//! The store: domain verbs with fences (docs/ARCHITECTURE.md). Rules are written once in [`model`]; backends only carry them.
//!
//! Every change of owned state goes through [`Command::Commit`], [`Command::Transfer`], [`Command::Release`] or [`Command::Retry`], which
//! take a [`Fence`] (H3). [`conformance`] is the suite that every backend passes.

mod clock;
mod command;
pub mod conformance;
mod embedded;
mod error;
mod fence;
mod handle;
mod memory;
pub mod model;
mod records;
mod redis;

#[cfg(test)]
mod property;

pub use command::{Command, Reply, Stamped};
pub use embedded::{Embedded, OpenError, Options, embedded};
pub use error::Error;
pub use fence::{Fence, Key};
pub use handle::{Backend, BoxFuture, Store};
pub use memory::{Memory, memory};
pub use records::*;
pub use redis::{OpenError as RedisOpenError, Options as RedisOptions, Redis, redis};
