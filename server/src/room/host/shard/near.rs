//! The near future of a shard's work, pure: which items are due, which are in a room's hands, and what must be read from the store next.

mod reading;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tenure_shared::RoomId;

use self::reading::Reading;
use super::pending::Request;
use crate::{
    room::host::{config::WORK_PER_ROOM, schedules::first_id},
    runtime::Wall,
    store::{WorkId, WorkItem},
};

/// Most items of a shard that wait in memory; those that are due last make room for earlier ones and are read again in time.
pub(in crate::room::host) const NEAR_ITEMS: usize = 2_000;
/// Most items of one room in memory, waiting and in its hands; the rest stays in the store until the room has done some.
pub(in crate::room::host) const ROOM_AHEAD: usize = 4 * WORK_PER_ROOM;

/// Items due within the horizon are here (waiting, or handed to a room whose commit is not acknowledged yet), but for those that nobody
/// can take now: of a parked room, of a kind that this build does not know, of a room that has its fill. They stay in the store, and the
/// reading goes on past them: however many they are, nothing else waits for them. An item in a room's hands is not handed out again (H6).
#[derive(Debug, Default)]
pub(in crate::room::host) struct Near {
    pending: BTreeMap<(Wall, WorkId), WorkItem>,
    due: HashMap<WorkId, Wall>,
    handed: HashMap<WorkId, WorkItem>,
    in_hand: HashMap<RoomId, usize>,
    // What waits, by room.
    waiting: HashMap<RoomId, BTreeSet<(Wall, WorkId)>>,
    // Rooms of which items were left in the store since they had their fill, and when the first of those is due.
    left: HashMap<RoomId, Wall>,
    reading: Reading,
}

impl Near {
    /// When the next item can be handed out: the first one that is due later than `now` (what is overdue waits for its room).
    pub(in crate::room::host) fn next_due(&self, now: Wall) -> Option<Wall> {
        self.pending.keys().map(|(due, _)| *due).find(|due| *due > now)
    }

    /// How many items are due and in nobody's hands, those included that the last reading found nobody to take.
    pub(in crate::room::host) fn overdue(&self, now: Wall) -> usize {
        self.pending.keys().take_while(|(due, _)| *due <= now).count() + self.reading.passed()
    }

    /// How many items wait, and how many are in rooms' hands.
    #[cfg(test)]
    pub(in crate::room::host) fn len(&self) -> (usize, usize) {
        (self.pending.len(), self.handed.len())
    }

    /// Hands out the next item that is due at `now` and whose room has less than `most` in its hands; each item at most once until
    /// its commit is settled. Items that nobody can take any more (`takes` says no) are forgotten: the store has them.
    pub(in crate::room::host) fn hand_out(
        &mut self,
        now: Wall,
        most: usize,
        takes: impl Fn(&WorkId) -> bool,
    ) -> Option<WorkItem> {
        loop {
            let has_room = |id: &WorkId| self.in_hand.get(&id.room).is_none_or(|n| *n < most);
            let key = self.pending.keys().take_while(|(due, _)| *due <= now).find(|(_, id)| has_room(id))?.clone();
            let item = self.remove(&key.1)?;
            if !takes(&item.id) {
                self.left.remove(&item.id.room);
                continue;
            }
            *self.in_hand.entry(item.id.room.clone()).or_default() += 1;
            self.handed.insert(item.id.clone(), item.clone());
            return Some(item);
        }
    }

    /// The room no longer has its items, but for those in `kept`: they are handed out again.
    pub(in crate::room::host) fn give_back(&mut self, room: &RoomId, kept: &[WorkId]) {
        let ids: Vec<WorkId> =
            self.handed.keys().filter(|id| id.room == *room && !kept.contains(id)).cloned().collect();
        for id in ids {
            if let Some(item) = self.remove(&id) {
                self.insert(item);
            }
        }
        self.keep_bound();
    }

