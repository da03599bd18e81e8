//! The near future of a shard's work, pure: which items are due, and which are in a room's hands.

use std::collections::{BTreeMap, HashMap};

use tenure_shared::RoomId;

use super::pending::Request;
use crate::{
    runtime::Wall,
    store::{WorkId, WorkItem},
};

/// Items due up to `known_until` are all here: pending, or handed to a room whose commit is not acknowledged yet.
/// An item in a room's hands is not handed out again (H6).
#[derive(Debug, Default)]
pub(in crate::room::host) struct Near {
    pending: BTreeMap<(Wall, WorkId), WorkItem>,
    due: HashMap<WorkId, Wall>,
    handed: HashMap<WorkId, WorkItem>,
    in_hand: HashMap<RoomId, usize>,
    known_until: Wall,
}

impl Near {
    /// Takes the store's answer to "due before `before`"; `cut`: there was more than the limit.
    pub(in crate::room::host) fn refill(&mut self, items: Vec<WorkItem>, before: Wall, cut: bool) {
        let (first, last) = (items.first().map(|item| item.due), items.last().map(|item| item.due));
        for item in items {
            self.insert(item);
        }
        // Of a cut answer the last moment may be incomplete. If there is no other moment in it, what is known of it must be kept:
        // dropped it would come again and again, and nothing would ever be handed out. The rest follows when these are done.
        self.known_until = match last {
            Some(last) if cut && first == Some(last) => last,
            Some(last) if cut => Wall(last.0.saturating_sub(1)),
            _ => before,
        };
        self.forget_later();
    }

    /// Up to when everything is known.
    pub(in crate::room::host) fn known_until(&self) -> Wall {
        self.known_until
    }

    /// When the next item can be handed out: the first one that is due later than `now` (what is overdue waits for its room).
    pub(in crate::room::host) fn next_due(&self, now: Wall) -> Option<Wall> {
        self.pending.keys().map(|(due, _)| *due).find(|due| *due > now)
    }

    /// How many items are due and in nobody's hands.
    pub(in crate::room::host) fn overdue(&self, now: Wall) -> usize {
        self.pending.keys().take_while(|(due, _)| *due <= now).count()
    }

    /// How many items are pending, and how many in rooms' hands.
    #[cfg(test)]
    pub(in crate::room::host) fn len(&self) -> (usize, usize) {
        (self.pending.len(), self.handed.len())
    }

    /// Hands out the next item that is due at `now` and whose room has less than `most` in its hands; each item at most once until
    /// its commit is settled.
    pub(in crate::room::host) fn hand_out(&mut self, now: Wall, most: usize) -> Option<WorkItem> {
        let has_room = |id: &WorkId| self.in_hand.get(&id.room).is_none_or(|n| *n < most);
        let key = self.pending.keys().take_while(|(due, _)| *due <= now).find(|(_, id)| has_room(id))?.clone();
        let item = self.pending.remove(&key)?;
        self.due.remove(&item.id);
        *self.in_hand.entry(item.id.room.clone()).or_default() += 1;
        self.handed.insert(item.id.clone(), item.clone());
        Some(item)
    }

    /// The room no longer has its items, but for those in `kept`: they are handed out again.
    pub(in crate::room::host) fn give_back(&mut self, room: &RoomId, kept: &[WorkId]) {
        let ids: Vec<WorkId> =
            self.handed.keys().filter(|id| id.room == *room && !kept.contains(id)).cloned().collect();
        for id in ids {
            if let Some(item) = self.take(&id) {
                self.insert(item);
            }
        }
    }

