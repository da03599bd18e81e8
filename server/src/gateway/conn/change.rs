//! How a seat comes to a connection, changes hands, and goes.
//!
//! Between owners a seat keeps its ring and its floor and is on no link: nothing that a node says is shown. The answer to the next
//! attach puts it on that node's link, at once and in order with the frames behind it.

use std::sync::Arc;

use tenure_shared::{Generation, RoomId, SeatId, ShardId, Term, wire::ServerMessage};

use super::{Conn, Expected, Inner, Note, Seat};
use crate::{
    gateway::{
        fanout::Off,
        outgoing::Broken,
        router::{Link, Place},
        tables::Tables,
    },
    link::{Attach, Attached, ToNode},
    runtime::{Mono, faults},
};

/// What became of the answer to an attach.
#[derive(Debug)]
pub(in crate::gateway) enum Taken {
    /// The seat is this connection's.
    Yes,
    /// Nobody waits for it (any more).
    No(Attached),
    /// It is of an owner that is behind what was shown: this term, if a node said it. What a client says it was shown proves nothing, and
    /// must not be told to anybody: terms never go back.
    Behind(Attached, Option<Term>),
}

impl Conn {
    /// The answer to an attach. A first one is kept with the frames behind it until `joined` is sent; one of a seat that changed hands
    /// is shown at once.
    pub(in crate::gateway) fn attached(
        &self,
        now: Mono,
        link: &Arc<Link>,
        tables: &Tables,
        attached: Attached,
    ) -> Taken {
        let mut inner = self.lock();
        let ended = inner.ended;
        let is = |e: &mut Expected| {
            e.at.is_on(link.id) && e.room == attached.room && e.attempt == attached.attempt && !ended
        };
        let Some(expected) = inner.expecting.take_if(is) else { return Taken::No(attached) };
        if (attached.term, attached.tick) < expected.floor {
            inner.tell(Note::Behind { attempt: attached.attempt });
            return Taken::Behind(attached, expected.again.then_some(expected.floor.0));
        }
        tables.learn(attached.hash, attached.table.as_ref());
        if !expected.again {
            inner.seat = Some(Seat::new(expected, &attached));
        } else if inner.seat.is_none() {
            return Taken::No(attached);
        } else {
            inner.goes_on(now, expected.at, &attached, tables);
        }
        inner.tell(Note::Attached(attached, link.clone()));
        Taken::Yes
    }
}

impl Inner {
    /// A note that is the last of what the task itself has begun, so that there is at most one of each: it has a place beyond the bound.
    fn tell(&mut self, note: Note) {
        if !self.ended {
            self.inbox.push_back(note);
            self.waker.wake_by_ref();
        }
    }

    /// The seat is with another owner, or again with the same: the client is told what was lost and what is different, sees the snapshot,
    /// and what is not saved is handed over from the number owed.
    fn goes_on(&mut self, now: Mono, at: Place, attached: &Attached, tables: &Tables) {
        let Some(seat) = &mut self.seat else { return };
        let Attached { term, tick, hash, tick_rate, generation, .. } = *attached;
        let mut before = Vec::new();
        if attached.rolled_back {
            ServerMessage::RolledBack { term, tick }.encode(&mut before);
        }
        if (seat.seat, seat.hash, seat.tick_rate) != (attached.seat, hash, tick_rate) {
            let table = attached.table.as_deref().cloned();
            ServerMessage::Renewed { seat: attached.seat, tick_rate, hash, table }.encode(&mut before);
        }
        if seat.hash != hash {
            seat.change_table(tables, hash);
        }
        (seat.seat, seat.tick_rate) = (attached.seat, tick_rate);
        (seat.first, seat.generation, seat.raised) = (generation, generation, false);
        (seat.floor, seat.at) = ((term, tick), at);
        faults::point("handoff.gateway.attached");
        if seat.ring.replay(attached.owed) {
            self.show(now, &before.into(), &attached.snapshot);
        } else {
            // Only the client may still have it: it resumes, and says from which number on.
            self.settle(Err(Broken::Behind));
        }
    }

    /// The client numbers what it sends by this table from here on; `false` if it was not told of it.
    pub(in crate::gateway) fn speaks(&mut self, hash: u64) -> bool {
        self.seat.as_mut().is_some_and(|seat| seat.speaks(hash))
    }

    /// An attach is on its way: the seat that changes hands says what it has and has seen.
    pub(in crate::gateway) fn expect(&mut self, link: &Arc<Link>, shards: u32, attach: &mut Attach, again: bool) {
        self.expecting = None;
        if let Some(seat) = self.seat.as_mut().filter(|_| again) {
            seat.at.leave();
            (attach.first, attach.shown, attach.generation) = (seat.ring.first(), seat.floor, seat.generation);
        }
        let at = link.place(attach.room.shard(shards), attach.conn);
        let (room, floor, attempt) = (attach.room.clone(), attach.shown, attach.attempt);
        self.expecting = Some(Expected { room, floor, attempt, again, at });
    }

    /// No attach is on its way.
    pub(in crate::gateway) fn expect_none(&mut self) {
        self.expecting = None;
    }

    /// No attach is on its way and there is no seat.
    pub(in crate::gateway) fn forget(&mut self) {
        self.expecting = None;
        self.seat = None;
    }

    /// Takes the seat, or the attach that is on its way, off the link.
    pub(in crate::gateway) fn off(&mut self, link: u64, shard: Option<ShardId>, why: Off) {
        let here = |at: &Place| at.is_on(link) && shard.is_none_or(|shard| at.shard() == shard);
        if let Some(Expected { attempt, .. }) = self.expecting.take_if(|expected| here(&expected.at)) {
            self.tell(Note::Again { attempt, lost: true });
        }
        let term = |term: Term| match why {
            Off::Broken => true,
            // A later activation at the same node goes on.
            Off::Moved(ended) => ended == Term(0) || term <= ended,
            Off::Newer(newer) => term < newer,
        };
        if let Some(seat) = self.seat.as_mut().filter(|seat| here(&seat.at) && term(seat.floor.0)) {
            seat.at.leave();
            self.tell(Note::Off { gone: false });
        }
    }

    /// The node does not know the room or the seat.
    pub(in crate::gateway) fn gone(&mut self, link: u64, room: &RoomId, seat: SeatId, generation: Generation) {
        let is = |own: &&mut Seat| {
            own.at.is_on(link) && own.room == *room && own.seat == seat && own.generation == generation
        };
        if let Some(seat) = self.seat.as_mut().filter(is) {
            seat.at.leave();
            self.tell(Note::Off { gone: true });
        }
    }

    /// Whether this link has the seat.
    pub(in crate::gateway) fn is_on(&self, link: u64) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.at.is_on(link))
    }

    /// The seat is given up: its detach, and where it is to go, unless it is between owners. If the player leaves, he is still to see
    /// what the room says; else the seat is no longer this connection's, and a restore that comes later gives it back itself.
    pub(in crate::gateway) fn give_up(&mut self, consented: bool) -> Option<(Arc<Link>, ToNode)> {
        let seat = self.seat.as_ref()?;
        let detach = seat.at.link().map(|link| (link.clone(), seat.detach(consented)));
        if !consented {
            self.seat = None;
        }
        detach
    }

    /// The new number of the attachment, if the room was restored since this was last asked.
    pub(in crate::gateway) fn take_raised(&mut self) -> Option<Generation> {
        let seat = self.seat.as_mut()?;
        std::mem::take(&mut seat.raised).then_some(seat.generation)
    }
}
