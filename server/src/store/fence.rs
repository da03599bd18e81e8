//! The fence: what a write of owned state must carry. It is made only from the store's own answer to an acquire.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, ShardId, Term};

/// What a claim is about: `shard/17`, `daemon/regions@8/2`, `singleton/x`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of a shard.
    pub fn shard(shard: ShardId) -> Self {
        Self(format!("shard/{shard}").into())
    }

    /// A key by its text (daemons and singletons); at most 128 bytes are kept by the store.
    pub fn named(text: &str) -> Self {
        Self(text.into())
    }

    /// The shard, if it is the key of one.
    pub fn as_shard(&self) -> Option<ShardId> {
        self.0.strip_prefix("shard/")?.parse().ok().map(ShardId)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `(key, incarnation, term)`: proof that its holder owned the key when the store last answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    key: Key,
    incarnation: IncarnationId,
    term: Term,
}

impl Fence {
    /// Only `ownership` makes fences, from a granted acquire or transfer.
    pub(crate) fn new(key: Key, incarnation: IncarnationId, term: Term) -> Self {
        Self { key, incarnation, term }
    }
    /// What is owned.
    pub fn key(&self) -> &Key {
        &self.key
    }
    /// By whom.
    pub fn incarnation(&self) -> &IncarnationId {
        &self.incarnation
    }
    /// For which term.
    pub fn term(&self) -> Term {
        self.term
    }
}
