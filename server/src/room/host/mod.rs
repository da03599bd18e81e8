//! Hosts rooms: threads, ticks, checkpoints, commits, due work, grants, dormancy.

mod executor;
mod finder;
mod pacing;
mod shard;
mod threads;

pub use executor::{Activity, Busy, Executor, Next, Wake};
pub use threads::Threads;
