//! Which rooms have a free seat: `Find` picks one and reserves the seat while the attach is on its way.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use tenure_shared::RoomId;

use crate::{
    link::{ConnId, GatewayId},
    runtime::Mono,
    store::RoomSummary,
};

/// How long a seat is kept for an attach that does not come.
pub(super) const RESERVE_FOR: Duration = Duration::from_secs(5);

/// Most names given for rooms of other nodes and not forgotten yet.
const ELSEWHERE: usize = 4_096;

type Lobby = (String, String);
type Socket = (GatewayId, ConnId);

/// The rooms of this node that may be found, by kind and region.
#[derive(Debug, Default)]
pub(super) struct Finder {
    rooms: HashMap<RoomId, Known>,
    // Order of choice: running before dormant, then the fullest, so that rooms fill up instead of spreading.
    free: HashMap<Lobby, BTreeSet<(bool, u32, RoomId)>>,
    // Of each socket at most one seat is kept: bounded by sockets.
    reserved: HashMap<Socket, (RoomId, Mono)>,
    // In the order in which they end.
    order: VecDeque<(Mono, Socket)>,
    // Names given for rooms of other nodes, in the order in which they are forgotten.
    elsewhere: VecDeque<(Mono, RoomId)>,
}

#[derive(Clone, Debug)]
struct Known {
    seats: u32,
    max_seats: u32,
    hidden: bool,
    dormant: bool,
    // Not stored yet: it is listed only as long as seats are kept or taken in it.
    planned: bool,
    // Another node makes it: nobody says here who came, so each seat that was told is taken until the name is forgotten.
    elsewhere: bool,
    kept: u32,
}

impl Known {
    fn free(&self) -> u32 {
        if self.hidden { 0 } else { self.max_seats.saturating_sub(self.seats).saturating_sub(self.kept) }
    }
}

impl Finder {
    /// A free seat in a public, unlocked room, kept for `socket`; `None` if there is no such room.
    pub(super) fn find(&mut self, socket: Socket, kind: &str, region: &str, now: Mono) -> Option<RoomId> {
        self.expire(now);
        self.release(socket);
        let room = self.free.get(&(kind.to_owned(), region.to_owned()))?.first()?.2.clone();
        self.keep(socket, &room, now);
        Some(room)
    }

    /// A room that is to be made by the attach of `socket`; others may be sent there too, as long as a seat is free. `here`: whether it
    /// is made on this node; another's name is forgotten after a while, since that node tells of it then.
    pub(super) fn plan(&mut self, socket: Socket, room: &RoomId, max_seats: u32, here: bool, now: Mono) {
        self.release(socket);
        let (hidden, dormant, planned, elsewhere) = (false, false, true, !here);
        self.put(room, Known { seats: 0, max_seats, hidden, dormant, planned, elsewhere, kept: 0 });
        if elsewhere {
            self.elsewhere.push_back((now.plus(RESERVE_FOR), room.clone()));
        }
        self.keep(socket, room, now);
    }

    /// Whether one more room may be planned.
    pub(super) fn may_plan(&self, here: bool) -> bool {
        here || self.elsewhere.len() < ELSEWHERE
    }

    /// Whether this socket was told of `room`, and may have to make it: it is not stored yet, or was not made in the end.
    pub(super) fn may_make(&self, socket: Socket, room: &RoomId) -> bool {
        self.reserved.get(&socket).is_some_and(|(kept, _)| kept == room)
            && self.rooms.get(room).is_none_or(|known| known.planned)
    }

    /// What a room says about itself now. Seats kept stay kept.
    pub(super) fn update(&mut self, summary: &RoomSummary) {
        self.set(summary, false);
    }

    /// What a room says about itself before it is stored: it stays planned.
    pub(super) fn fill(&mut self, summary: &RoomSummary) {
        self.set(summary, true);
    }

    fn set(&mut self, summary: &RoomSummary, planned: bool) {
        let kept = self.rooms.get(&summary.room).filter(|known| !known.elsewhere).map_or(0, |known| known.kept);
        let known = Known {
            seats: summary.seats,
            max_seats: summary.max_seats,
            hidden: summary.private || summary.locked,
            dormant: summary.dormant,
            planned,
            elsewhere: false,
            kept,
        };
        self.put(&summary.room, known);
    }

