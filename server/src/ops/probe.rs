//! Whether the store really answers: for readiness a write attempt and a read back, every few seconds.
//!
//! The write is the retry of an item that does not exist. The store checks its fence as for any other write, in the same step, and then has
//! nothing to change: so the probe goes the whole way (queue, writer, rules, rows) without leaving anything behind. A ping would stay
//! green with a read-only disk, a lost script or a fence that is no longer ours (LESSONS C35). A node that holds no shard (a gateway; a
//! room node that has just come, or is one more than there are shards) proposes what the cluster has agreed on anyway.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_shared::RoomId;

use crate::{
    runtime::{Clock, Mono, Tasks, tasks::Kind},
    store::{Error, Fence, Store, WorkId},
};

/// Never yet.
const NEVER: u64 = 0;

/// The last good answer; cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe {
    clock: Clock,
    fresh: Duration,
    /// When the last good attempt began, on the monotonic clock, plus 1.
    good: Arc<AtomicU64>,
}

impl Probe {
    /// Asks every `every` until the shutdown. `fence` gives one of the node's fences, `None` while it holds nothing: then `agreed` (name
    /// and value of something agreed on) is what is written. An answer counts for `fresh` from before it was asked for, and an attempt that takes longer is given up.
    pub fn start(
        store: Store,
        clock: Clock,
        tasks: &Tasks,
        every: Duration,
        fresh: Duration,
        agreed: (&'static str, String),
        fence: impl Fn() -> Option<Fence> + Send + 'static,
    ) -> Self {
        let probe = Self { clock, fresh, good: Arc::new(AtomicU64::new(NEVER)) };
        let (this, shutdown) = (probe.clone(), tasks.shutdown().clone());
        tasks.spawn("store-probe", Kind::Essential, async move {
            loop {
                match fence() {
                    Some(fence) => this.attempt(fenced(&store, &fence)).await,
                    None => this.attempt(unfenced(&store, &agreed)).await,
                }
                tokio::select! {
                    biased;
                    () = shutdown.stopped() => return,
                    () = this.clock.sleep(every) => {}
                }
            }
        });
        probe
    }

    /// Whether the last good answer still counts.
    pub fn is_fresh(&self) -> bool {
        let good = self.good.load(Ordering::Acquire);
        good != NEVER && self.clock.now().since(Mono(good - 1)) < self.fresh
    }

    async fn attempt(&self, answers: impl Future<Output = bool>) {
        let began = self.clock.now();
        let good = tokio::select! {
            biased;
            good = answers => good,
            () = self.clock.sleep(self.fresh) => false,
        };
        if good {
            self.good.store(began.0.saturating_add(1), Ordering::Release);
        }
    }
}

async fn unfenced(store: &Store, (name, value): &(&'static str, String)) -> bool {
    match store.agree(name, value).await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "the store's probe failed");
            false
        }
    }
}

async fn fenced(store: &Store, fence: &Fence) -> bool {
    let Ok(room) = RoomId::new("tenure/probe/none") else { return false };
    let id = WorkId { room, job: "probe".into(), key: "none".into() };
    let written = match store.retry(fence, &id).await {
        // The fence stood, and there was nothing to do.
        Ok(()) | Err(Error::Conflict(_)) => true,
        Err(error) => {
            tracing::debug!(%error, "the store's probe failed");
            false
        }
    };
    written
        && store.claim(fence.key()).await.is_ok_and(|claim| {
            claim.is_some_and(|claim| claim.holder.as_ref() == Some(fence.incarnation()) && claim.term == fence.term())
        })
}

#[cfg(test)]
mod tests {
    use tenure_shared::{IncarnationId, ShardId, Term};

    use super::*;
    use crate::{
        runtime::{Shutdown, Wall},
        store::{Key, MemberInfo, memory},
    };

    fn info() -> MemberInfo {
        MemberInfo {
            node: "n".into(),
            roles: vec!["room".into()],
            version: "1".into(),
            revision: 0,
            link: String::new(),
            public_url: String::new(),
            zone_data: String::new(),
        }
    }

    #[tokio::test]
    async fn an_answer_counts_for_a_while_and_only_under_the_fence() {
        const TTL: Duration = Duration::from_secs(3);
        let (clock, hand) = Clock::manual(Wall(1_800_000_000_000_000));
        let store = memory(clock.clone());
        let me = IncarnationId::new("n#1").expect("valid");
        let key = Key::shard(ShardId(0));
        store.register(&me, info(), Duration::from_secs(600)).await.expect("registered");
        let fence = store.acquire(&key, &me, None, Term(0)).await.expect("granted");

        let tasks = Tasks::new(Shutdown::new());
        let probe = Probe { clock, fresh: TTL, good: Arc::default() };
        assert!(!probe.is_fresh(), "nothing was asked yet");
        probe.attempt(fenced(&store, &fence)).await;
        assert!(probe.is_fresh());
        hand.advance(TTL / 2);
        assert!(probe.is_fresh());
        hand.advance(TTL / 2);
        assert!(!probe.is_fresh(), "an old answer proves nothing");

        probe.attempt(fenced(&store, &fence)).await;
        assert!(probe.is_fresh());
        hand.advance(TTL);
        store.release(&fence).await.expect("released");
        probe.attempt(fenced(&store, &fence)).await;
        assert!(!probe.is_fresh(), "the store answers, but the fence is not the node's any more");

        store.agree("shards", "4").await.expect("agreed");
        probe.attempt(unfenced(&store, &("shards", "5".to_owned()))).await;
        assert!(!probe.is_fresh(), "a refusal is no good answer");
        probe.attempt(unfenced(&store, &("shards", "4".to_owned()))).await;
        assert!(probe.is_fresh(), "a node without a shard writes what is agreed on");

        hand.advance(TTL);
        let (every, agreed) = (TTL / 3, ("shards", "4".to_owned()));
        let running = Probe::start(store.clone(), probe.clock.clone(), &tasks, every, TTL, agreed, || None);
        while !running.is_fresh() {
            tokio::task::yield_now().await;
        }
        tasks.shutdown().stop();
        assert!(tasks.wait(Duration::from_secs(10)).await);
    }
}
