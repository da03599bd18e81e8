//! Which items of game code a room has in the store, pure: what would go beyond its bound is refused to the game alone, before it could make
//! the store refuse a commit.

use std::collections::HashSet;

use super::config::GAME_ITEMS;
use crate::store::{WorkId, WorkItem};

/// The identities of a room's items of game code, hashed: a loaded room remembers sixteen bytes of an item that is far away. Two of one hash
/// count as one, which makes the bound of one room in billions an item larger. An identity that was done and is scheduled again counts,
/// although the store ignores it: until the room is loaded anew.
#[derive(Debug, Default)]
pub(super) struct Items(HashSet<u64>);

/// Names of game code have no slash; `schedule/...` and `tenure/...` are the framework's own.
fn name(id: &WorkId) -> Option<u64> {
    let hash = |text: &str, seed| xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), seed);
    (!id.job.contains('/')).then(|| hash(&id.key, hash(&id.job, 0)))
}

impl Items {
    /// What the store has.
    pub(super) fn load(&mut self, items: &[WorkItem]) {
        self.0 = items.iter().filter_map(|item| name(&item.id)).collect();
    }

    /// These are done, or taken back.
    pub(super) fn gone<'a>(&mut self, ids: impl Iterator<Item = &'a WorkId>) {
        for name in ids.filter_map(name) {
            self.0.remove(&name);
        }
    }

    /// Takes out of `scheduled` what the room has no place for, and gives it.
    pub(super) fn admit(&mut self, scheduled: &mut Vec<WorkItem>) -> Vec<WorkId> {
        let mut refused = Vec::new();
        scheduled.retain(|item| {
            let Some(name) = name(&item.id) else { return true };
            if self.0.len() >= GAME_ITEMS && !self.0.contains(&name) {
                refused.push(item.id.clone());
                return false;
            }
            self.0.insert(name);
            true
        });
        refused
    }
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
    }
}
