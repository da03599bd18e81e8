//! What a coordinator knows of its region: rooms, seats that it keeps for players, and which room it told whom. Pure.
//!
//! Rooms come from two sides: from the store, as their checkpoints say, and from the nodes that run them, as they are. What a node says
//! under a shard's term counts until a later term says otherwise. A seat that is kept counts as taken here; the room itself lets in whoever
//! comes first, up to its own number of seats, so that what is wrong here overfills nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tenure_shared::{Filter, PlayerId, RoomId, Term, codes::ErrorCode};

use crate::{
    link::lobby::{Answer, Seek},
    plugin::RoomKind,
    room::host::RoomNews,
    runtime::Mono,
    store::RoomSummary,
};

/// How long a seat is kept: a gateway asks the room for ten seconds at most, and tells its client then.
pub const KEEP_FOR: Duration = Duration::from_secs(12);
/// How long a room is passed over in which there was no seat after all, unless it says something new.
const DOUBT_FOR: Duration = Duration::from_secs(1);
/// Most rooms of a region that are known.
pub const LISTED: usize = 20_000;
/// Most players for whom a seat is kept, or who were told of a room lately.
pub const TICKETS: usize = 100_000;
/// Letters of a generated name: no two that look alike.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// Letters in a generated name: 50 bits.
const NAME_LETTERS: usize = 10;

/// What is known of a kind of room before there is one.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    max_seats: u32,
    private: bool,
    pub(super) filter: Vec<Arc<str>>,
}

impl Rule {
    pub(super) fn of(kind: &RoomKind) -> Self {
        Self { max_seats: kind.max_seats(), private: kind.private(), filter: kind.filter_keys().to_vec() }
    }
}

/// Rooms with a free seat that share what filters may name: first those that run, then the fullest, so that rooms fill up.
type Open = BTreeSet<(bool, u32, RoomId)>;
/// A player and a kind of room.
type Who = (PlayerId, String);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) region: String,
    pub(super) rules: Arc<BTreeMap<String, Rule>>,
    pub(super) rooms: BTreeMap<RoomId, Entry>,
    open: BTreeMap<String, BTreeMap<Filter, Open>>,
    tickets: BTreeMap<Who, Ticket>,
    /// When tickets end.
    ends: BTreeSet<(Mono, Who)>,
    /// Until when rooms are passed over.
    doubts: BTreeSet<(Mono, RoomId)>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) summary: RoomSummary,
    /// Of the owner that spoke of it last; 0: only the store did.
    term: Term,
    /// When it was last spoken of.
    heard: Mono,
    /// It exists; else it is being made, or will be.
    pub(super) stored: bool,
    /// Seats kept.
    kept: u32,
    /// What of its metadata filters of its kind may name.
    pub(super) tags: Filter,
    doubt: bool,
}

impl Entry {
    fn free(&self) -> u32 {
        let hidden = self.summary.private || self.summary.locked || self.doubt;
        let taken = self.summary.seats.saturating_add(self.kept);
        if hidden { 0 } else { self.summary.max_seats.saturating_sub(taken) }
    }

    fn rank(&self) -> (bool, u32, RoomId) {
        (self.summary.dormant, self.free(), self.summary.room.clone())
    }
}

/// What a player was told.
#[derive(Clone, Debug)]
struct Ticket {
    room: RoomId,
    filter: Filter,
    until: Mono,
    /// A seat is kept; else he has one.
    kept: bool,
}

impl Book {
    pub(super) fn new(region: &str, rules: Arc<BTreeMap<String, Rule>>) -> Self {
        Self { region: region.to_owned(), rules, ..Self::default() }
    }

