//! How a node owns, and what it holds.

use tenure_shared::Term;

use super::event::Times;
use crate::store::Fence;

/// Into how many shards rooms are divided unless said otherwise (config/default.toml).
const SHARDS: u32 = 256;
/// Shards given away at a time unless said otherwise (config/default.toml).
const CONCURRENT: usize = 3;

/// Where the lease is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseThread {
    /// On an OS thread of its own: nothing stands in front of the heartbeat.
    #[default]
    Own,
    /// As a task of the runtime that starts it: for simulations and tests on one thread.
    Task,
}

/// How a node owns. Whether it takes shards at all is said by the role `room` in its member record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Into how many shards the rooms are divided; the whole cluster must agree.
    pub shards: u32,
    /// Times of the lease.
    pub times: Times,
    /// How many shards are given away at a time (`handoff.concurrent`).
    pub concurrent: usize,
    /// Where the lease is kept.
    pub thread: LeaseThread,
}

impl Default for Options {
    fn default() -> Self {
        Self { shards: SHARDS, times: Times::default(), concurrent: CONCURRENT, thread: LeaseThread::default() }
    }
}

/// A shard that this node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What its writes carry.
    pub fence: Fence,
    /// Worlds in memory that were made under this term or a later one may go on under the fence's: nobody else owned the shard since.
    /// Other worlds must be dropped and restored from their checkpoints.
    pub continues: Option<Term>,
    /// [`crate::link::Package::checksum`] of the package with which another node handed it to this one, if nobody ran it since: worlds that were
    /// made of that package may run, no others (F2).
    pub package: Option<u64>,
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The store has it: the claim is the target's, under this term.
    Done(Term),
    /// It was refused, or nobody knows: the shard is in doubt, and only a compare-and-set to a new term decides (F1).
    Doubt,
}
