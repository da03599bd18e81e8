//! Which items of game code, and which charges that it is owed, a room has in the store, pure: what would go beyond its bound is refused,
//! before it could make the store refuse a commit.

use std::collections::HashSet;

use super::config::{GAME_ITEMS, OWED_CHARGES};
use crate::{
    plugin::RoomKind,
    store::{Ignored, OWED_CHARGE, WorkId, WorkItem},
};

/// The identities of a room's items, hashed: a loaded room remembers sixteen bytes of an item that is far away. Two of one hash count as one,
/// which makes the bound of one room in billions an item larger.
#[derive(Debug, Default)]
pub(in crate::room) struct Items {
    game: HashSet<u64>,
    owed: HashSet<u64>,
}

/// Whether it is one of game code: its names have no slash; `schedule/...` and `tenure/...` are the framework's own.
pub(in crate::room) fn is_of_game(id: &WorkId) -> bool {
    !id.job.contains('/')
}

fn name(id: &WorkId) -> u64 {
    let hash = |text: &str, seed| xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), seed);
    hash(&id.key, hash(&id.job, 0))
}

impl Items {
    /// What the store has.
    pub(in crate::room) fn load(&mut self, items: &[WorkItem]) {
        *self = Self::default();
        for item in items {
            if let Some((of, _)) = self.of(&item.id) {
                of.insert(name(&item.id));
            }
        }
    }

    /// Those that an item is one of, and how many there may be. The world has counted the charges that it owes.
    fn of(&mut self, id: &WorkId) -> Option<(&mut HashSet<u64>, usize)> {
        match id {
            id if is_of_game(id) => Some((&mut self.game, GAME_ITEMS)),
            id if id.job.starts_with(OWED_CHARGE) => Some((&mut self.owed, usize::MAX)),
            _ => None,
        }
    }

    /// How many more charges may wait as work.
    pub(in crate::room) fn owed_places(&self) -> usize {
        OWED_CHARGES.saturating_sub(self.owed.len())
    }

    /// These are done, or taken back.
    pub(in crate::room) fn gone<'a>(&mut self, ids: impl Iterator<Item = &'a WorkId>) {
        for id in ids {
            if let Some((of, _)) = self.of(id) {
                of.remove(&name(id));
            }
        }
    }

    /// Takes out of `scheduled` what the room has no place for, and gives it.
    pub(in crate::room) fn admit(&mut self, scheduled: &mut Vec<WorkItem>) -> Vec<WorkId> {
        let mut refused = Vec::new();
        scheduled.retain(|item| {
            let Some((of, most)) = self.of(&item.id) else { return true };
            let name = name(&item.id);
            if of.len() >= most && !of.contains(&name) {
                refused.push(item.id.clone());
                return false;
            }
            of.insert(name);
            true
        });
        refused
    }
}

/// Whether a kind has a handler for due items of this job: one of the game's, or a charge that is owed. Schedules and the framework's own
/// need none.
pub(in crate::room) fn takes(kind: &RoomKind, job: &str) -> bool {
    match job.strip_prefix(OWED_CHARGE) {
        Some(source) => kind.has_charge(source),
        None => job.contains('/') || kind.has_job(job),
    }
}

/// Said of an item for which there is no place.
pub(in crate::room) fn too_many(id: &WorkId) -> String {
    format!("{} {:?}: more than {GAME_ITEMS} items of this room wait, so it is refused", id.job, id.key)
}

/// Said of an item that game code scheduled in vain.
pub(in crate::room) fn in_vain(one: &Ignored) -> String {
    let Ignored { id, parked } = one;
    let why = if *parked {
        "is parked, and waits for a person"
    } else {
        "was done, and a key is done once: take one that was never used"
    };
    format!("job {:?} {:?} was scheduled in vain: it {why}", id.job, id.key)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_shared::RoomId;

    use super::*;
    use crate::runtime::Wall;

    fn item(job: &str, key: usize) -> WorkItem {
        let room = RoomId::from_parts("lab", "eu", "a").expect("valid");
        let id = WorkId { room, job: job.into(), key: key.to_string().into() };
        WorkItem { id, due: Wall(0), attempt: 0, parked: None, payload: Bytes::new() }
    }

    #[test]
    fn what_has_no_place_is_refused_and_nothing_else() {
        let mut items = Items::default();
        let stored: Vec<_> = (0..GAME_ITEMS - 1).map(|n| item("job", n)).chain([item("schedule/x", 1)]).collect();
        items.load(&stored);
        let mut scheduled =
            vec![item("job", 0), item("job", GAME_ITEMS), item("job", GAME_ITEMS + 1), item("schedule/x", 2)];
        let refused = items.admit(&mut scheduled);
        assert_eq!(refused, [item("job", GAME_ITEMS + 1).id]);
        assert_eq!(
            scheduled,
            [item("job", 0), item("job", GAME_ITEMS), item("schedule/x", 2)],
            "replaced, new, not the game's"
        );
        items.gone([item("job", 0).id, item("job", 0).id].iter());
        assert_eq!(items.admit(&mut vec![item("job", GAME_ITEMS + 1)]), [], "one is done");
        assert_eq!(items.admit(&mut vec![item("job", 0)]).len(), 1);
        // Charges that are owed have a bound of their own.
        let charge = format!("{OWED_CHARGE}shop");
        let mut owed: Vec<_> = (1..OWED_CHARGES).map(|n| item(&charge, n)).collect();
        assert_eq!((items.admit(&mut owed), items.owed_places()), (vec![], 1));
        items.gone([item(&charge, 1).id].iter());
        assert_eq!(items.owed_places(), 2);
    }
}