    /// A room with a free seat for this player, or the name of a new one. Whoever asks again gets the same answer as long as it is a good
    /// one (C52).
    pub(super) fn seek(&mut self, seek: Seek, now: Mono) -> Answer {
        self.expire(now);
        let Seek { player, kind, filter, request, refused } = seek;
        let Some(rule) = self.rules.get(&kind).cloned() else {
            return Answer::refused(ErrorCode::UnknownKind, format!("no game of the kind {kind:?} is registered"));
        };
        if let Some(key) = filter.keys().find(|key| !rule.filter.iter().any(|known| **known == **key)) {
            let text = format!("rooms of the kind {kind:?} cannot be filtered by {key:?}");
            return Answer::refused(ErrorCode::BadPayload, text);
        }
        if let Some((room, code)) = &refused {
            self.refused(room, ErrorCode::from_word(code), now);
        }
        let refused = refused.map(|(room, _)| room);
        let who = (player, kind);
        if let Some(ticket) = self.tickets.get(&who) {
            let same = ticket.filter == filter && Some(&ticket.room) != refused.as_ref();
            let room = ticket.room.clone();
            if same && self.is_good(ticket) {
                self.extend(&who, now);
                return self.told(room, false);
            }
            self.end(&who);
        }
        if self.tickets.len() >= TICKETS {
            return Answer::refused(ErrorCode::MayRetry, "too many players look for a room".to_owned());
        }
        if let Some(room) = self.pick(&who.1, &filter, refused.as_ref()) {
            self.keep(who, room.clone(), filter, now);
            return self.told(room, false);
        }
        if self.rooms.len() >= LISTED {
            return Answer::refused(ErrorCode::Limit, format!("the region has {LISTED} rooms"));
        }
        let name = name(&who, request);
        let Ok(room) = RoomId::from_parts(&who.1, &self.region, &name) else {
            return Answer::refused(ErrorCode::BadPayload, format!("{:?} is no kind of room", who.1));
        };
        // It may be there already: made for this very request, before the coordinator came here.
        if !self.rooms.contains_key(&room) {
            let metadata = if filter.is_empty() { Bytes::new() } else { filter.encode().into() };
            let (max_seats, private) = (rule.max_seats, rule.private);
            let summary = RoomSummary {
                room: room.clone(),
                seats: 0,
                max_seats,
                metadata,
                dormant: false,
                private,
                locked: false,
            };
            self.put(Entry { summary, ..Entry::new(&room, now) });
        }
        self.keep(who, room.clone(), filter, now);
        self.told(room, true)
    }

    /// The answer that names a room. `named`: for this question, if it is not there already.
    fn told(&self, room: RoomId, named: bool) -> Answer {
        let unmade = self.rooms.get(&room).filter(|entry| !entry.stored);
        // Whoever comes first makes it, and not as he wished but as it was named: others were told of it for what it is to be.
        let metadata = unmade.map(|entry| entry.summary.metadata.clone()).unwrap_or_default();
        let make = unmade.is_some();
        Answer::Room { room, make, new: named && make, metadata }
    }

    /// What a node says of one of its rooms.
    pub(super) fn note(&mut self, news: RoomNews, now: Mono) {
        let RoomNews { room, term, now: says, stored, comings } = news;
        if room.region() != self.region || self.rooms.get(&room).is_some_and(|entry| entry.term > term) {
            return;
        }
        for (player, stays) in comings {
            let who = (player, room.kind().to_owned());
            if self.tickets.get(&who).is_some_and(|ticket| ticket.room == room) {
                if stays { self.seated(&who) } else { self.end(&who) }
            }
        }
        match says {
            Some(summary) if self.rooms.len() < LISTED || self.rooms.contains_key(&room) => {
                let kept = self.kept_in(&room);
                self.put(Entry { summary, term, stored, kept, ..Entry::new(&room, now) });
            }
            Some(_) => {}
            None => self.remove(&room),
        }
    }

    /// A shard was read from the store, from `began` on: these are its rooms of this region.
    pub(super) fn read(&mut self, is_of_shard: impl Fn(&RoomId) -> bool, began: Mono, found: Vec<RoomSummary>) {
        // Also where nobody asks.
        self.expire(began);
        let there: BTreeSet<&RoomId> = found.iter().map(|summary| &summary.room).collect();
        let old = |entry: &Entry| (entry.stored || entry.kept == 0) && entry.heard < began;
        let gone = self.rooms.iter().filter(|(room, entry)| is_of_shard(room) && old(entry) && !there.contains(room));
        for room in gone.map(|(room, _)| room.clone()).collect::<Vec<_>>() {
            self.remove(&room);
        }
        for summary in found {
            let known = self.rooms.get_mut(&summary.room);
            let is_known = known.is_some();
            if let Some(entry) = known.filter(|entry| entry.term > Term(0) || entry.heard > began) {
                // Its owner knows better.
                entry.heard = entry.heard.max(began);
            } else if is_known || self.rooms.len() < LISTED {
                let (kept, new) = (self.kept_in(&summary.room), Entry::new(&summary.room, began));
                self.put(Entry { summary, stored: true, kept, ..new });
            }
        }
    }

