//! Rate limits: one number per limit and connection (GCRA), and creates per player in a bounded map.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tenure_shared::PlayerId;

use crate::runtime::Mono;

/// Players whose creates are counted at the same time; more are refused until old ones are forgotten.
const PLAYERS: usize = 16_384;

/// So many units per second, and so many at once after a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gcra {
    /// Nanoseconds per unit.
    every: u64,
    /// Nanoseconds that may be used in advance.
    burst: u64,
    /// Theoretical arrival time of the next unit.
    next: u64,
}

impl Gcra {
    pub(super) fn new(per: Duration, units: u64, burst: u64) -> Self {
        let every = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX) / units.max(1);
        Self { every: every.max(1), burst: every.max(1).saturating_mul(burst.max(1)), next: 0 }
    }

    /// Takes `units`.
    ///
    /// # Errors
    /// The time after which they could be taken; nothing was taken then.
    pub(super) fn take(&mut self, now: Mono, units: u64) -> Result<(), Duration> {
        let next = self.next.max(now.0).saturating_add(self.every.saturating_mul(units));
        let most = now.0.saturating_add(self.burst);
        if next > most {
            return Err(Duration::from_nanos(next - most));
        }
        self.next = next;
        Ok(())
    }

    /// Takes `units` even beyond the limit, and says whether that was beyond: for what has happened already.
    pub(super) fn note(&mut self, now: Mono, units: u64) -> bool {
        self.next = self.next.max(now.0).saturating_add(self.every.saturating_mul(units));
        self.next > now.0.saturating_add(self.burst)
    }

    fn idle(&self, now: Mono) -> bool {
        self.next <= now.0
    }
}

/// How many rooms each player may create.
pub(super) struct Creates {
    per_minute: u64,
    players: Mutex<HashMap<PlayerId, Gcra>>,
}

impl Creates {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute), players: Mutex::new(HashMap::new()) }
    }

    /// Counts a create.
    ///
    /// # Errors
    /// The time after which the player may create again.
    pub(super) fn take(&self, player: &PlayerId, now: Mono) -> Result<(), Duration> {
        let minute = Duration::from_secs(60);
        let mut players = self.players.lock();
        if let Some(known) = players.get_mut(player) {
            return known.take(now, 1);
        }
        if players.len() >= PLAYERS {
            players.retain(|_, gcra| !gcra.idle(now));
            if players.len() >= PLAYERS {
                return Err(minute / u32::try_from(self.per_minute.max(1)).unwrap_or(u32::MAX));
            }
        }
        let mut fresh = Gcra::new(minute, self.per_minute, self.per_minute);
        let taken = fresh.take(now, 1);
        players.insert(player.clone(), fresh);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let mut gcra = Gcra::new(Duration::from_secs(1), 60, 120);
        let start = Mono(5_000_000_000);
        for n in 0..120 {
            assert_eq!(gcra.take(start, 1), Ok(()), "{n}");
        }
        let wait = gcra.take(start, 1).expect_err("over the burst");
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(17), "{wait:?}");
        assert_eq!(gcra.take(start.plus(wait), 1), Ok(()));
        assert!(gcra.take(start.plus(wait), 1).is_err());
        assert_eq!(gcra.take(start.plus(Duration::from_secs(10)), 120), Ok(()));
    }

    #[test]
    fn noting_counts_what_is_beyond() {
        let mut bytes = Gcra::new(Duration::from_secs(1), 1_000, 1_000);
        assert!(!bytes.note(Mono(1), 1_000));
        assert!(bytes.note(Mono(1), 1));
        assert!(!bytes.note(Mono(2_000_000_001), 1_000));
    }

    #[test]
    fn creates_are_counted_per_player() {
        let creates = Creates::new(6);
        let (a, b) = (PlayerId::new("a").expect("id"), PlayerId::new("b").expect("id"));
        for _ in 0..6 {
            assert!(creates.take(&a, Mono(0)).is_ok());
        }
        let wait = creates.take(&a, Mono(0)).expect_err("the seventh");
        assert_eq!(wait.as_secs(), 10);
        assert!(creates.take(&b, Mono(0)).is_ok());
        assert!(creates.take(&a, Mono(0).plus(wait)).is_ok());
    }

    #[test]
    fn the_map_of_players_is_bounded() {
        let creates = Creates::new(1);
        for n in 0..PLAYERS + 5 {
            let player = PlayerId::new(&format!("p{n}")).expect("id");
            assert_eq!(creates.take(&player, Mono(0)).is_ok(), n < PLAYERS);
        }
        assert!(creates.take(&PlayerId::new("late").expect("id"), Mono(0).plus(Duration::from_secs(61))).is_ok());
        assert!(creates.players.lock().len() <= PLAYERS);
    }
}
