//! Carries out the effects of the state machine.

use std::task::Context;

use tenure_shared::Generation;

use super::{Effect, End, Machine, Mono, OFFER_PAUSE, SNAPSHOT_TIME, Task, ToNode, View, ending};
use crate::{
    gateway::{frame, metrics, ring::Entry},
    runtime::mailbox::Refused,
};

impl Task {
    /// Runs the machine once and does what it wants done.
    pub(super) fn step(
        &mut self,
        cx: &mut Context<'_>,
        now: Mono,
        run: impl FnOnce(&mut Machine, &View<'_>, &mut Vec<Effect>),
    ) {
        let mut out = std::mem::take(&mut self.scratch);
        run(&mut self.machine, &self.site.view(&self.conn, self.loopback, now), &mut out);
        self.effects.extend(out.drain(..));
        self.scratch = out;
        while let Some(effect) = self.effects.pop_front() {
            self.carry_out(cx, now, effect);
        }
    }

    fn carry_out(&mut self, cx: &mut Context<'_>, now: Mono, effect: Effect) {
        match effect {
            Effect::Send(bytes) => self.conn.lock().message(cx, now, &bytes),
            Effect::LoggedIn => {
                self.login_by = None;
                self.reader.set_limit(self.site.limits.client_message);
            }
            Effect::Node(mut message) => {
                self.conn.lock().give_up(&mut message);
                self.hand_over(message);
            }
            Effect::Expect(expected) => self.conn.lock().expect(expected),
            Effect::Forget => self.conn.lock().forget(),
            Effect::Ask(ask) => {
                self.asks.push_back(ask);
                // Polled for the first time in the next turn of the task.
                cx.waker().wake_by_ref();
            }
            Effect::Enter { resumed, joined, snapshot, after } => {
                metrics::joined(resumed);
                self.conn.lock().release(cx, now, &joined, &snapshot, &after);
            }
            Effect::Input { seq, request, kind, payload } => {
                self.input(cx, now, &Entry { seq, request, kind, payload, at: now });
            }
            Effect::Resync => self.resync = true,
            Effect::Close(code, reason) => {
                if !matches!(self.end, End::Open) {
                    return;
                }
                metrics::closed(code);
                tracing::debug!(conn = self.conn.id.0, code = code.name(), reason, "closing a socket");
                self.conn.lock().out.close(now, frame::close(code, &reason));
                self.end = End::Telling(now.plus(ending::CLOSE_TIME));
            }
        }
    }

    fn hand_over(&mut self, message: ToNode) {
        if matches!(message, ToNode::Detach { consented: true, .. }) {
            // Behind what the client sent before it.
            self.detaches.extend(self.leave.replace(message));
            return;
        }
        match self.site.uplink.send(message) {
            Ok(()) => {}
            Err(Refused::Full(detach @ ToNode::Detach { .. })) => self.detaches.push_back(detach),
            // The node is gone, and with it the seat's connection.
            Err(Refused::Closed(ToNode::Detach { .. })) => {}
            Err(Refused::Full(_) | Refused::Closed(_)) => {
                let mut out = Vec::new();
                self.machine.not_taken(&mut out);
                self.effects.extend(out);
            }
        }
    }

    /// A new message of the client: into the ring, and to the room unless older ones must go first.
    fn input(&mut self, cx: &mut Context<'_>, now: Mono, entry: &Entry) {
        let seq = entry.seq;
        let kept = {
            let mut inner = self.conn.lock();
            if inner.is_broken() {
                // The socket is about to be closed; the client has the message.
                return;
            }
            match &mut inner.seat {
                Some(seat) => {
                    let first = seat.ring.waiting().is_none().then_some(seat.generation);
                    seat.ring.push(entry.clone(), &self.site.limits.unsaved).map(|()| first)
                }
                None => Err("there is no seat"),
            }
        };
        let why = match kept {
            // Older ones wait, after a restore: it goes in its turn.
            Ok(None) => return,
            Ok(Some(generation)) => match self.give(entry, generation) {
                Ok(()) => return,
                Err(()) => {
                    if let Some(seat) = &mut self.conn.lock().seat {
                        seat.ring.pop(seq);
                    }
                    "the room's queue is full"
                }
            },
            Err(why) => why,
        };
        self.site.metrics.refused.increment(1);
        self.conn.lock().message(cx, now, &Machine::refuse(seq, why));
    }

    /// Gives the node a message under this number of the attachment. If the room is restored meanwhile, the node ignores it, and it is
    /// given again in its turn.
    fn give(&mut self, entry: &Entry, generation: Generation) -> Result<(), ()> {
        let Some(message) = self.machine.input_message(entry, generation) else { return Ok(()) };
        // Not under the lock: the node may answer on the spot.
        self.site.uplink.send(message).map_err(drop)?;
        if let Some(seat) = self.conn.lock().seat.as_mut().filter(|seat| seat.generation == generation) {
            seat.ring.handed_over(entry.seq);
        }
        Ok(())
    }

    /// Offers the node what it has not taken yet: detaches, the ring after a restore, a leave, wishes for snapshots.
    pub(super) fn offer(&mut self, cx: &mut Context<'_>, now: Mono) {
        if self.offer_at.is_some_and(|at| now < at) {
            return;
        }
        self.offer_at = None;
        if !(self.offer_detaches() && self.offer_ring() && self.offer_leave() && self.offer_resync(cx, now)) {
            self.offer_at = Some(now.plus(OFFER_PAUSE));
        }
    }

    pub(super) fn offer_detaches(&mut self) -> bool {
        while let Some(detach) = self.detaches.pop_front() {
            if let Err(Refused::Full(detach)) = self.site.uplink.send(detach) {
                self.detaches.push_front(detach);
                return false;
            }
        }
        true
    }

    fn offer_ring(&mut self) -> bool {
        loop {
            let next = {
                let inner = self.conn.lock();
                let seat = inner.seat.as_ref().filter(|_| !inner.is_broken());
                seat.and_then(|seat| Some((seat.ring.waiting()?.clone(), seat.generation)))
            };
            // Not in the room yet: its state machine has not seen the seat.
            let Some((entry, generation)) = next.filter(|_| self.machine.is_seated()) else { return true };
            if self.give(&entry, generation).is_err() {
                return false;
            }
        }
    }

    fn offer_leave(&mut self) -> bool {
        let Some(leave) = self.leave.take() else { return true };
        match self.site.uplink.send(leave) {
            Err(Refused::Full(leave)) => {
                self.leave = Some(leave);
                false
            }
            // If the node is gone, so is the seat's connection.
            Ok(()) | Err(Refused::Closed(_)) => true,
        }
    }

    fn offer_resync(&mut self, cx: &mut Context<'_>, now: Mono) -> bool {
        let wanted = {
            let mut inner = self.conn.lock();
            // What the socket takes now decides whether the client has drained.
            inner.flush(cx);
            if inner.out.asked().is_some_and(|at| now.since(at) >= SNAPSHOT_TIME) {
                inner.out.ask_again();
            }
            inner.out.wants_snapshot() || (self.resync && inner.out.asked().is_none())
        };
        self.resync &= wanted;
        if !wanted {
            return true;
        }
        let Some(message) = self.machine.resync_message() else {
            self.resync = false;
            return true;
        };
        // Marked before it is sent: the answer may come at once.
        self.conn.lock().out.snapshot_asked(now);
        match self.site.uplink.send(message) {
            Ok(()) => {
                self.resync = false;
                self.site.metrics.resyncs.increment(1);
                true
            }
            Err(_) => {
                self.conn.lock().out.ask_again();
                false
            }
        }
    }
}
