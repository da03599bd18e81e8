//! What is known of the entries of a shard's outbox, pure: which are open, which were trimmed, which are put off, which are being kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tenure_shared::{PlayerId, RoomId};

use crate::{room::world::GrantResult, store::OutboxEntry};

/// All of it is bounded by the entries that the store keeps.
#[derive(Default)]
pub(super) struct Entries {
    /// Positions not trimmed yet, and the rooms that decided them.
    open: BTreeMap<u64, RoomId>,
    of_room: HashMap<RoomId, usize>,
    /// Positions trimmed since the page at hand was asked for: its rooms have their answers, also when the page still names them.
    trimmed: BTreeSet<u64>,
    /// Positions that could not be applied, by player: later ones of the player wait behind them.
    put_off: BTreeMap<PlayerId, BTreeSet<u64>>,
    /// Positions whose rows could not be read.
    unread: BTreeSet<u64>,
    /// Grants that their ledger refused, until they are kept as work: then their room hears of it.
    keeping: HashMap<u64, GrantResult>,
}

impl Entries {
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(super) fn depth_of(&self, is: impl Fn(&RoomId) -> bool) -> usize {
        self.of_room.iter().filter(|(room, _)| is(room)).map(|(_, count)| count).sum()
    }

    /// Whether there were any.
    pub(super) fn open(&mut self, granted: impl Iterator<Item = (RoomId, u64)>) -> bool {
        let mut any = false;
        for (room, position) in granted {
            any = true;
            if self.open.insert(position, room.clone()).is_none() {
                *self.of_room.entry(room).or_default() += 1;
            }
        }
        any
    }

    pub(super) fn trim(&mut self, positions: &[u64]) {
        for position in positions {
            self.trimmed.insert(*position);
            let Some(room) = self.open.remove(position) else { continue };
            if let Some(count) = self.of_room.get_mut(&room) {
                *count -= 1;
                if *count == 0 {
                    self.of_room.remove(&room);
                }
            }
        }
    }

    pub(super) fn begin_page(&mut self) {
        self.trimmed.clear();
    }

    pub(super) fn was_trimmed(&self, position: u64) -> bool {
        self.trimmed.contains(&position)
    }

    /// What was read.
    pub(super) fn found(&mut self, page: &[OutboxEntry]) {
        let new: Vec<_> = page.iter().filter(|entry| !self.trimmed.contains(&entry.position)).collect();
        self.open(new.into_iter().map(|entry| (entry.room.clone(), entry.position)));
    }

    /// The first position behind `after` that is known to be open, or the next number.
    pub(super) fn next_after(&self, after: u64) -> u64 {
        self.open.range(after + 1..).next().map_or(after + 1, |(position, _)| *position)
    }

    /// An entry is tried again later; `None`: it cannot even be read.
    pub(super) fn put_off(&mut self, position: u64, player: Option<PlayerId>) {
        match player {
            Some(player) => self.put_off.entry(player).or_default().insert(position),
            None => self.unread.insert(position),
        };
    }

    pub(super) fn is_put_off(&self, player: &PlayerId) -> bool {
        self.put_off.contains_key(player)
    }

    pub(super) fn put_off_count(&self) -> usize {
        self.unread.len() + self.put_off.values().map(BTreeSet::len).sum::<usize>()
    }

    pub(super) fn put_off_queues(&self) -> Vec<Vec<u64>> {
        let unread = self.unread.iter().map(|position| vec![*position]);
        unread.chain(self.put_off.values().map(|queue| queue.iter().copied().collect())).collect()
    }

    /// An entry that was put off is through.
    pub(super) fn through(&mut self, position: u64) {
        self.unread.remove(&position);
        self.put_off.retain(|_, queue| {
            queue.remove(&position);
            !queue.is_empty()
        });
    }

    /// Everything is read from the start.
    pub(super) fn forget_put_off(&mut self) {
        self.put_off.clear();
        self.unread.clear();
    }

    pub(super) fn keep(&mut self, position: u64, result: GrantResult) {
        self.keeping.insert(position, result);
    }

    pub(super) fn take_kept(&mut self, position: u64) -> Option<GrantResult> {
        self.keeping.remove(&position)
    }
}
