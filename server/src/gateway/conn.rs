//! A connection as others see it: the stream, what leaves through it, and its seat, under one lock.
//!
//! The fan-out writes frames from its own task; the connection's task reads, flushes what was left over, and does all the rest.

use std::{
    collections::VecDeque,
    task::{Context, Waker},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tenure_shared::{RoomId, Term, Tick, wire::ServerMessage};

use super::{
    outgoing::{Bounds, Broken, Outgoing},
    ring::Ring,
};
use crate::{
    link::{Attached, ConnId, Frame, FrameMember, RestoredMember, ToGateway},
    runtime::{Mono, net::Stream},
};

/// Notes of the node to one connection that may wait: it has one request open at a time, and one close.
const INBOX: usize = 16;
/// Frames kept between an attach and its `joined`; then state is left out and a snapshot asked for.
const HELD_FRAMES: usize = 128;

/// What the connection's task is told.
#[derive(Debug)]
pub(super) enum Note {
    /// By the node.
    Node(ToGateway),
    /// The gateway goes away: close at this moment, and say after how many milliseconds to come back.
    Restart { at: Mono, retry: u32 },
}

/// Frames that came before `joined` was sent.
#[derive(Debug, Default)]
struct Held {
    frames: Vec<(Bytes, Bytes)>,
    bytes: usize,
    lost: bool,
}

/// The seat that this connection has.
#[derive(Debug)]
pub(super) struct Seat {
    room: RoomId,
    /// Newest (term, tick) shown: nothing older follows (H7).
    floor: (Term, Tick),
    pub(super) ring: Ring,
    /// Set until `joined` is sent.
    held: Option<Held>,
}

/// What the lock protects.
pub(super) struct Inner {
    io: Box<dyn Stream>,
    pub(super) out: Outgoing,
    waker: Waker,
    inbox: VecDeque<Note>,
    /// The room whose answer to an attach is awaited, and what must not be undercut.
    expecting: Option<(RoomId, (Term, Tick))>,
    pub(super) seat: Option<Seat>,
    broken: Option<Broken>,
    /// The task is gone.
    ended: bool,
}

/// A connection.
pub(super) struct Conn {
    pub(super) id: ConnId,
    inner: Mutex<Inner>,
}

/// What became of a frame for one member; for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Written, or waits in order.
    Yes,
    /// Older than what was shown, or of a room that the connection has left.
    Stale,
}

impl Conn {
    pub(super) fn new(id: ConnId, io: Box<dyn Stream>, bounds: Bounds) -> Self {
        let inner = Inner {
            io,
            out: Outgoing::new(bounds),
            waker: Waker::noop().clone(),
            inbox: VecDeque::new(),
            expecting: None,
            seat: None,
            broken: None,
            ended: false,
        };
        Self { id, inner: Mutex::new(inner) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Leaves a note and wakes the task; `false` if the task is gone or its inbox is at its bound.
    pub(super) fn note(&self, note: Note) -> bool {
        self.lock().note(note)
    }

    /// The answer to an attach: from here on frames are kept until `joined` is sent. Gives it back if nobody waits for it.
    pub(super) fn attached(&self, attached: Attached) -> Result<(), Attached> {
        let mut inner = self.lock();
        match &inner.expecting {
            Some((room, _)) if *room == attached.room && !inner.ended => {}
            _ => return Err(attached),
        }
        let floor = inner.expecting.take().map_or((Term(0), Tick(0)), |(_, floor)| floor);
        let seat = Seat {
            room: attached.room.clone(),
            floor: floor.max((attached.term, attached.tick)),
            ring: Ring::default(),
            held: Some(Held::default()),
        };
        inner.seat = Some(seat);
        // At most one beyond the bound: it is the answer to the only attach on its way.
        inner.inbox.push_back(Note::Node(ToGateway::Attached(attached)));
        inner.waker.wake_by_ref();
        Ok(())
    }
}

impl Inner {
    fn note(&mut self, note: Note) -> bool {
        if self.ended || self.inbox.len() >= INBOX {
            return false;
        }
        self.inbox.push_back(note);
        self.waker.wake_by_ref();
        true
    }

    /// A frame of a room, for this connection. `lost`: its state was dropped on the way.
    pub(super) fn frame(&mut self, now: Mono, frame: &Frame, member: FrameMember, lost: bool) -> Shown {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.room == frame.room) else { return Shown::Stale };
        if frame.term < seat.floor.0 || self.broken.is_some() {
            return Shown::Stale;
        }
        seat.ring.trim(member.saved);
        let tail = member.start as usize..(member.end as usize).min(frame.tails.len());
        let tail = if tail.start <= tail.end { tail } else { 0..0 };
        let newer = (frame.term, frame.tick) > seat.floor;
        let nothing = Bytes::new();
        let body = if newer { &frame.body } else { &nothing };
        if let Some(held) = &mut seat.held {
            if newer {
                seat.floor = (frame.term, frame.tick);
            }
            if !held.push(body, &frame.tails.slice(tail), lost, self.out.bound()) {
                self.settle(Err(Broken::Slow));
            }
            return Shown::Yes;
        }
        if newer {
            seat.floor = (frame.term, frame.tick);
        }
        if lost {
            self.out.leave_state_out();
        }
        let mut cx = Context::from_waker(&self.waker);
        let written = self.out.frame(&mut *self.io, &mut cx, now, body, &frame.tails, tail);
        // Asked for by the task: it knows the way to the node.
        if self.out.wants_snapshot() {
            self.waker.wake_by_ref();
        }
        self.settle(written);
        if newer || body.len() == frame.body.len() { Shown::Yes } else { Shown::Stale }
    }

    /// The snapshot that was asked for.
    pub(super) fn snapshot(&mut self, now: Mono, term: Term, tick: Tick, snapshot: &Bytes) -> Shown {
        let Some(seat) = &mut self.seat else { return Shown::Stale };
        if (term, tick) < seat.floor || self.out.asked().is_none() {
            return Shown::Stale;
        }
        seat.floor = (term, tick);
        self.show(now, &Bytes::new(), snapshot);
        Shown::Yes
    }

    /// The room was restored: says so, shows the snapshot, and has the ring handed over again.
    pub(super) fn restored(
        &mut self,
        now: Mono,
        room: &RoomId,
        (term, tick): (Term, Tick),
        member: &RestoredMember,
    ) -> Shown {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.room == *room) else { return Shown::Stale };
        if term < seat.floor.0 {
            return Shown::Stale;
        }
        // Within a term the tick may go back here, and only here: the client is told.
        seat.floor = (term, tick);
        seat.ring.replay(member.owed);
        let before = encode(&ServerMessage::RolledBack { term, tick });
        if let Some(held) = &mut seat.held {
            held.frames.push((Bytes::new(), before));
            held.lost = true;
        } else {
            self.show(now, &before, &member.snapshot);
        }
        self.waker.wake_by_ref();
        Shown::Yes
    }