    /// The attach of this socket was answered: its seat is no longer kept, it is taken or free.
    pub(super) fn release(&mut self, socket: Socket) {
        let Some((room, _)) = self.reserved.remove(&socket) else { return };
        if let Some(known) = self.rooms.get(&room).filter(|known| !known.elsewhere).cloned() {
            self.put(&room, Known { kept: known.kept.saturating_sub(1), ..known });
            self.not_made(&room);
        }
    }

    /// Nobody has a seat in a room that is not stored: it is forgotten, unless others were told to make it.
    pub(super) fn not_made(&mut self, room: &RoomId) {
        if self.rooms.get(room).is_some_and(|known| known.planned && known.kept == 0 && known.seats == 0) {
            self.remove(room);
        }
    }

    /// The room is gone, or may not be found any more.
    pub(super) fn remove(&mut self, room: &RoomId) {
        if let Some(old) = self.rooms.remove(room) {
            self.unlist(room, &old);
        }
    }

    /// Rooms that are another node's now.
    pub(super) fn remove_all(&mut self, gone: impl Fn(&RoomId) -> bool) {
        let rooms: Vec<RoomId> = self.rooms.keys().filter(|room| gone(room)).cloned().collect();
        rooms.iter().for_each(|room| self.remove(room));
    }

    /// How many rooms are known.
    pub(super) fn len(&self) -> usize {
        self.rooms.len()
    }

    /// How many of this node's rooms are dormant.
    pub(super) fn dormant(&self) -> usize {
        self.rooms.values().filter(|known| known.dormant).count()
    }

    fn keep(&mut self, socket: Socket, room: &RoomId, now: Mono) {
        if let Some(known) = self.rooms.get(room).cloned() {
            self.put(room, Known { kept: known.kept + 1, ..known });
            let until = now.plus(RESERVE_FOR);
            self.reserved.insert(socket, (room.clone(), until));
            self.order.push_back((until, socket));
        }
    }

    fn expire(&mut self, now: Mono) {
        while let Some((_, room)) = self.elsewhere.pop_front_if(|(until, _)| *until <= now) {
            if self.rooms.get(&room).is_some_and(|known| known.elsewhere) {
                self.remove(&room);
            }
        }
        while let Some((until, socket)) = self.order.front().copied().filter(|(until, _)| *until <= now) {
            self.order.pop_front();
            // It may have been released, and another seat kept for it since.
            if self.reserved.get(&socket).is_some_and(|(_, kept)| *kept == until) {
                self.release(socket);
            }
        }
    }

    fn put(&mut self, room: &RoomId, known: Known) {
        if let Some(old) = self.rooms.get(room).cloned() {
            self.unlist(room, &old);
        }
        let free = known.free();
        if free > 0 {
            let lobby = (room.kind().to_owned(), room.region().to_owned());
            self.free.entry(lobby).or_default().insert((known.dormant, free, room.clone()));
        }
        self.rooms.insert(room.clone(), known);
    }

