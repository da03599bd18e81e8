//! All bytes of a connection leave through its `Outgoing`, under the connection's lock (docs/ARCHITECTURE.md).
//!
//! A frame is written at once, by whoever has it, as `[header on the stack][shared body][private tail]`: no queue, no copy, no
//! wake-up. What the socket does not take is kept as references into the same shared bytes, with the number of bytes already
//! written. Control frames wait in a small buffer and go out between frames. A client that reads too slowly first loses
//! superseded state (bodies; one snapshot makes up for them when it has drained), then its socket; what is in tails is never
//! left out.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    ops::Range,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

use super::frame::{Head, PING_FRAME};
use crate::runtime::{Mono, net::Stream};

/// Bytes of control frames that may wait. A pong has at most 127; more pings than that are answered by the newest pong only.
pub(super) const CONTROL_BYTES: usize = 512;

/// Bounds of what may wait for one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) resync_after: Duration,
    pub(super) close_after: Duration,
}

/// Why a connection cannot be written to any more.
#[derive(Debug)]
pub(super) enum Broken {
    /// The socket failed.
    Io(io::Error),
    /// The client reads too slowly: what may not be left out exceeds the bound.
    Slow,
    /// The room was restored to a moment before what is kept here: the client must resume.
    Behind,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Io(error)
    }
}

/// A message that the socket did not take whole.
#[derive(Debug)]
struct Waiting {
    head: Head,
    /// State: superseded by a snapshot.
    body: Bytes,
    /// The body is a snapshot: it does not count against the bound, or a large room could never be shown.
    snapshot: bool,
    /// Everything else.
    tail: Bytes,
    /// Bytes already written.
    sent: usize,
    /// A finished frame of its own (close): no header is put before it.
    raw: bool,
}

impl Waiting {
    fn head(&self) -> &[u8] {
        if self.raw { &[] } else { self.head.as_slice() }
    }

    fn len(&self) -> usize {
        self.head().len() + self.body.len() + self.tail.len()
    }

    /// What is still to be written and counts against the bounds.
    fn left(&self) -> Left {
        let body = (self.head().len() + self.body.len()).saturating_sub(self.sent.max(self.head().len()));
        let owed = self.len() - self.sent - body;
        Left { bytes: if self.snapshot { owed } else { owed + body }, owed }
    }
}

/// Bytes that wait.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// All but snapshots. Above the bound, state is left out.
    bytes: usize,
    /// What must not be left out. Above the bound, the client is too slow.
    owed: usize,
}

impl Left {
    fn add(&mut self, other: Left) {
        self.bytes += other.bytes;
        self.owed += other.owed;
    }
}

/// What waits for a client, and how it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    bounds: Bounds,
    queue: VecDeque<Waiting>,
    /// Of the queue.
    left: Left,
    control: Vec<u8>,
    control_sent: usize,
    /// Since when something waits.
    since: Option<Mono>,
    /// State was left out: only a snapshot may follow.
    stale: bool,
    /// When a snapshot was asked for.
    asked: Option<Mono>,
    /// A close frame is written or waits: nothing follows it.
    closing: bool,
}

