//! Players who had a seat here, with the time they were last present: the audience of rewards, and who missed what. The list is in every
//! checkpoint, so a room remembers the newest few, and more only while a schedule asks about them.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use tenure_shared::PlayerId;

use crate::runtime::Wall;

/// Whom a room remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// The newest few: enough to show them what they missed.
    Newest,
    /// Those who were present within this time, too.
    Within(Duration),
    /// Everybody, up to the bounds.
    Everybody,
}

impl Remember {
    /// What is enough for both.
    #[must_use]
    pub fn and(self, other: Remember) -> Remember {
        match (self, other) {
            (Remember::Everybody, _) | (_, Remember::Everybody) => Remember::Everybody,
            (Remember::Within(one), Remember::Within(other)) => Remember::Within(one.max(other)),
            (Remember::Newest, some) | (some, Remember::Newest) => some,
        }
    }
}

/// The newest few.
const NEWEST: usize = 200;
/// Most bytes of a checkpoint that go to them: an eighth of the largest one, by default.
const KNOWN_BYTES: usize = 128 * 1024;
/// What a player takes in a checkpoint besides his id, at most.
const ENTRY_BYTES: usize = 16;

/// At most `limit` players and [`KNOWN_BYTES`]; the one that was away the longest makes room.
pub(super) struct Known {
    limit: usize,
    remember: Remember,
    bytes: usize,
    last_present: BTreeMap<PlayerId, Wall>,
}

fn size(player: &PlayerId) -> usize {
    player.as_str().len() + ENTRY_BYTES
}

impl Known {
    /// It remembers everybody, until it is told whom schedules ask about.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), remember: Remember::Everybody, bytes: 0, last_present: BTreeMap::new() }
    }

    /// Remembers these from now on, and forgets all others.
    pub(super) fn remember(&mut self, remember: Remember, now: Wall) {
        self.remember = remember;
        self.forget(now);
    }

    /// Forgets those whom no schedule asks about any more, but for the newest few.
    pub(super) fn forget(&mut self, now: Wall) {
        let since = match self.remember {
            Remember::Everybody => return,
            Remember::Newest => Wall(u64::MAX),
            Remember::Within(within) => since(now, within),
        };
        if self.last_present.len() <= NEWEST {
            return;
        }
        let mut times: Vec<_> = self.last_present.values().map(|last| Reverse(*last)).collect();
        let (_, Reverse(newest), _) = times.select_nth_unstable(NEWEST - 1);
        let keep = since.min(*newest);
        self.last_present.retain(|_, last| *last >= keep);
        self.bytes = self.last_present.keys().map(size).sum();
    }

    /// The player is present now.
    pub(super) fn touch(&mut self, player: &PlayerId, now: Wall) {
        if let Some(last) = self.last_present.get_mut(player) {
            *last = now.max(*last);
            return;
        }
        let limit = if self.remember == Remember::Newest { self.limit.min(NEWEST) } else { self.limit };
        self.bytes += size(player);
        while self.last_present.len() >= limit || (self.bytes > KNOWN_BYTES && !self.last_present.is_empty()) {
            let oldest = self.last_present.iter().min_by_key(|(_, last)| **last).map(|(player, _)| player.clone());
            let Some(oldest) = oldest else { break };
            self.last_present.remove(&oldest);
            self.bytes -= size(&oldest);
            if self.remember != Remember::Newest {
                metrics::counter!("tenure_room_known_forgotten_total").increment(1);
            }
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
        let since = since(now, within);
        self.last_present.iter().filter(move |(_, last)| **last >= since).map(|(player, _)| player)
    }
}

fn since(now: Wall, within: Duration) -> Wall {
    Wall(now.0.saturating_sub(u64::try_from(within.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(n: u64) -> PlayerId {
        PlayerId::new(&format!("p{n}")).expect("valid")
    }

    fn all(known: &Known) -> Vec<PlayerId> {
        known.all().map(|(player, _)| player.clone()).collect()
    }

    #[test]
    fn the_longest_away_makes_room() {
        let mut known = Known::new(3);
        for n in 0..3 {
            known.touch(&player(n), Wall(n * 1_000_000));
        }
        known.touch(&player(0), Wall(5_000_000));
        known.touch(&player(3), Wall(6_000_000));
        assert_eq!(all(&known), [player(0), player(2), player(3)]);
        let active = known.active(Wall(6_000_000), Duration::from_secs(1)).cloned().collect::<Vec<_>>();
        assert_eq!(active, [player(0), player(3)]);
    }

    #[test]
    fn more_than_the_newest_few_only_while_a_schedule_asks() {
        const SECOND: u64 = 1_000_000;
        let count = NEWEST as u64 + 100;
        let full = |remember: Remember| {
            let mut known = Known::new(10_000);
            (0..count).for_each(|n| known.touch(&player(n), Wall(n * SECOND)));
            known.remember(remember, Wall(count * SECOND));
            known
        };
        assert_eq!(all(&full(Remember::Everybody)).len() as u64, count);
        let mut few = full(Remember::Newest);
        assert_eq!(all(&few).len(), NEWEST);
        few.touch(&player(count), Wall(count * SECOND));
        assert_eq!(
            (all(&few).len(), few.last(&player(count)), few.last(&player(99))),
            (NEWEST, Some(Wall(count * SECOND)), None)
        );
        let long = Remember::Within(Duration::from_secs(NEWEST as u64 + 50));
        assert_eq!(all(&full(long)).len(), NEWEST + 50);
        assert_eq!(all(&full(Remember::Within(Duration::from_secs(5)))).len(), NEWEST);
        assert_eq!(long.and(Remember::Within(Duration::from_secs(5))), long);
        assert_eq!(long.and(Remember::Everybody), Remember::Everybody);
        assert_eq!(Remember::Newest.and(long), long);
    }

    #[test]
    fn they_take_a_bounded_part_of_a_checkpoint() {
        let mut known = Known::new(usize::MAX);
        let guest = |n: u64| PlayerId::new(&format!("{n:064}")).expect("valid");
        for n in 0..10_000 {
            known.touch(&guest(n), Wall(n));
        }
        let bytes: usize = known.all().map(|(player, _)| player.as_str().len() + ENTRY_BYTES).sum();
        assert!(bytes <= KNOWN_BYTES && bytes > KNOWN_BYTES - 100, "{bytes}");
        assert_eq!(known.all().last().map(|(player, _)| player.clone()), Some(guest(9_999)), "the newest stay");
    }
}