    fn show(&mut self, now: Mono, before: &Bytes, snapshot: &Bytes) {
        let mut cx = Context::from_waker(&self.waker);
        let written = self.out.snapshot(&mut *self.io, &mut cx, now, before, snapshot);
        self.settle(written);
    }

    /// Writes `joined` and the snapshot, then the frames that came meanwhile.
    pub(super) fn release(&mut self, cx: &mut Context<'_>, now: Mono, joined: &Bytes, snapshot: &Bytes, after: &Bytes) {
        let Some(held) = self.seat.as_mut().and_then(|seat| seat.held.take()) else { return };
        self.out.fresh();
        let mut write = || {
            self.out.snapshot(&mut *self.io, cx, now, joined, snapshot)?;
            if !after.is_empty() {
                self.out.message(&mut *self.io, cx, now, after)?;
            }
            if held.lost {
                self.out.leave_state_out();
            }
            for (body, tail) in &held.frames {
                self.out.frame(&mut *self.io, cx, now, body, tail, 0..tail.len())?;
            }
            Ok(())
        };
        let written = write();
        self.settle(written);
    }

    /// Writes a message that must not be left out.
    pub(super) fn message(&mut self, cx: &mut Context<'_>, now: Mono, bytes: &Bytes) {
        let written = self.out.message(&mut *self.io, cx, now, bytes);
        self.settle(written);
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) {
        let written = self.out.flush(&mut *self.io, cx);
        self.settle(written);
    }

    /// The stream, for reading and for its end; writing goes through [`Inner::out`] alone.
    pub(super) fn io(&mut self) -> &mut dyn Stream {
        &mut *self.io
    }

    /// From here on others wake this task.
    pub(super) fn watch(&mut self, waker: &Waker) {
        if !self.waker.will_wake(waker) {
            self.waker = waker.clone();
        }
    }

    /// The room of the seat, if there is one.
    pub(super) fn room(&self) -> Option<&RoomId> {
        self.seat.as_ref().map(|seat| &seat.room)
    }

    /// The next note.
    pub(super) fn take_note(&mut self) -> Option<Note> {
        self.inbox.pop_front()
    }

    /// Why the connection cannot be written to, told once.
    pub(super) fn take_broken(&mut self) -> Option<Broken> {
        self.broken.take()
    }

    /// An attach is on its way.
    pub(super) fn expect(&mut self, room: RoomId, floor: (Term, Tick)) {
        self.expecting = Some((room, floor));
    }

    /// No attach is on its way and there is no seat.
    pub(super) fn forget(&mut self) {
        self.expecting = None;
        self.seat = None;
    }

    /// This room's seat is not wanted (any more).
    pub(super) fn unseat(&mut self, room: &RoomId) {
        if self.room() == Some(room) {
            self.seat = None;
        }
    }

    /// The task ends: gives the attach back that nobody will answer, if there is one.
    pub(super) fn end(&mut self) -> Vec<Note> {
        self.ended = true;
        self.forget();
        self.waker = Waker::noop().clone();
        self.inbox.drain(..).collect()
    }

    fn settle(&mut self, written: Result<(), Broken>) {
        if let Err(broken) = written {
            self.broken.get_or_insert(broken);
            self.waker.wake_by_ref();
        }
    }
}

impl Held {
    /// `false` when even the tails are more than may wait for a client.
    fn push(&mut self, body: &Bytes, tail: &Bytes, lost: bool, bound: usize) -> bool {
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

/// One message as the bytes of a WebSocket message.
pub(super) fn encode(message: &ServerMessage<'_>) -> Bytes {
    let mut out = Vec::with_capacity(64);
    message.encode(&mut out);
    out.into()
}

#[cfg(test)]
#[path = "conn_tests.rs"]
mod tests;