impl Outgoing {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            queue: VecDeque::new(),
            left: Left::default(),
            control: Vec::new(),
            control_sent: 0,
            since: None,
            stale: false,
            asked: None,
            closing: false,
        }
    }

    /// Writes a message: `body` is state that a snapshot supersedes, `tails[tail]` is everything else. Either may be empty.
    pub(super) fn frame(
        &mut self,
        io: &mut dyn Stream,
        cx: &mut Context<'_>,
        now: Mono,
        body: &Bytes,
        tails: &Bytes,
        tail: Range<usize>,
    ) -> Result<(), Broken> {
        self.write_or_wait(io, cx, now, (body, false), (tails, tail))
    }

    fn write_or_wait(
        &mut self,
        io: &mut dyn Stream,
        cx: &mut Context<'_>,
        now: Mono,
        (body, snapshot): (&Bytes, bool),
        (tails, tail): (&Bytes, Range<usize>),
    ) -> Result<(), Broken> {
        if self.closing {
            return Ok(());
        }
        let nothing = Bytes::new();
        let mut body = if self.stale { &nothing } else { body };
        let private = tails.get(tail.clone()).unwrap_or_default();
        if body.is_empty() && private.is_empty() {
            return Ok(());
        }
        if !self.is_idle() {
            let beyond = self.left.bytes + body.len() + private.len() > self.bounds.bytes;
            let old = self.since.is_some_and(|since| now.since(since) > self.bounds.resync_after);
            if (beyond || old) && !body.is_empty() && !snapshot {
                self.leave_state_out();
                body = &nothing;
                if private.is_empty() {
                    return Ok(());
                }
            }
            if !private.is_empty() && self.left.owed + private.len() > self.bounds.bytes {
                return Err(Broken::Slow);
            }
            self.wait(now, (body.clone(), snapshot), tails.slice(tail), 0);
            return Ok(());
        }
        let head = Head::binary(body.len() + private.len());
        let total = head.as_slice().len() + body.len() + private.len();
        let mut sent = 0;
        while sent < total {
            match write(io, cx, [head.as_slice(), body, private], sent)? {
                Poll::Ready(n) => sent += n,
                Poll::Pending => {
                    self.wait(now, (body.clone(), snapshot), tails.slice(tail), sent);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes a message that must not be left out.
    pub(super) fn message(
        &mut self,
        io: &mut dyn Stream,
        cx: &mut Context<'_>,
        now: Mono,
        bytes: &Bytes,
    ) -> Result<(), Broken> {
        self.frame(io, cx, now, &Bytes::new(), bytes, 0..bytes.len())
    }

    /// Writes a snapshot, with `before` in front of it: from here on state may follow again. It takes the place of all state that
    /// waits and was not begun, so at most one waits whole, and one is being written.
    pub(super) fn snapshot(
        &mut self,
        io: &mut dyn Stream,
        cx: &mut Context<'_>,
        now: Mono,
        before: &Bytes,
        snapshot: &Bytes,
    ) -> Result<(), Broken> {
        if !before.is_empty() {
            self.message(io, cx, now, before)?;
        }
        if !self.is_idle() {
            self.leave_state_out();
        }
        self.stale = false;
        self.asked = None;
        self.write_or_wait(io, cx, now, (snapshot, true), (&Bytes::new(), 0..0))
    }

    /// Takes whole control frames as they come from the protocol layer, all or nothing; `false` when there is no room.
    pub(super) fn control(&mut self, frames: &[u8]) -> bool {
        if self.closing {
            return true;
        }
        if self.control.len() + frames.len() > CONTROL_BYTES {
            return false;
        }
        self.control.extend_from_slice(frames);
        true
    }

    /// A ping, unless the buffer is full: then something else will tell whether the client lives.
    pub(super) fn ping(&mut self) {
        self.control(&PING_FRAME);
    }

    /// Queues a close frame behind what must not be left out.
    pub(super) fn close(&mut self, now: Mono, frame: Vec<u8>) {
        if self.closing {
            return;
        }
        self.leave_state_out();
        self.closing = true;
        if self.control_sent == 0 {
            self.control.clear();
        }
        let (head, body, tail) = (Head::binary(0), Bytes::new(), frame.into());
        let waiting = Waiting { head, body, snapshot: false, tail, sent: 0, raw: true };
        self.left.add(waiting.left());
        self.queue.push_back(waiting);
        self.since.get_or_insert(now);
    }

    /// Writes what waits, as far as the socket takes it. The context's task is woken when it takes more.
    pub(super) fn flush(&mut self, io: &mut dyn Stream, cx: &mut Context<'_>) -> Result<(), Broken> {
        loop {
            let at_boundary = self.queue.front().is_none_or(|front| front.sent == 0);
            if at_boundary && self.control_sent < self.control.len() {
                match write(io, cx, [&self.control, &[], &[]], self.control_sent)? {
                    Poll::Ready(n) => self.control_sent += n,
                    Poll::Pending => return Ok(()),
                }
                if self.control_sent == self.control.len() {
                    self.control.clear();
                    self.control_sent = 0;
                }
                continue;
            }
            let Some(front) = self.queue.front_mut() else {
                self.since = None;
                return Ok(());
            };
            match write(io, cx, [front.head(), &front.body, &front.tail], front.sent)? {
                Poll::Ready(n) => {
                    let before = front.left();
                    front.sent += n;
                    let after = front.left();
                    self.left.bytes -= before.bytes - after.bytes;
                    self.left.owed -= before.owed - after.owed;
                    if front.sent == front.len() {
                        self.queue.pop_front();
                    }
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// State was lost on its way here, or is left out from now on: only a snapshot may follow.
    pub(super) fn leave_state_out(&mut self) {
        self.stale = true;
        for waiting in self.queue.iter_mut().filter(|w| w.sent == 0 && !w.body.is_empty()) {
            waiting.body = Bytes::new();
            waiting.head = Head::binary(waiting.tail.len());
        }
        self.queue.retain(|w| w.sent > 0 || w.len() > w.head().len());
        self.left = Left::default();
        self.queue.iter().for_each(|w| self.left.add(w.left()));
    }

    /// Whether a snapshot is to be asked for now: state was left out and everything else has been written.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.stale && self.asked.is_none() && self.is_idle() && !self.closing
    }

    /// A snapshot was asked for, by us or by the client.
    pub(super) fn snapshot_asked(&mut self, now: Mono) {
        self.asked = Some(now);
    }

    /// When the snapshot that has not come yet was asked for.
    pub(super) fn asked(&self) -> Option<Mono> {
        self.asked
    }

    /// The answer may be lost: ask again.
    pub(super) fn ask_again(&mut self) {
        self.asked = None;
        self.stale = true;
    }

    /// Another room begins: what the last one owed counts no more.
    pub(super) fn fresh(&mut self) {
        self.stale = false;
        self.asked = None;
    }

    /// When the client has read too slowly for too long, if something waits.
    pub(super) fn closes_at(&self) -> Option<Mono> {
        self.since.map(|since| since.plus(self.bounds.close_after))
    }

    /// Bytes that may wait.
    pub(super) fn bound(&self) -> usize {
        self.bounds.bytes
    }

    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.control.is_empty()
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let queued: usize = self.queue.iter().map(|w| w.len() - w.sent).sum();
        queued + self.control.len() - self.control_sent
    }

    fn wait(&mut self, now: Mono, (body, snapshot): (Bytes, bool), tail: Bytes, sent: usize) {
        let head = Head::binary(body.len() + tail.len());
        let waiting = Waiting { head, body, snapshot, tail, sent, raw: false };
        self.left.add(waiting.left());
        self.queue.push_back(waiting);
        self.since.get_or_insert(now);
    }
}

/// One write of the parts from offset `skip` on; at least one byte must be left.
fn write(io: &mut dyn Stream, cx: &mut Context<'_>, parts: [&[u8]; 3], mut skip: usize) -> io::Result<Poll<usize>> {
    let mut slices = [IoSlice::new(&[]); 3];
    let mut used = 0;
    for part in parts {
        if skip < part.len() {
            slices[used] = IoSlice::new(&part[skip..]);
            used += 1;
        }
        skip = skip.saturating_sub(part.len());
    }
    match Pin::new(io).poll_write_vectored(cx, &slices[..used]) {
        Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
        Poll::Ready(Ok(n)) => Ok(Poll::Ready(n)),
        Poll::Ready(Err(error)) => Err(error),
        Poll::Pending => Ok(Poll::Pending),
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