    /// A request of a room is durable. What it scheduled is not taken from the request, since the store has rules of its own (done once is
    /// done for ever): it must be read again at the time given, if one is.
    pub(in crate::room::host) fn settle(&mut self, room: &RoomId, request: &Request) -> Option<Wall> {
        if request.delete {
            self.forget_room(room);
        }
        for id in request.completed.iter().chain(&request.cancelled).chain(request.parked.iter().map(|(id, _)| id)) {
            self.remove(id);
        }
        for (id, at) in &request.failed {
            if let Some(mut item) = self.remove(id) {
                item.attempt += 1;
                item.due = *at;
                self.insert(item);
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
        }
        self.forget_later();
        // What is due later than that is not known either, but for the next reading.
        request.scheduled.iter().map(|item| item.due).filter(|due| *due <= self.known_until).min()
    }

    /// The store refused what a room said of its items: nothing is known of them until they are read again.
    pub(in crate::room::host) fn doubt(&mut self, request: &Request) {
        for id in request.touches() {
            self.remove(id);
        }
    }

    fn forget_room(&mut self, room: &RoomId) {
        self.in_hand.remove(room);
        self.handed.retain(|id, _| id.room != *room);
        self.due.retain(|id, _| id.room != *room);
        self.pending.retain(|(_, id), _| id.room != *room);
    }

    fn remove(&mut self, id: &WorkId) -> Option<WorkItem> {
        if let Some(item) = self.take(id) {
            return Some(item);
        }
        let due = self.due.remove(id)?;
        self.pending.remove(&(due, id.clone()))
    }

    /// Out of the room's hands.
    fn take(&mut self, id: &WorkId) -> Option<WorkItem> {
        let item = self.handed.remove(id)?;
        if let Some(count) = self.in_hand.get_mut(&id.room) {
            *count -= 1;
            if *count == 0 {
                self.in_hand.remove(&id.room);
            }
        }
        Some(item)
    }

    fn insert(&mut self, item: WorkItem) {
        if item.parked.is_some() || self.handed.contains_key(&item.id) {
            return;
        }
        if let Some(due) = self.due.insert(item.id.clone(), item.due) {
            self.pending.remove(&(due, item.id.clone()));
        }
        self.pending.insert((item.due, item.id.clone()), item);
    }

    /// The far future stays in the store.
    fn forget_later(&mut self) {
        while let Some(((due, id), _)) = self.pending.last_key_value() {
            if *due <= self.known_until {
                break;
            }
            self.due.remove(id);
            self.pending.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn item(room: &str, key: &str, due: u64) -> WorkItem {
        let room = RoomId::from_parts("test", "eu", room).expect("valid");
        let id = WorkId { room, job: "job".into(), key: key.into() };
        WorkItem { id, due: Wall(due), attempt: 0, parked: None, payload: Bytes::new() }
    }

    fn hand(near: &mut Near, now: u64) -> Vec<String> {
        std::iter::from_fn(|| near.hand_out(Wall(now), 64)).map(|item| item.id.key.to_string()).collect()
    }

    #[test]
    fn an_item_is_handed_out_once_until_its_commit() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 10), item("a", "2", 20)], Wall(100), false);
        assert_eq!(hand(&mut near, 9), Vec::<String>::new(), "never before due");
        assert_eq!(hand(&mut near, 10), ["1"]);
        // The store still has it as pending: it must not come again.
        near.refill(vec![item("a", "1", 10), item("a", "2", 20)], Wall(200), false);
        assert_eq!(hand(&mut near, 30), ["2"]);
        let room = item("a", "1", 10).id.room;
        near.settle(&room, &Request { completed: vec![item("a", "1", 10).id], ..Request::default() });
        near.give_back(&room, &[]);
        assert_eq!(hand(&mut near, 30), ["2"], "only what is not done comes again");
    }

    #[test]
    fn failed_advanced_and_scheduled_items_come_when_they_are_due() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 10), item("a", "2", 10)], Wall(100), false);
        assert_eq!(hand(&mut near, 10).len(), 2);
        let (one, two) = (item("a", "1", 0).id, item("a", "2", 0).id);
        let request = Request {
            failed: vec![(one.clone(), Wall(50))],
            advanced: vec![(two, Bytes::from_static(b"next"))],
            scheduled: vec![item("a", "3", 60), item("a", "far", 500)],
            ..Request::default()
        };
        assert_eq!(near.settle(&one.room, &request), Some(Wall(60)), "the store must be asked for it by then");
        assert_eq!(near.next_due(Wall(9)), Some(Wall(10)), "a paged decision goes on at once");
        let next = near.hand_out(Wall(10), 64).expect("advanced");
        assert_eq!(next.payload, Bytes::from_static(b"next"));
        let again = near.hand_out(Wall(50), 64).expect("failed");
        assert_eq!((again.id, again.attempt), (one, 1));
        assert_eq!(hand(&mut near, 1_000), Vec::<String>::new(), "what is scheduled comes from the store alone");
        near.refill(vec![item("a", "3", 60)], Wall(400), false);
        assert_eq!(hand(&mut near, 1_000), ["3"], "the far future stays in the store");
    }

    #[test]
    fn what_the_store_does_not_have_is_not_handed_out() {
        let mut near = Near::default();
        near.refill(vec![item("shop", "shop", 10)], Wall(100), false);
        assert_eq!(hand(&mut near, 10), ["shop"]);
        let id = item("shop", "shop", 0).id;
        // The handler schedules its own identity again: the store takes it as done once and for ever.
        let again = vec![item("shop", "shop", 20)];
        let request = Request { completed: vec![id.clone()], scheduled: again.clone(), ..Request::default() };
        assert_eq!(near.settle(&id.room, &request), Some(Wall(20)));
        near.refill(vec![], Wall(100), false);
        assert_eq!((hand(&mut near, 90), near.len()), (vec![], (0, 0)));
        // So does a game that schedules what is done already.
        let request = Request { scheduled: again, ..Request::default() };
        near.settle(&id.room, &request);
        assert_eq!(hand(&mut near, 90), Vec::<String>::new());
    }

    #[test]
    fn what_a_refused_request_touched_is_read_again() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 10), item("a", "2", 10)], Wall(100), false);
        assert_eq!(hand(&mut near, 10).len(), 2);
        near.doubt(&Request { completed: vec![item("a", "1", 10).id], ..Request::default() });
        assert_eq!(near.len(), (0, 1));
        near.give_back(&item("a", "1", 10).id.room, &[]);
        assert_eq!(hand(&mut near, 10), ["2"], "nobody knows of the other until the store is asked");
        near.refill(vec![item("a", "1", 10)], Wall(100), false);
        assert_eq!(hand(&mut near, 10), ["1"]);
    }

    #[test]
    fn a_room_holds_a_bounded_number_of_items_and_others_do_not_wait_for_it() {
        let mut near = Near::default();
        let items = (0..10).map(|n| item("a", &n.to_string(), n)).chain([item("b", "x", 20)]).collect();
        near.refill(items, Wall(100), false);
        let got: Vec<_> = std::iter::from_fn(|| near.hand_out(Wall(50), 3)).collect();
        assert_eq!(got.iter().map(|i| &*i.id.key).collect::<Vec<_>>(), ["0", "1", "2", "x"]);
        near.give_back(&got[0].id.room, &[got[1].id.clone()]);
        assert_eq!(near.hand_out(Wall(50), 3).map(|i| i.id), Some(got[0].id.clone()));
        assert_eq!(near.len().1, 3, "one kept, one again, one of the other room");
    }

    #[test]
    fn a_cut_answer_is_known_up_to_its_last_moment() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 10), item("a", "2", 20), item("a", "3", 20)], Wall(100), true);
        assert_eq!(near.known_until(), Wall(19));
        assert_eq!(hand(&mut near, 100), ["1"]);
    }

    #[test]
    fn a_cut_answer_of_one_moment_is_handed_out() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 20), item("a", "2", 20)], Wall(100), true);
        assert_eq!(near.known_until(), Wall(20));
        assert_eq!(hand(&mut near, 100), ["1", "2"]);
    }

    #[test]
    fn a_deleted_room_has_no_work() {
        let mut near = Near::default();
        near.refill(vec![item("a", "1", 10), item("b", "1", 11), item("a", "2", 12)], Wall(100), false);
        let first = near.hand_out(Wall(10), 64).expect("due");
        near.settle(&first.id.room, &Request { delete: true, ..Request::default() });
        near.give_back(&first.id.room, &[]);
        assert_eq!(near.len(), (1, 0));
    }
}
