//! Carries out the effects of the state machine.

use std::{sync::Arc, task::Context};

use super::{Effect, End, Link, Machine, Mono, OFFER_PAUSE, SNAPSHOT_TIME, Task, ToNode, View, ending};
use crate::{
    gateway::{frame, metrics, ring::Entry},
    link::{Address, Attach, Uplink as _},
    runtime::mailbox::Refused,
};
use tenure_shared::Generation;

/// What became of a message to the room.
enum Given {
    /// It is on its way.
    Yes,
    /// The queue is full.
    Full,
    /// The link is broken: the seat is about to change hands, and the message goes to the next owner.
    Kept,
}

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
        self.count_between(now);
    }

    fn count_between(&mut self, now: Mono) {
        let metrics = &self.site.metrics;
        if self.machine.is_between() {
            self.between.get_or_insert_with(|| (now, metrics::Between::new(metrics)));
        } else if let Some((since, _)) = self.between.take()
            && self.machine.is_seated()
        {
            metrics.reattaches.increment(1);
            metrics.between_seconds.record(now.since(since).as_secs_f64());
        }
    }

    fn carry_out(&mut self, cx: &mut Context<'_>, now: Mono, effect: Effect) {
        match effect {
            Effect::Send(bytes) => self.conn.lock().message(cx, now, &bytes),
            Effect::LoggedIn => {
                self.login_by = None;
                self.reader.set_limit(self.site.limits.client_message);
            }
            Effect::Attach { attach, again } => self.attach(now, *attach, again),
            Effect::Unexpect => self.conn.lock().expect_none(),
            Effect::Find { to, find } => self.find(now, &to, find),
            Effect::GiveUp(ToNode::Detach { consented: true, .. }) => {
                // Behind what the client sent before it.
                self.leave = true;
            }
            Effect::GiveUp(_) => {
                let detach = self.conn.lock().give_up(false);
                self.hand_over(detach);
            }
            Effect::GiveBack(detach) => {
                let detach = self.from.clone().map(|link| (link, detach));
                self.hand_over(detach);
            }
            Effect::Speaks(hash) => {
                if !self.conn.lock().speaks(hash) {
                    tracing::debug!(conn = self.conn.id.0, "a client speaks by a table that is not its room's");
                }
            }
            Effect::Forget => {
                self.leave = false;
                self.conn.lock().forget();
            }
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
                self.input(cx, now, Entry { seq, request, kind, payload, at: now });
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

    /// A detach, now or as soon as the node takes it. If its link is broken, the node has taken the seat for dropped.
    fn hand_over(&mut self, detach: Option<(Arc<Link>, ToNode)>) {
        if let Some((link, detach)) = detach
            && let Err(Refused::Full(detach)) = link.send(detach)
        {
            self.detaches.push_back((link, detach));
        }
    }

    fn attach(&mut self, now: Mono, mut attach: Attach, again: bool) {
        let router = &self.site.router;
        let (attempt, shards) = (attach.attempt, router.directory.shards());
        let mut busy = false;
        if let Some(link) = router.to_owner(attach.room.shard(shards)) {
            self.conn.lock().expect(&link, shards, &mut attach, again);
            // Not under the lock: the node may answer on the spot.
            match link.send(ToNode::Attach(attach)) {
                Ok(()) => return,
                Err(refused) => busy = matches!(refused, Refused::Full(_)),
            }
            self.conn.lock().expect_none();
        }
        let mut out = Vec::new();
        self.machine.not_attached(&self.site.view(&self.conn, self.loopback, now), attempt, busy, &mut out);
        self.effects.extend(out);
    }

    fn find(&mut self, now: Mono, to: &Address, find: ToNode) {
        let (ToNode::Find { attempt, .. } | ToNode::Ask { attempt, .. }) = find else { return };
        let asked = self.site.router.to(to).is_some_and(|link| link.send(find).is_ok());
        if !asked {
            self.machine.not_asked(&self.site.view(&self.conn, self.loopback, now), attempt);
        }
    }

    /// A new message of the client: into the ring, and to the room unless older ones must go first, or nobody has the seat.
    fn input(&mut self, cx: &mut Context<'_>, now: Mono, mut entry: Entry) {
        let seq = entry.seq;
        let kept = {
            let mut inner = self.conn.lock();
            if inner.is_broken() {
                // The socket is about to be closed; the client has the message.
                return;
            }
            match &mut inner.seat {
                Some(seat) => {
                    entry.kind = seat.kind(entry.request.is_some(), entry.kind);
                    let link = seat.at.link().filter(|_| seat.ring.waiting().is_none());
                    let way = link.map(|link| (link.clone(), seat.generation, seat.input(&entry)));
                    seat.ring.push(entry, &self.site.limits.unsaved).map(|()| way)
                }
                None => Err("there is no seat"),
            }
        };
        let why = match kept {
            // It goes in its turn.
            Ok(None) => return,
            Ok(Some((link, generation, message))) => match self.give(&link, seq, generation, message) {
                Given::Yes | Given::Kept => return,
                Given::Full => {
                    if let Some(seat) = &mut self.conn.lock().seat {
                        seat.ring.pop(seq);
                    }
                    "the room's queue is full"
                }
            },
            Err(why) => why,
        };
        self.site.metrics.refused.increment(1);
        if self.between.is_some() {
            self.site.metrics.between_refused.increment(1);
        }
        self.conn.lock().message(cx, now, &Machine::refuse(seq, why));
    }

    /// Gives the node a message under this number of the attachment. If the room is restored meanwhile, the node ignores it, and it is
    /// given again in its turn.
    fn give(&mut self, link: &Arc<Link>, seq: tenure_shared::Seq, generation: Generation, message: ToNode) -> Given {
        // Not under the lock: the node may answer on the spot.
        match link.send(message) {
            Ok(()) => {}
            Err(Refused::Closed(_)) if link.is_broken() => return Given::Kept,
            Err(_) => return Given::Full,
        }
        let is = |seat: &&mut super::Seat| seat.generation == generation && seat.at.is_on(link.id);
        if let Some(seat) = self.conn.lock().seat.as_mut().filter(is) {
            seat.ring.handed_over(seq);
        }
        Given::Yes
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

    /// All of them: one node that takes none does not keep the others' seats taken.
    pub(super) fn offer_detaches(&mut self) -> bool {
        for _ in 0..self.detaches.len() {
            let detach = self.detaches.pop_front();
            self.hand_over(detach);
        }
        self.detaches.is_empty()
    }

    fn offer_ring(&mut self) -> bool {
        loop {
            let next = {
                let inner = self.conn.lock();
                let seat = inner.seat.as_ref().filter(|_| !inner.is_broken());
                seat.and_then(|seat| {
                    let (entry, link) = (seat.ring.waiting()?, seat.at.link()?);
                    Some((link.clone(), entry.seq, seat.generation, seat.input(entry)))
                })
            };
            // Not in the room yet: its state machine has not seen the seat.
            let Some((link, seq, generation, message)) = next.filter(|_| self.machine.is_seated()) else { return true };
            match self.give(&link, seq, generation, message) {
                Given::Yes => {}
                Given::Full => return false,
                Given::Kept => return true,
            }
        }
    }

    fn offer_leave(&mut self) -> bool {
        if !self.leave {
            return true;
        }
        // Between owners it is kept: the machine says it again to the next one.
        let Some((link, leave)) = self.conn.lock().give_up(true) else { return true };
        let taken = !matches!(link.send(leave), Err(Refused::Full(_)));
        self.leave = !taken;
        taken
    }

    fn offer_resync(&mut self, cx: &mut Context<'_>, now: Mono) -> bool {
        let wanted = {
            let mut inner = self.conn.lock();
            // What the socket takes now decides whether the client has drained.
            inner.flush(cx);
            if inner.out.asked().is_some_and(|at| now.since(at) >= SNAPSHOT_TIME) {
                inner.out.ask_again();
            }
            let wanted = inner.out.wants_snapshot() || (self.resync && inner.out.asked().is_none());
            // Between owners it is moot: a snapshot comes with the next one.
            let seat = inner.seat.as_ref().filter(|_| wanted && self.machine.may_resync());
            seat.and_then(|seat| Some((seat.at.link()?.clone(), seat.resync())))
        };
        let Some((link, message)) = wanted else {
            self.resync = false;
            return true;
        };
        // Marked before it is sent: the answer may come at once.
        self.conn.lock().out.snapshot_asked(now);
        match link.send(message) {
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
