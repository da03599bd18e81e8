//! Players who ever had a seat here, with the time they were last present: the audience of rewards.

use std::{collections::BTreeMap, time::Duration};

use tenure_shared::PlayerId;

use crate::runtime::Wall;

/// At most so many players; the one that was away the longest makes room.
pub(super) struct Known {
    limit: usize,
    last_present: BTreeMap<PlayerId, Wall>,
}

impl Known {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), last_present: BTreeMap::new() }
    }

    /// The player is present now.
    pub(super) fn touch(&mut self, player: &PlayerId, now: Wall) {
        if let Some(last) = self.last_present.get_mut(player) {
            *last = now.max(*last);
            return;
        }
        if self.last_present.len() >= self.limit
            && let Some(oldest) =
                self.last_present.iter().min_by_key(|(_, last)| **last).map(|(player, _)| player.clone())
        {
            self.last_present.remove(&oldest);
            metrics::counter!("tenure_room_known_forgotten_total").increment(1);
        }
        self.last_present.insert(player.clone(), now);
    }

    /// When a player was present last.
    pub(super) fn last(&self, player: &PlayerId) -> Option<Wall> {
        self.last_present.get(player).copied()
    }

    /// All, by id.
    pub(super) fn all(&self) -> impl Iterator<Item = (&PlayerId, Wall)> {
        self.last_present.iter().map(|(player, last)| (player, *last))
    }

    /// Those who were present within this time, by id.
    pub(super) fn active(&self, now: Wall, within: Duration) -> impl Iterator<Item = &PlayerId> {
        let since = now.0.saturating_sub(u64::try_from(within.as_micros()).unwrap_or(u64::MAX));
        self.last_present.iter().filter(move |(_, last)| last.0 >= since).map(|(player, _)| player)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_away_makes_room() {
        let player = |n: u64| PlayerId::new(&format!("p{n}")).expect("valid");
        let mut known = Known::new(3);
        for n in 0..3 {
            known.touch(&player(n), Wall(n * 1_000_000));
        }
        known.touch(&player(0), Wall(5_000_000));
        known.touch(&player(3), Wall(6_000_000));
        assert_eq!(known.all().map(|(p, _)| p.clone()).collect::<Vec<_>>(), [player(0), player(2), player(3)]);
        let active = known.active(Wall(6_000_000), Duration::from_secs(1)).cloned().collect::<Vec<_>>();
        assert_eq!(active, [player(0), player(3)]);
    }
}
