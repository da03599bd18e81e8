//! How a connection ends: the close is written, the rest of what the client sends is read and thrown away for a moment, so that it
//! sees the code instead of a reset; then the seat is given up and the number taken out.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::ReadBuf;

use super::{Ask, Incoming, Mono, OFFER_PAUSE, Task};
use crate::gateway::{conn::Note, state::detach};

/// How long a client may take to read the close and answer it.
pub(super) const CLOSE_TIME: Duration = Duration::from_secs(2);
/// When it is said that the node does not take the detaches of a socket that is gone. They are offered as long as the gateway lives; the
/// socket keeps its place until then, so that there are no more of them than sockets may be.
const DETACH_TIME: Duration = Duration::from_secs(10);
/// Bytes thrown away in one turn.
const DRAIN_BYTES: usize = 64 * 1024;

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Not begun.
    Open,
    /// The answer to the client's close is being written.
    Answering(Mono),
    /// Our close is being written.
    Telling(Mono),
    /// It is written; what still comes is thrown away.
    Draining(Mono),
    /// Over.
    Done,
}

impl End {
    pub(super) fn until(self) -> Option<Mono> {
        match self {
            End::Answering(until) | End::Telling(until) | End::Draining(until) => Some(until),
            End::Open | End::Done => None,
        }
    }
}

impl Task {
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>, now: Mono) -> Poll<()> {
        loop {
            if self.end.until().is_some_and(|until| now >= until) {
                self.end = End::Done;
            }
            match self.end {
                End::Open => return Poll::Pending,
                End::Done => return Poll::Ready(()),
                End::Answering(until) | End::Telling(until) => {
                    let mut inner = self.conn.lock();
                    inner.flush(cx);
                    if inner.take_broken().is_some() {
                        self.end = End::Done;
                    } else if !inner.out.is_idle() || Pin::new(inner.io()).poll_shutdown(cx).is_pending() {
                        return Poll::Pending;
                    } else {
                        let ours = matches!(self.end, End::Telling(_));
                        self.end = if ours { End::Draining(until) } else { End::Done };
                    }
                }
                End::Draining(_) => {
                    ready!(self.drain(cx));
                    self.end = End::Done;
                }
            }
        }
    }

    /// Throws away what comes; ready when the client has closed its side, or has answered our close.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.unreadable {
            match ready!(self.reader.poll(&self.conn, cx)) {
                Incoming::Message(_) | Incoming::Control => {}
                Incoming::Closed | Incoming::Gone => return Poll::Ready(()),
                Incoming::Fault(..) => self.unreadable = true,
            }
        }
        let mut inner = self.conn.lock();
        let mut scratch = [0; 2 * 1024];
        for _ in 0..DRAIN_BYTES / scratch.len() {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(inner.io()).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Gives the seat up and takes the number out.
    pub(super) async fn finish(mut self: Box<Self>) {
        self.site.conns.remove(self.conn.id);
        self.site.metrics.sockets.decrement(1.0);
        self.between = None;
        let mut out = Vec::new();
        let now = self.site.clock.now();
        let (notes, seat) = self.conn.lock().end();
        // A leave that was said under an older number of the attachment is said again.
        if let Some(generation) = seat.as_ref().and_then(super::Seat::raised) {
            self.machine.raised(generation, &mut out);
            self.leave |= !out.is_empty();
        }
        let seat = seat.as_ref();
        for note in notes {
            // An attach that nobody has taken up: the machine gives it back.
            if let Note::Attached(attached, link) = note {
                self.detaches.push_back((link, detach(&attached)));
            }
        }
        self.machine.gone(&mut out);
        let gives_up = out.iter().any(|effect| matches!(effect, super::Effect::GiveUp(_)));
        if let Some((seat, link)) =
            seat.and_then(|seat| Some((seat, seat.at.link()?))).filter(|_| self.leave || gives_up)
        {
            self.detaches.push_back((link.clone(), seat.detach(self.leave)));
        }
        let (limit, mut said) = (now.plus(DETACH_TIME), false);
        while !self.offer_detaches() {
            if !said && self.site.clock.now() >= limit {
                said = true;
                tracing::error!("the node takes no detaches: a seat stays connected until it does");
            }
            self.site.clock.sleep(OFFER_PAUSE).await;
        }
        // What the store was asked for stands, although nobody waits for it any more; each answer has its own time limit.
        if let Some(answer) = self.answer.take() {
            answer.await;
        }
        for ask in std::mem::take(&mut self.asks) {
            if matches!(ask, Ask::Delete { .. } | Ask::Acknowledge { .. } | Ask::Reseat { .. }) {
                self.site.sessions.clone().answer(ask).await;
            }
        }
    }
}
