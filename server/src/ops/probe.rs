//! Whether the store really takes writes and gives them back: for readiness a proof of it, every few seconds.
//!
//! The proof is a write that leaves a row (an empty commit under a fence, or one that a room just made), and a read. A ping would stay
//! green with a full or read-only disk, a lost script or a fence that is no longer ours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    runtime::{Clock, Mono, Tasks, tasks::Kind},
    store::BoxFuture,
};

/// Never yet.
const NEVER: u64 = 0;

/// The last good answer; cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe {
    clock: Clock,
    fresh: Duration,
    /// When the last write that went through began, on the monotonic clock, plus 1.
    good: Arc<AtomicU64>,
}

impl Probe {
    /// Asks for a proof every `every` until the shutdown. `prove` says when a write began that the store has taken and that was followed by
    /// a good read, or `None`; what takes longer than `fresh` is given up. A write counts for `fresh` from its beginning.
    pub fn start(
        clock: Clock,
        tasks: &Tasks,
        every: Duration,
        fresh: Duration,
        prove: impl Fn() -> BoxFuture<'static, Option<Mono>> + Send + 'static,
    ) -> Self {
        let probe = Self { clock, fresh, good: Arc::new(AtomicU64::new(NEVER)) };
        let (this, shutdown) = (probe.clone(), tasks.shutdown().clone());
        tasks.spawn("store-probe", Kind::Essential, async move {
            loop {
                let attempt = this.attempt(prove());
                tokio::select! {
                    biased;
                    () = shutdown.stopped() => return,
                    () = attempt => {}
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

    /// Whether the last good write still counts.
    pub fn is_fresh(&self) -> bool {
        let good = self.good.load(Ordering::Acquire);
        good != NEVER && self.clock.now().since(Mono(good - 1)) < self.fresh
    }

    async fn attempt(&self, proof: BoxFuture<'static, Option<Mono>>) {
        let proven = tokio::select! {
            biased;
            proven = proof => proven,
            () = self.clock.sleep(self.fresh) => None,
        };
        match proven {
            Some(began) => drop(self.good.fetch_max(began.0.saturating_add(1), Ordering::AcqRel)),
            None => tracing::debug!("the store did not take a write"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Shutdown, Wall};

    #[tokio::test]
    async fn a_write_counts_for_a_while_from_its_beginning() {
        const TTL: Duration = Duration::from_secs(3);
        let (clock, hand) = Clock::manual(Wall(1_800_000_000_000_000));
        let tasks = Tasks::new(Shutdown::new());
        let probe = Probe::start(clock.clone(), &tasks, TTL / 3, TTL, || Box::pin(std::future::ready(None)));
        assert!(!probe.is_fresh(), "nothing is proven yet");
        let began = clock.now();
        hand.advance(TTL / 2);
        probe.attempt(Box::pin(std::future::ready(Some(began)))).await;
        assert!(probe.is_fresh());
        probe.attempt(Box::pin(std::future::ready(None))).await;
        assert!(probe.is_fresh(), "one refusal is not the end");
        hand.advance(TTL / 2);
        assert!(!probe.is_fresh(), "an old write proves nothing");
        probe.attempt(Box::pin(std::future::ready(Some(clock.now())))).await;
        probe.attempt(Box::pin(std::future::ready(Some(began)))).await;
        assert!(probe.is_fresh(), "a late answer takes nothing back");

        let hangs = probe.attempt(Box::pin(std::future::pending()));
        let (waited, ()) = tokio::join!(hangs, async {
            tokio::task::yield_now().await;
            hand.advance(TTL);
        });
        assert_eq!((waited, probe.is_fresh()), ((), false), "an answer that does not come is given up");
        tasks.shutdown().stop();
        assert!(tasks.wait(Duration::from_secs(10)).await);
    }
}
