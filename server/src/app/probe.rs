//! Whether the store really works for this node: a heartbeat is a conditional write on the node's own record, and a claim that it
//! holds is read back and compared. A ping would prove neither (LESSONS C35).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_shared::ShardId;

use crate::{
    ownership::Ownership,
    runtime::{Clock, Tasks, tasks::Kind},
    store::Store,
};

/// When the last proof was given, on the monotonic clock; 0 before the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof(Arc<AtomicU64>);

impl Proof {
    /// Whether it was given within `ttl`.
    pub(super) fn is_fresh(&self, clock: &Clock, ttl: Duration) -> bool {
        let at = self.0.load(Ordering::Acquire);
        at > 0 && clock.now().0.saturating_sub(at) <= u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Proves it again and again, a third of `ttl` apart, on one claim after another.
pub(super) fn start(
    store: &Store,
    ownership: &Ownership,
    clock: &Clock,
    (shards, ttl): (u32, Duration),
    tasks: &Tasks,
) -> Proof {
    let proof = Proof::default();
    let (store, ownership, clock, given) = (store.clone(), ownership.clone(), clock.clone(), proof.0.clone());
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("store-probe", Kind::Essential, async move {
        let mut shard = 0;
        while !shutdown.is_stopped() {
            let asked = clock.now();
            if let Some(fence) = ownership.fence(ShardId(shard)) {
                match store.claim(fence.key()).await {
                    Ok(Some(claim)) if claim.term == fence.term() && ownership.holds(asked) => {
                        given.store(asked.0.max(1), Ordering::Release);
                    }
                    Ok(claim) => tracing::warn!(key = %fence.key(), ?claim, "a claim is not as this node holds it"),
                    Err(error) => tracing::debug!(%error, "the store did not answer the probe"),
                }
            }
            shard = (shard + 1) % shards.max(1);
            tokio::select! {
                () = shutdown.stopped() => {}
                () = clock.sleep(ttl / 3) => {}
            }
        }
    });
    proof
}
