//! Where shards are: what a gateway asks before it sends, and how it reaches another process.

use std::sync::Arc;

use tenure_shared::{ShardId, Term};

use super::{Downlink, Uplink};
use crate::runtime::Watcher;

/// Where a process's links are reached, `host:port`, as its member record says (`link.advertise`). One process has one address
/// through all its incarnations.
pub type Address = Arc<str>;

/// Who owns a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// For which term.
    pub term: Term,
    /// Where it is reached; `None` while nobody owns the shard, or while its owner is not among the members.
    pub address: Option<Address>,
}

/// Where shards are, as far as this process knows: a hint, corrected by [`super::ToGateway::NotOwner`] and [`super::ToGateway::Moved`].
pub trait Directory: Send + Sync + 'static {
    /// Into how many shards the rooms are divided.
    fn shards(&self) -> u32;

    /// Who owns a shard; `None` if it was never owned.
    fn owner(&self, shard: ShardId) -> Option<Owner>;

    /// Addresses of the serving room nodes, sorted: the same order in every process.
    fn nodes(&self) -> Vec<Address>;

    /// Counts the changes of all of this.
    fn changes(&self) -> Watcher;

    /// What is known turned out to be old: it is read again soon. Cheap; calls in between count as one.
    fn refresh(&self);

    /// Nobody is where this shard was looked for: who owns it is asked of the store itself, since what is published may be lost. Cheap, as
    /// [`Directory::refresh`] is, and does that too.
    fn look_for(&self, shard: ShardId) {
        let _ = shard;
        self.refresh();
    }
}

/// Opens links.
pub trait Dial: Send + Sync + 'static {
    /// A link to the process at `address`; to the own address it is the channel inside the process. Gives it at once: while it is being
    /// opened messages are refused as `Full`; if that fails or the stream ends, [`Downlink::broken`] is called and messages are refused
    /// as `Closed`.
    fn dial(&self, address: &Address, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink>;
}
