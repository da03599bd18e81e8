//! A connection as others see it: the stream, what leaves through it, and its seat, under one lock.
//!
//! The fan-out writes frames from its own task; the connection's task reads, flushes what was left over, and does all the rest.

mod change;
mod seat;

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Waker},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tenure_shared::{RoomId, Term, Tick, wire::ServerMessage};

pub(super) use change::Taken;
pub(super) use seat::{Expected, Seat};

use super::{
    outgoing::{Bounds, Broken, Outgoing},
    router::Link,
};
use crate::{
    link::{Attached, ConnId, Frame, FrameMember, RestoredMember, ToGateway},
    runtime::{Mono, net::Stream},
};

/// Notes of the node to one connection that may wait: it has one request open at a time, and one close.
const INBOX: usize = 16;

/// What the connection's task is told.
#[derive(Debug)]
pub(super) enum Note {
    /// By a node.
    Node(ToGateway),
    /// A seat was taken through this link.
    Attached(Attached, Arc<Link>),
    /// The attach of this number will not be answered (`lost`: it may have been carried out).
    Again { attempt: u32, lost: bool },
    /// The attach of this number was answered by an owner that is behind what was shown.
    Behind { attempt: u32 },
    /// The seat is no longer where it was attached. `gone`: its room, or the seat, is not there.
    Off { gone: bool },
    /// There is somebody to ask for the seat.
    Route,
    /// The gateway goes away: the client is to move to one of these addresses, after so many milliseconds.
    Move { urls: Arc<[String]>, after: u32 },
    /// The gateway goes away: close at this moment, and say after how many milliseconds to come back; without them, to go elsewhere.
    GoAway { at: Mono, retry: Option<u32> },
}

/// What the lock protects.
pub(super) struct Inner {
    io: Box<dyn Stream>,
    pub(super) out: Outgoing,
    waker: Waker,
    inbox: VecDeque<Note>,
    expecting: Option<Expected>,
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
    /// Older than what was shown, of a room that the connection has left, or of a node that no longer has the seat.
    Stale,
    /// Its node serves for a lower term than this one, which was shown already.
    Behind(Term),
    /// The connection does not have that seat (any more).
    Gone,
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
    pub(super) fn frame(&mut self, now: Mono, link: u64, frame: &Frame, member: FrameMember, lost: bool) -> Shown {
        let is = |seat: &&mut Seat| seat.at.is_on(link) && seat.room == frame.room;
        let Some(seat) = self.seat.as_mut().filter(is) else { return Shown::Stale };
        if self.broken.is_some() {
            return Shown::Stale;
        }
        if frame.term < seat.floor.0 {
            return Shown::Behind(seat.floor.0);
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
    pub(super) fn snapshot(&mut self, now: Mono, link: u64, (term, tick): (Term, Tick), snapshot: &Bytes) -> Shown {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.at.is_on(link)) else { return Shown::Stale };
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
        link: u64,
        room: &RoomId,
        (term, tick): (Term, Tick),
        member: &RestoredMember,
    ) -> Shown {
        let is = |seat: &&mut Seat| seat.at.is_on(link) && seat.room == *room && seat.seat == member.seat;
        let Some(seat) = self.seat.as_mut().filter(is) else { return Shown::Gone };
        if term < seat.floor.0 {
            return Shown::Behind(seat.floor.0);
        }
        if member.generation <= seat.generation {
            return Shown::Stale;
        }
        seat.floor = (term, tick);
        (seat.generation, seat.raised) = (member.generation, true);
        self.waker.wake_by_ref();
        // What is owed to the room and not kept here, the client may still have: it resumes, and says from which number on. Before
        // `joined` it does not even know which numbers to send.
        if seat.held.is_some() || !seat.ring.replay(member.owed) {
            self.settle(Err(Broken::Behind));
            return Shown::Yes;
        }
        let before = encode(&ServerMessage::RolledBack { term, tick });
        self.show(now, &before, &member.snapshot);
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

    /// The room of the seat, or of the one that is asked for.
    pub(super) fn room(&self) -> Option<&RoomId> {
        self.seat.as_ref().map(|seat| &seat.room).or(self.expecting.as_ref().map(|expected| &expected.room))
    }

    /// The next note.
    pub(super) fn take_note(&mut self) -> Option<Note> {
        self.inbox.pop_front()
    }

    /// Why the connection cannot be written to, told once.
    pub(super) fn take_broken(&mut self) -> Option<Broken> {
        self.broken.take()
    }

    /// Whether nothing more goes out or in: the task is about to close the socket.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The task ends: gives back the notes that nobody will answer (an attach may be among them), and the seat.
    pub(super) fn end(&mut self) -> (Vec<Note>, Option<Seat>) {
        self.ended = true;
        let seat = self.seat.take();
        self.forget();
        self.waker = Waker::noop().clone();
        (self.inbox.drain(..).collect(), seat)
    }

    fn settle(&mut self, written: Result<(), Broken>) {
        if let Err(broken) = written {
            self.broken.get_or_insert(broken);
            self.waker.wake_by_ref();
        }
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
