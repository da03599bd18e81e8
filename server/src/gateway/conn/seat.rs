//! A connection's seat, and the one it has asked for.

use bytes::Bytes;
use tenure_shared::{Generation, RoomId, SeatId, Term, Tick};

use super::Attached;
use crate::{
    gateway::{
        ring::{Entry, Ring},
        router::Place,
        tables::{Kinds, Tables},
    },
    link::{Input, ToNode},
};

/// Frames kept between an attach and its `joined`; then state is left out and a snapshot asked for.
pub(super) const HELD_FRAMES: usize = 128;
/// A number that is in no name table: the room answers a message of it with `unknown_message`.
const UNKNOWN: u16 = u16::MAX;
/// Earlier tables that are remembered until the client has answered them.
const TOLD: usize = 8;

/// Frames that came before `joined` was sent.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) frames: Vec<(Bytes, Bytes)>,
    pub(super) bytes: usize,
    pub(super) lost: bool,
}

/// The seat that this connection has.
#[derive(Debug)]
pub(in crate::gateway) struct Seat {
    pub(super) room: RoomId,
    pub(super) seat: SeatId,
    /// Number of the attachment that was answered to this connection.
    pub(super) first: Generation,
    /// Its number now: each restore of the room in place raises it.
    pub(in crate::gateway) generation: Generation,
    /// Whether it was raised since the task last looked.
    pub(super) raised: bool,
    /// Newest (term, tick) shown: nothing older follows (H7).
    pub(super) floor: (Term, Tick),
    pub(in crate::gateway) ring: Ring,
    /// Set until `joined` is sent.
    pub(super) held: Option<Held>,
    /// The link it is on, or between owners.
    pub(in crate::gateway) at: Place,
    /// Hash of the room's name table, and what the client was told with it.
    pub(super) hash: u64,
    pub(super) tick_rate: u32,
    /// Hash of the name table by which the client numbers what it sends.
    pub(super) spoken: u64,
    /// From that to the room's, where they differ.
    pub(super) kinds: Option<Kinds>,
    /// Tables that the client was told of before the room's, newest last and at most [`TOLD`], and from each to the room's: the client
    /// answers each in turn, and the room may have changed hands again meanwhile.
    pub(super) told: Vec<(u64, Kinds)>,
}

/// An attach whose answer is awaited.
#[derive(Debug)]
pub(in crate::gateway) struct Expected {
    pub(in crate::gateway) room: RoomId,
    /// What must not be undercut.
    pub(in crate::gateway) floor: (Term, Tick),
    /// An answer to an earlier attempt is nobody's.
    pub(in crate::gateway) attempt: u32,
    /// The seat is this connection's: it changes hands.
    pub(in crate::gateway) again: bool,
    /// Who was asked.
    pub(in crate::gateway) at: Place,
}

impl Seat {
    pub(super) fn new(expected: Expected, attached: &Attached) -> Self {
        Self {
            room: attached.room.clone(),
            seat: attached.seat,
            first: attached.generation,
            generation: attached.generation,
            raised: false,
            floor: expected.floor.max((attached.term, attached.tick)),
            ring: Ring::new(attached.owed),
            held: Some(Held::default()),
            at: expected.at,
            hash: attached.hash,
            tick_rate: attached.tick_rate,
            spoken: attached.hash,
            kinds: None,
            told: Vec::new(),
        }
    }

    /// The detach of this attachment.
    pub(in crate::gateway) fn detach(&self, consented: bool) -> ToNode {
        let (room, seat, generation) = (self.room.clone(), self.seat, self.generation);
        ToNode::Detach { room, seat, generation, consented }
    }

    /// A kept message as a node is given it.
    pub(in crate::gateway) fn input(&self, entry: &Entry) -> ToNode {
        ToNode::Input(Input {
            room: self.room.clone(),
            seat: self.seat,
            generation: self.generation,
            seq: entry.seq,
            request: entry.request,
            kind: entry.kind,
            payload: entry.payload.clone(),
        })
    }

    /// Asks for a snapshot.
    pub(in crate::gateway) fn resync(&self) -> ToNode {
        let (room, seat, generation) = (self.room.clone(), self.seat, self.generation);
        ToNode::Resync { room, seat, generation }
    }

    /// The number of the attachment, if it was raised and the task has not looked.
    pub(in crate::gateway) fn raised(&self) -> Option<Generation> {
        self.raised.then_some(self.generation)
    }

    /// What a kind that the client said is in the room's table.
    pub(in crate::gateway) fn kind(&self, is_request: bool, kind: u16) -> u16 {
        self.kinds.as_ref().map_or(kind, |kinds| kinds.get(is_request, kind).unwrap_or(UNKNOWN))
    }

    /// The room goes on under another table.
    pub(super) fn change_table(&mut self, tables: &Tables, hash: u64) {
        let known: Vec<u64> =
            self.told.iter().map(|(told, _)| *told).chain([self.hash]).filter(|h| *h != hash).collect();
        self.translate(&tables.between(self.hash, hash));
        self.kinds = (self.spoken != hash).then(|| tables.between(self.spoken, hash));
        self.told =
            known.iter().skip(known.len().saturating_sub(TOLD)).map(|h| (*h, tables.between(*h, hash))).collect();
        self.hash = hash;
    }

    /// The client numbers what it sends by this table from here on; `false` if it was not told of it.
    pub(super) fn speaks(&mut self, hash: u64) -> bool {
        if hash == self.hash {
            (self.spoken, self.kinds) = (hash, None);
            return true;
        }
        let Some((_, kinds)) = self.told.iter().rev().find(|(told, _)| *told == hash) else { return false };
        (self.spoken, self.kinds) = (hash, Some(kinds.clone()));
        true
    }

    /// What was kept goes on under another table.
    fn translate(&mut self, kinds: &Kinds) {
        self.ring.translate(|is_request, kind| kinds.get(is_request, kind).unwrap_or(UNKNOWN));
    }
}

impl Held {
    /// `false` when even the tails are more than may wait for a client.
    pub(super) fn push(&mut self, body: &Bytes, tail: &Bytes, lost: bool, bound: usize) -> bool {
        self.lost |= lost || self.frames.len() >= HELD_FRAMES || self.bytes + body.len() > bound;
        let body = if self.lost { Bytes::new() } else { body.clone() };
        if body.is_empty() && tail.is_empty() {
            return true;
        }
        self.bytes += body.len() + tail.len();
        self.frames.push((body, tail.clone()));
        self.bytes <= 2 * bound && self.frames.len() <= 2 * HELD_FRAMES
    }
}
