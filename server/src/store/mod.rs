//! The store: domain verbs with fences (DESIGN.md §5). Rules are written once in `model`; backends only carry them.
//!
//! Every change of owned state goes through [`Command::Commit`], [`Command::Transfer`] or [`Command::Release`], which take a [`Fence`] (H3).

mod command;
mod error;
mod fence;
mod records;

pub use command::{Command, Reply, Stamped};
pub use error::Error;
pub use fence::{Fence, Key};
pub use records::*;
