//! What the rooms of this node are now, told to whoever lists the rooms of a region: the coordinators. Only regions that have one are kept.
//!
//! What is told names the term of the room's shard: of two nodes that speak of one room the later owner is right.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_shared::{PlayerId, RoomId, Term};

use super::{RoomHost, core::Host};
use crate::{
    runtime::{Changes, Watcher},
    store::RoomSummary,
};

/// Rooms that are gone and were not told yet, in one region; of more the coordinator hears by reading the store.
const GONE: usize = 20_000;
/// Comings and goings in one room that were not told yet; the oldest are forgotten, and a seat that was kept for one ends by its time.
const COMINGS: usize = 384;
/// What a room costs in a message beside its texts.
const EACH: usize = 256;

/// A room as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomNews {
    /// Which.
    pub room: RoomId,
    /// The term of its shard.
    pub term: Term,
    /// What it says; `None`: it is gone, or may not be found any more.
    pub now: Option<RoomSummary>,
    /// Whether it is stored; else it is being made.
    pub stored: bool,
    /// Who took a seat (true) or gave his up since it was last told, in order.
    pub comings: Vec<(PlayerId, bool)>,
}

impl RoomNews {
    /// About how many bytes it has in a message.
    fn size(&self) -> usize {
        let summary = self.now.as_ref().map_or(0, |now| now.room.as_str().len() + now.metadata.len());
        let comings: usize = self.comings.iter().map(|(player, _)| player.as_str().len() + 4).sum();
        EACH + self.room.as_str().len() + summary + comings
    }
}

/// What is known of the rooms here, by region.
pub(super) struct Bulletin {
    regions: BTreeMap<String, Mutex<Region>>,
    changes: Changes,
}

#[derive(Default)]
struct Region {
    rooms: BTreeMap<RoomId, Listed>,
    changed: BTreeSet<RoomId>,
    gone: BTreeMap<RoomId, Term>,
}

struct Listed {
    summary: RoomSummary,
    stored: bool,
    term: Term,
    comings: Vec<(PlayerId, bool)>,
}

impl Bulletin {
    pub(super) fn new(regions: &[String]) -> Self {
        let regions = regions.iter().map(|region| (region.clone(), Mutex::default())).collect();
        Self { regions, changes: Changes::new() }
    }

    /// What a room says about itself now.
    pub(super) fn note(&self, summary: RoomSummary, stored: bool, term: Term, comings: Vec<(PlayerId, bool)>) {
        let Some(region) = self.regions.get(summary.room.region()) else { return };
        let room = summary.room.clone();
        {
            let region = &mut *region.lock();
            region.gone.remove(&room);
            match region.rooms.get_mut(&room) {
                Some(listed) => {
                    let same = (&listed.summary, listed.stored, listed.term) == (&summary, stored, term);
                    if same && comings.is_empty() {
                        return;
                    }
                    (listed.summary, listed.stored, listed.term) = (summary, stored, term);
                    listed.comings.extend(comings);
                    let over = listed.comings.len().saturating_sub(COMINGS);
                    listed.comings.drain(..over);
                }
                None => drop(region.rooms.insert(room.clone(), Listed { summary, stored, term, comings })),
            }
            region.changed.insert(room);
        }
        self.changes.tell();
    }

    /// A room is no more, or may not be found any more.
    pub(super) fn gone(&self, room: &RoomId, term: Term) {
        let Some(region) = self.regions.get(room.region()) else { return };
        {
            let region = &mut *region.lock();
            region.changed.remove(room);
            if region.rooms.remove(room).is_none() || region.gone.len() >= GONE {
                return;
            }
            region.gone.insert(room.clone(), term);
        }
        self.changes.tell();
    }

    /// Rooms of which others know now: not a word more of them.
    pub(super) fn forget(&self, which: impl Fn(&RoomId) -> bool) {
        for region in self.regions.values() {
            let region = &mut *region.lock();
            region.rooms.retain(|room, _| !which(room));
            region.changed.retain(|room| !which(room));
        }
    }

    fn take(&self, region: &str, bytes: usize) -> Vec<RoomNews> {
        let Some(region) = self.regions.get(region) else { return Vec::new() };
        let region = &mut *region.lock();
        let (mut news, mut size) = (Vec::new(), 0);
        while size < bytes {
            let one = if let Some((room, term)) = region.gone.pop_first() {
                RoomNews { room, term, now: None, stored: false, comings: Vec::new() }
            } else if let Some(room) = region.changed.pop_first() {
                let Some(listed) = region.rooms.get_mut(&room) else { continue };
                let comings = std::mem::take(&mut listed.comings);
                let (term, now, stored) = (listed.term, Some(listed.summary.clone()), listed.stored);
                RoomNews { room, term, now, stored, comings }
            } else {
                break;
            };
            size += one.size();
            news.push(one);
        }
        news
    }