    /// A request of a room is durable. What it scheduled is not taken from the request, since the store has rules of its own (done once is
    /// done for ever): it is read again when it is due.
    pub(in crate::room::host) fn settle(&mut self, room: &RoomId, request: &Request) {
        if request.delete {
            self.forget_room(room);
        }
        let again = request.again.iter().flat_map(|decided| &decided.completed);
        let parked = request.parked.iter().map(|(id, _)| id);
        for id in request.completed.iter().chain(again).chain(&request.cancelled).chain(parked) {
            self.remove(id);
        }
        for (id, at) in &request.failed {
            if let Some(mut item) = self.remove(id) {
                item.attempt += 1;
                item.due = *at;
                // What is due later than was read comes with the next reading.
                if item.due <= self.reading.reach() {
                    self.insert(item);
                }
            }
        }
        for (id, payload) in &request.advanced {
            if let Some(mut item) = self.remove(id) {
                item.payload = payload.clone();
                self.insert(item);
            }
        }
        for item in &request.scheduled {
            self.remove(&item.id);
            if item.due <= self.reading.reach() {
                self.reading.again(item.due, &item.id);
            }
        }
        self.keep_bound();
        self.look_for_more(room);
    }

    /// The store refused what was said of these items: nothing is known of them until everything is read again, now.
    pub(in crate::room::host) fn doubt(&mut self, request: &Request) {
        self.forget(request);
        self.reading.whole();
    }

    /// There may be more than is known, or the store forgot what was done: everything is read again, now.
    pub(in crate::room::host) fn look_again(&mut self) {
        self.reading.whole();
    }

    /// An item that is in a room's hands.
    pub(in crate::room::host) fn in_hand(&self, id: &WorkId) -> Option<WorkItem> {
        self.handed.get(id).cloned()
    }

    /// Nothing is known of these items until everything is read again, as it is now and then.
    pub(in crate::room::host) fn forget(&mut self, request: &Request) {
        for id in request.touches() {
            self.remove(id);
        }
    }

    fn forget_room(&mut self, room: &RoomId) {
        self.in_hand.remove(room);
        self.waiting.remove(room);
        self.left.remove(room);
        self.handed.retain(|id, _| id.room != *room);
        self.due.retain(|id, _| id.room != *room);
        self.pending.retain(|(_, id), _| id.room != *room);
    }

    /// How many items of a room are in memory.
    fn of_room(&self, room: &RoomId) -> usize {
        let waiting = self.waiting.get(room).map_or(0, BTreeSet::len);
        waiting + self.in_hand.get(room).copied().unwrap_or_default()
    }

    /// A room that has done most of what is here is given what was left in the store.
    fn look_for_more(&mut self, room: &RoomId) {
        if self.of_room(room) <= WORK_PER_ROOM / 2
            && let Some(due) = self.left.remove(room)
        {
            self.reading.again(due, &first_id(room));
        }
    }

    /// Items of the room from then on are left in the store for now.
    fn leave(&mut self, room: &RoomId, due: Wall) {
        let first = self.left.entry(room.clone()).or_insert(due);
        *first = due.min(*first);
    }

    fn remove(&mut self, id: &WorkId) -> Option<WorkItem> {
        if let Some(item) = self.handed.remove(id) {
            if let Some(count) = self.in_hand.get_mut(&id.room) {
                *count -= 1;
                if *count == 0 {
                    self.in_hand.remove(&id.room);
                }
            }
            return Some(item);
        }
        let key = (self.due.remove(id)?, id.clone());
        self.no_longer_waits(&key);
        self.pending.remove(&key)
    }

    fn no_longer_waits(&mut self, key: &(Wall, WorkId)) {
        if let Some(waiting) = self.waiting.get_mut(&key.1.room) {
            waiting.remove(key);
            if waiting.is_empty() {
                self.waiting.remove(&key.1.room);
            }
        }
    }

    fn insert(&mut self, item: WorkItem) {
        if item.parked.is_some() || self.handed.contains_key(&item.id) {
            return;
        }
        // Known already, perhaps by another due time.
        self.remove(&item.id);
        let key = (item.due, item.id.clone());
        self.due.insert(item.id.clone(), item.due);
        self.waiting.entry(item.id.room.clone()).or_default().insert(key.clone());
        self.pending.insert(key, item);
    }

    /// Forgets what is due last, so that what waits stays within its bound; whether there was something to forget.
    fn forget_latest(&mut self) -> bool {
        let before = self.pending.len();
        while self.pending.len() > NEAR_ITEMS
            && let Some((key, _)) = self.pending.pop_last()
        {
            self.due.remove(&key.1);
            self.no_longer_waits(&key);
        }
        self.pending.len() < before
    }

    fn keep_bound(&mut self) {
        if self.forget_latest()
            && let Some(last) = self.pending.keys().next_back()
        {
            self.reading.stop_at(last);
        }
    }
}
