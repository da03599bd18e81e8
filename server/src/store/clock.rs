//! The store's clock: it follows the wall clock forward and never goes back.

use std::time::Duration;

use crate::runtime::{Clock, Mono, Wall};

/// A time that is ahead of the clock on the wall passes more slowly, by one part in so many, until the clock has caught up with it: an hour
/// in sixteen. Leases and schedules are that much late, nothing is early.
const SLOWER: u32 = 16;

/// How far the store's time goes on while that much passes, and no clock on a wall is ahead of it.
pub(super) fn onward(passed: Duration) -> Duration {
    passed - passed / SLOWER
}

/// Gives store time. When the wall clock is stepped back it goes on with the monotonic clock, so that leases still lapse and
/// due work still comes due (docs/invariants.md C23).
#[derive(Debug)]
pub(super) struct StoreClock {
    clock: Clock,
    last: (Mono, Wall),
}

impl StoreClock {
    /// A clock that is never below `floor`, the highest time stored.
    pub(super) fn new(clock: Clock, floor: Wall) -> Self {
        let last = (clock.now(), floor.max(clock.wall()));
        Self { clock, last }
    }

    /// Never below what it gave before.
    pub(super) fn now(&mut self) -> Wall {
        let before = self.clock.now();
        let wall = self.clock.wall();
        let now = wall.max(self.last.1.plus(onward(before.since(self.last.0))));
        // Read after the wall clock: an interruption between the readings makes the next answer late, never early.
        self.last = (self.clock.now(), now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_after_a_step_back_and_follows_a_step_forward() {
        let start = Wall(1_764_446_400_000_000);
        let (clock, hand) = Clock::manual(start);
        let mut store = StoreClock::new(clock, Wall(0));
        assert_eq!(store.now(), start);
        hand.set_wall(Wall(start.0 - 2 * 86_400_000_000));
        assert_eq!(store.now(), start);
        hand.advance(Duration::from_secs(60));
        assert_eq!(store.now(), start.plus(onward(Duration::from_secs(60))));
        assert!(onward(Duration::from_secs(60)) > Duration::from_secs(56));
        hand.set_wall(start.plus(Duration::from_secs(3_600)));
        assert_eq!(store.now(), start.plus(Duration::from_secs(3_600)));
    }

    #[test]
    fn it_starts_at_the_highest_time_stored() {
        let start = Wall(1_764_446_400_000_000);
        let (clock, hand) = Clock::manual(start);
        let stored = start.plus(Duration::from_secs(3_600));
        let mut store = StoreClock::new(clock, stored);
        hand.advance(Duration::from_secs(1));
        assert_eq!(store.now(), stored.plus(onward(Duration::from_secs(1))));
        hand.advance(Duration::from_secs(3_600 * u64::from(SLOWER)));
        assert_eq!(
            store.now(),
            start.plus(Duration::from_secs(3_600 * u64::from(SLOWER) + 1)),
            "the clock has caught up"
        );
    }
}
