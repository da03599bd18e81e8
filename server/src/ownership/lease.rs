//! The lease as its owner counts it: from before the heartbeat was sent, on the monotonic clock, less a margin (C26).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::runtime::Mono;

/// Until when an owner may act after a heartbeat that it sent at `sent` was accepted.
///
/// `sent` is read before sending: however long the answer took, the store counted from later.
pub(super) fn valid_until(sent: Mono, ttl: Duration, margin: Duration) -> Mono {
    sent.plus(ttl.saturating_sub(margin))
}

/// The published end of the lease; read without a lock before every tick.
#[derive(Debug, Default)]
pub(super) struct Lease(AtomicU64);

impl Lease {
    /// Whether the owner may act at `now`. Nobody has to say that a lease lapsed: it does by itself, also in a process that was
    /// stopped and does not know it (C26).
    pub(super) fn holds(&self, now: Mono) -> bool {
        now.0 < self.0.load(Ordering::Acquire)
    }

    /// The end; `Mono(0)` for none.
    pub(super) fn until(&self) -> Mono {
        Mono(self.0.load(Ordering::Acquire))
    }

    /// Sets the end; `Mono(0)` for none.
    pub(super) fn set(&self, until: Mono) {
        self.0.store(until.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_a_margin_before_the_store_thinks_so() {
        let (ttl, margin) = (Duration::from_millis(3_000), Duration::from_millis(500));
        let sent = Mono(7_000_000_000);
        let lease = Lease::default();
        assert!(!lease.holds(Mono(0)));
        lease.set(valid_until(sent, ttl, margin));
        assert!(lease.holds(sent.plus(Duration::from_millis(2_499))));
        assert!(!lease.holds(sent.plus(Duration::from_millis(2_500))));
        lease.set(valid_until(sent, margin, ttl));
        assert!(!lease.holds(sent), "a margin above the lease leaves nothing, and does not wrap");
        lease.set(Mono(0));
        assert!(!lease.holds(Mono(0)));
    }
}