    fn unlist(&mut self, room: &RoomId, old: &Known) {
        let lobby = (room.kind().to_owned(), room.region().to_owned());
        if let Some(list) = self.free.get_mut(&lobby) {
            list.remove(&(old.dormant, old.free(), room.clone()));
            if list.is_empty() {
                self.free.remove(&lobby);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn room(name: &str) -> RoomId {
        RoomId::from_parts("arena", "eu", name).expect("valid")
    }

    fn summary(name: &str, seats: u32, max_seats: u32) -> RoomSummary {
        let metadata = Bytes::new();
        RoomSummary { room: room(name), seats, max_seats, metadata, dormant: false, private: false, locked: false }
    }

    fn socket(n: u64) -> Socket {
        (GatewayId(1), ConnId(n))
    }

    #[test]
    fn two_hundred_joins_at_once_neither_overfill_nor_spread() {
        let mut finder = Finder::default();
        let mut sent: HashMap<RoomId, u32> = HashMap::new();
        for n in 0..200 {
            let found = finder.find(socket(n), "arena", "eu", Mono(0)).unwrap_or_else(|| {
                let new = room(&format!("new{n}"));
                finder.plan(socket(n), &new, 50, true, Mono(0));
                new
            });
            *sent.entry(found).or_default() += 1;
        }
        assert_eq!(sent.values().copied().collect::<Vec<_>>(), [50; 4]);
        let new = room("new0");
        assert!(finder.may_make(socket(7), &new) && !finder.may_make(socket(60), &new));
        finder.fill(&summary("new0", 1, 50));
        assert!(finder.may_make(socket(7), &new), "it is not stored yet");
        finder.update(&summary("new0", 1, 50));
        assert!(!finder.may_make(socket(7), &new), "it exists");
        finder.remove(&new);
        assert!(finder.may_make(socket(7), &new), "what was told and was not made may be made yet");
    }

    #[test]
    fn a_kept_seat_is_free_again_when_nobody_comes() {
        let mut finder = Finder::default();
        finder.update(&summary("a", 0, 1));
        assert_eq!(finder.find(socket(1), "arena", "eu", Mono(0)), Some(room("a")));
        assert_eq!(finder.find(socket(2), "arena", "eu", Mono(0)), None);
        let later = Mono(0).plus(RESERVE_FOR);
        assert_eq!(finder.find(socket(2), "arena", "eu", later), Some(room("a")));
        // The same socket asks again: it does not hold two seats.
        assert_eq!(finder.find(socket(2), "arena", "eu", later), Some(room("a")));
    }

    #[test]
    fn a_planned_room_that_nobody_made_is_forgotten() {
        let mut finder = Finder::default();
        finder.plan(socket(1), &room("new"), 4, true, Mono(0));
        finder.release(socket(1));
        assert_eq!((finder.len(), finder.find(socket(2), "arena", "eu", Mono(0))), (0, None));
    }

    #[test]
    fn of_a_room_that_another_node_makes_each_seat_is_told_once_and_only_for_a_while() {
        let mut finder = Finder::default();
        finder.plan(socket(1), &room("new"), 3, false, Mono(0));
        assert_eq!(finder.find(socket(2), "arena", "eu", Mono(0)), Some(room("new")));
        // Whether it went there or gave up is not known here.
        finder.release(socket(2));
        assert_eq!(finder.find(socket(3), "arena", "eu", Mono(1)), Some(room("new")));
        assert_eq!(finder.find(socket(4), "arena", "eu", Mono(2)), None, "three were told of three seats");
        finder.plan(socket(5), &room("other"), 3, false, Mono(3));
        assert_eq!(
            finder.find(socket(6), "arena", "eu", Mono(0).plus(RESERVE_FOR).plus(Duration::from_millis(1))),
            None
        );
        assert_eq!(finder.len(), 0, "forgotten");
        // It may have come here meanwhile: then it says itself who is there.
        finder.plan(socket(7), &room("new"), 3, false, Mono(0));
        finder.update(&summary("new", 1, 3));
        assert_eq!(finder.find(socket(8), "arena", "eu", Mono(1)), Some(room("new")));
    }

    #[test]
    fn private_locked_and_full_rooms_are_not_found_and_running_ones_come_first() {
        let mut finder = Finder::default();
        finder.update(&RoomSummary { private: true, ..summary("private", 0, 9) });
        finder.update(&RoomSummary { locked: true, ..summary("locked", 0, 9) });
        finder.update(&summary("full", 9, 9));
        assert_eq!(finder.find(socket(1), "arena", "eu", Mono(0)), None);
        finder.update(&RoomSummary { dormant: true, ..summary("dormant", 0, 9) });
        assert_eq!(finder.find(socket(1), "arena", "eu", Mono(0)), Some(room("dormant")));
        finder.update(&summary("emptier", 1, 9));
        finder.update(&summary("fuller", 5, 9));
        assert_eq!(finder.find(socket(1), "arena", "eu", Mono(0)), Some(room("fuller")));
        finder.remove(&room("fuller"));
        assert_eq!(finder.find(socket(1), "arena", "eu", Mono(0)), Some(room("emptier")));
        assert_eq!(finder.find(socket(1), "arena", "us", Mono(0)), None);
    }
}