    /// Rooms that are known, and seats that are kept.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rooms.len(), self.tickets.len())
    }

    fn pick(&self, kind: &str, filter: &Filter, refused: Option<&RoomId>) -> Option<RoomId> {
        let groups = self.open.get(kind)?.iter().filter(|(tags, _)| filter.is_within(tags));
        let first = |open: &Open| open.iter().find(|(_, _, room)| Some(room) != refused).cloned();
        groups.filter_map(|(_, open)| first(open)).min().map(|(_, _, room)| room)
    }

    /// Seats kept in a room, also in one that was not known for a while.
    fn kept_in(&self, room: &RoomId) -> u32 {
        let count = || self.tickets.values().filter(|ticket| ticket.kept && ticket.room == *room).count();
        self.rooms.get(room).map_or_else(|| u32::try_from(count()).unwrap_or(u32::MAX), |entry| entry.kept)
    }

    /// Whether the player who has this may still come, or is there.
    fn is_good(&self, ticket: &Ticket) -> bool {
        let Some(entry) = self.rooms.get(&ticket.room) else { return false };
        let shut = entry.summary.locked || (entry.summary.private && entry.stored);
        // Whoever has a seat may come back to it.
        !(ticket.kept && shut)
    }

    fn refused(&mut self, room: &RoomId, code: Option<ErrorCode>, now: Mono) {
        if code == Some(ErrorCode::NoSuchRoom) {
            return self.remove(room);
        }
        if let Some(entry) = self.rooms.get(room).cloned() {
            self.doubts.insert((now.plus(DOUBT_FOR), room.clone()));
            self.put(Entry { doubt: true, ..entry });
        }
    }

    fn keep(&mut self, who: Who, room: RoomId, filter: Filter, now: Mono) {
        if let Some(entry) = self.rooms.get(&room).cloned() {
            self.put(Entry { kept: entry.kept + 1, ..entry });
        }
        let until = now.plus(KEEP_FOR);
        self.ends.insert((until, who.clone()));
        self.tickets.insert(who, Ticket { room, filter, until, kept: true });
    }

    fn extend(&mut self, who: &Who, now: Mono) {
        if let Some(ticket) = self.tickets.get_mut(who) {
            self.ends.remove(&(ticket.until, who.clone()));
            ticket.until = now.plus(KEEP_FOR);
            self.ends.insert((ticket.until, who.clone()));
        }
    }

    /// The seat that was kept is taken.
    fn seated(&mut self, who: &Who) {
        let Some(ticket) = self.tickets.get_mut(who) else { return };
        let room = ticket.room.clone();
        if std::mem::take(&mut ticket.kept) {
            self.release(&room);
        }
    }

    /// What a player was told counts no longer.
    fn end(&mut self, who: &Who) {
        let Some(ticket) = self.tickets.remove(who) else { return };
        self.ends.remove(&(ticket.until, who.clone()));
        if ticket.kept {
            self.release(&ticket.room);
        }
    }

    fn release(&mut self, room: &RoomId) {
        let Some(entry) = self.rooms.get(room).cloned() else { return };
        let kept = entry.kept.saturating_sub(1);
        if kept == 0 && !entry.stored && entry.summary.seats == 0 && entry.term == Term(0) {
            // Nobody is on the way to make it any more.
            return self.remove(room);
        }
        self.put(Entry { kept, ..entry });
    }

    fn expire(&mut self, now: Mono) {
        while let Some((_, who)) = self.ends.first().filter(|(until, _)| *until <= now).cloned() {
            self.end(&who);
        }
        while let Some((until, room)) = self.doubts.first().filter(|(until, _)| *until <= now).cloned() {
            self.doubts.remove(&(until, room.clone()));
            if let Some(entry) = self.rooms.get(&room).cloned() {
                self.put(Entry { doubt: false, ..entry });
            }
        }
    }

    fn put(&mut self, mut entry: Entry) {
        let room = entry.summary.room.clone();
        self.unlist(&room);
        let known = self.rules.get(room.kind()).map(|rule| rule.filter.as_slice()).unwrap_or_default();
        entry.tags = Filter::of_metadata(&entry.summary.metadata).only(known);
        if entry.free() > 0 {
            let kind = self.open.entry(room.kind().to_owned()).or_default();
            kind.entry(entry.tags.clone()).or_default().insert(entry.rank());
        }
        self.rooms.insert(room, entry);
    }

    fn remove(&mut self, room: &RoomId) {
        self.unlist(room);
        self.rooms.remove(room);
    }

    fn unlist(&mut self, room: &RoomId) {
        let Some(old) = self.rooms.get(room) else { return };
        let Some(kind) = self.open.get_mut(room.kind()) else { return };
        if let Some(open) = kind.get_mut(&old.tags) {
            open.remove(&old.rank());
            if open.is_empty() {
                kind.remove(&old.tags);
            }
        }
        if kind.is_empty() {
            self.open.remove(room.kind());
        }
    }
}

impl Entry {
    /// A room of which nothing is known.
    fn new(room: &RoomId, heard: Mono) -> Self {
        let summary = RoomSummary {
            room: room.clone(),
            seats: 0,
            max_seats: 0,
            metadata: Bytes::new(),
            dormant: false,
            private: false,
            locked: false,
        };
        Self { summary, term: Term(0), heard, stored: false, kept: 0, tags: Filter::default(), doubt: false }
    }
}

/// The name of the room that is made for a request: the same whoever is asked, so that nothing is made twice for it.
fn name((player, kind): &Who, request: u64) -> String {
    let mut bits = xxhash_rust::xxh3::xxh3_64_with_seed(format!("{kind}/{player}").as_bytes(), request);
    let letter = || {
        let letter = LETTERS[(bits % 32) as usize];
        bits /= 32;
        char::from(letter)
    };
    std::iter::repeat_with(letter).take(NAME_LETTERS).collect()
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
