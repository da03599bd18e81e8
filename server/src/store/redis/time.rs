//! The store's time where a server's clock is behind it: it goes on with the monotonic clocks of those who use it (C23).

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    runtime::{Mono, Wall},
    store::clock::onward,
};

/// A server whose clock is further behind than this was put back, or took the place of one whose clock was ahead. Less than that is a
/// difference of two clocks, and the store's time waits for it.
const BEHIND: Duration = Duration::from_secs(5);

/// The highest time of the store that this process has heard of, and when. Were it only the highest time stored, a clock that is put back by
/// two days would stop it for two days: nothing would lapse, and who begins then would find nothing due.
#[derive(Debug, Default)]
pub(super) struct StoreTime(Mutex<Option<(Mono, Wall)>>);

impl StoreTime {
    /// The time of a call, given the server's clock.
    pub(super) fn of(&self, server: Wall, now: Mono) -> Wall {
        let known = self.0.lock().map(|(at, wall)| wall.plus(onward(now.since(at))));
        known.filter(|known| server.plus(BEHIND) < *known).unwrap_or(server)
    }

    /// An answer had this time on it. Heard later than it was said: what goes on from it is late, never early.
    pub(super) fn heard(&self, at: Wall, now: Mono) {
        let mut highest = self.0.lock();
        if highest.is_none_or(|(then, wall)| at > wall.plus(onward(now.since(then)))) {
            *highest = Some((now, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Wall = Wall(1_764_446_400_000_000);

    fn at(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    fn later(ms: u64) -> Wall {
        START.plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_server_that_is_right_or_a_little_behind_is_followed() {
        let time = StoreTime::default();
        assert_eq!(time.of(START, at(0)), START);
        time.heard(START, at(0));
        assert_eq!(time.of(later(1_000), at(1_000)), later(1_000));
        assert_eq!(time.of(later(2_000), at(6_000)), later(2_000), "the model keeps what was stored");
        assert_eq!(time.of(later(3_600_000), at(7_000)), later(3_600_000), "put forward");
    }

    #[test]
    fn the_time_goes_on_when_a_server_is_put_back() {
        let time = StoreTime::default();
        let back = |ms: u64| Wall(later(ms).0 - 2 * 86_400_000_000);
        time.heard(START, at(0));
        for second in 1..10_000_u64 {
            let now = time.of(back(second * 1_000), at(second * 1_000));
            assert!(now <= later(second * 1_000) && now >= later(second * 900), "{second}: {now:?}");
            // Others' answers are heard too, some of them late.
            time.heard(now, at(second * 1_000 + 7));
        }
        // At last the clock has caught up.
        assert_eq!(time.of(later(20_000_000), at(20_000_000)), later(20_000_000));
    }
}
