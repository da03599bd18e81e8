//! The store's clock: it follows the wall clock forward and never goes back.

use std::time::Duration;

use crate::runtime::{Clock, Mono, Wall};

/// Gives store time. When the wall clock is stepped back it goes on with the speed of the monotonic clock, so that leases still lapse and
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
        let passed: Duration = before.since(self.last.0);
        let now = wall.max(self.last.1.plus(passed));
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
        assert_eq!(store.now(), start.plus(Duration::from_secs(60)));
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
        assert_eq!(store.now(), stored.plus(Duration::from_secs(1)));
    }
}
