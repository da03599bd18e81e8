//! A proof for readiness that the store takes a write of this node and gives it back.

use std::time::Duration;

use super::{RoomHost, shard::Shard};
use crate::runtime::Mono;

impl RoomHost {
    /// When a write began that the store has taken under a fence of this node, and after which the claim was read back: a commit of any
    /// shard within the last `within`, or else an empty one that is made for it. `None`: this node serves no shard, or the fence is not
    /// its own any more. It waits as long as the store does not answer; cancel-safe.
    pub async fn prove(&self, within: Duration) -> Option<Mono> {
        let host = &self.host;
        let asked = host.clock.now();
        let shards: Vec<_> = host.shards.iter().filter_map(|slot| slot.read().clone()).collect();
        let serves = |shard: &&std::sync::Arc<Shard>| shard.is_ready() && !shard.is_lost();
        let shard = shards.iter().filter(serves).max_by_key(|shard| shard.proven())?;
        let enough = |at: Mono| at >= asked || asked.since(at) < within;
        let began = loop {
            let progress = host.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            match shard.proven().filter(|at| enough(*at)) {
                Some(began) => break began,
                None if shard.is_lost() || host.shutdown.is_stopped() => return None,
                None => shard.ask_proof(),
            }
            tokio::select! {
                biased;
                () = progress => {}
                () = host.shutdown.stopped() => return None,
            }
        };
        let fence = host.ownership.fence(shard.id())?;
        let claim = host.store.claim(fence.key()).await.ok()??;
        let ours = claim.holder.as_ref() == Some(fence.incarnation()) && claim.term == fence.term();
        ours.then_some(began)
    }
}