    fn again(&self, region: &str) {
        let Some(region) = self.regions.get(region) else { return };
        let region = &mut *region.lock();
        region.changed = region.rooms.keys().cloned().collect();
    }
}

/// Reads what the rooms of a node are. Cheap to clone.
#[derive(Clone)]
pub struct Reports(Arc<Host>);

impl RoomHost {
    /// For whoever tells the coordinators of regions what the rooms here are.
    pub fn reports(&self) -> Reports {
        Reports(self.host.clone())
    }
}

impl Reports {
    /// Changes when there is something to tell.
    pub fn changes(&self) -> Watcher {
        self.0.bulletin.changes.watch()
    }

    /// What was not told yet of a region, up to about so many bytes and at least one room. It is not told a second time.
    pub fn take(&self, region: &str, bytes: usize) -> Vec<RoomNews> {
        self.0.bulletin.take(region, bytes)
    }

    /// Everything of a region is to be told once more: somebody else listens now.
    pub fn again(&self, region: &str) {
        self.0.bulletin.again(region);
    }
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reports")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn summary(name: &str, seats: u32) -> RoomSummary {
        let room = RoomId::from_parts("arena", "eu", name).expect("valid");
        let metadata = Bytes::from(vec![0xc0; 1_000]);
        RoomSummary { room, seats, max_seats: 4, metadata, dormant: false, private: false, locked: false }
    }

    fn player(name: &str) -> PlayerId {
        PlayerId::new(name).expect("valid")
    }

    #[test]
    fn what_changed_is_told_once_with_all_who_came_and_all_of_it_when_somebody_else_listens() {
        let all = Bulletin::new(&["eu".to_owned()]);
        all.note(summary("a", 1), false, Term(3), vec![(player("ann"), true)]);
        all.note(summary("a", 0), true, Term(3), vec![(player("ann"), false)]);
        let told = all.take("eu", 1);
        assert_eq!((told.len(), told[0].stored, told[0].now.as_ref()), (1, true, Some(&summary("a", 0))));
        assert_eq!(told[0].comings, [(player("ann"), true), (player("ann"), false)]);
        all.note(summary("a", 0), true, Term(3), Vec::new());
        assert_eq!(all.take("eu", 1), [], "nothing is new");
        all.again("eu");
        assert_eq!(all.take("eu", 1)[0].now, Some(summary("a", 0)));
        // Where there is no coordinator nobody listens.
        let elsewhere = RoomSummary { room: RoomId::new("arena/us/a").expect("valid"), ..summary("a", 0) };
        all.note(elsewhere, true, Term(3), Vec::new());
        assert_eq!((all.take("us", 1), all.take("eu", 1)), (vec![], vec![]));
    }

    #[test]
    fn a_room_that_is_gone_is_told_as_such_and_one_that_moved_is_not() {
        let all = Bulletin::new(&["eu".to_owned()]);
        for name in ["a", "b", "c"] {
            all.note(summary(name, 1), true, Term(3), Vec::new());
        }
        all.gone(&summary("a", 1).room, Term(3));
        all.forget(|room| room.name() == "b");
        let told = all.take("eu", 100_000);
        let told: Vec<_> = told.iter().map(|news| (news.room.name(), news.now.is_some())).collect();
        assert_eq!(told, [("a", false), ("c", true)]);
        all.gone(&summary("never", 1).room, Term(3));
        assert_eq!(all.take("eu", 1), [], "nobody heard of it");
    }

    #[test]
    fn a_message_is_bounded() {
        let all = Bulletin::new(&["eu".to_owned()]);
        for n in 0..100 {
            all.note(summary(&format!("r{n}"), 1), true, Term(3), Vec::new());
        }
        assert!(all.take("eu", 10_000).len() < 10);
        let comings = (0..COMINGS + 10).map(|n| (player(&format!("p{n}")), true)).collect();
        let mut told = all.take("eu", usize::MAX);
        all.note(summary("r0", 2), true, Term(3), comings);
        all.note(summary("r0", 2), true, Term(3), vec![(player("last"), true)]);
        told = [told, all.take("eu", usize::MAX)].concat();
        assert!(told.iter().all(|news| news.comings.len() <= COMINGS));
    }
}
