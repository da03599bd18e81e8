//! The task of a connection: reads, runs the state machine, carries out its effects, keeps the times.

mod ending;
mod work;

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tenure_shared::codes::CloseCode;

use super::{
    auth::Auth,
    conn::{Conn, Note, Seat},
    metrics::{self, Metrics},
    outgoing::{self, Broken},
    rate::{Creates, Gcra},
    reader::{Incoming, Reader},
    ring::UnsavedBounds,
    router::{Link, Router},
    sessions::Sessions,
    slab::Slab,
    state::{Ask, Effect, Machine, Rules, Stored, View},
};
use crate::{
    link::{GatewayId, ToGateway, ToNode},
    runtime::{Clock, Mono, Rng},
};
use ending::End;

/// Incoming things handled before other tasks of the thread get their turn.
const READS: usize = 32;
/// Pause before something is offered again to a node whose queue was full.
const OFFER_PAUSE: Duration = Duration::from_millis(20);
/// How long a snapshot may take before it is asked for again.
const SNAPSHOT_TIME: Duration = Duration::from_secs(5);

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) login_message: usize,
    pub(super) client_message: usize,
    pub(super) messages_per_second: u32,
    pub(super) messages_burst: u32,
    pub(super) bytes_per_second: usize,
    pub(super) login_timeout: Duration,
    pub(super) ping_every: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) outgoing: outgoing::Bounds,
    pub(super) unsaved: UnsavedBounds,
}

/// What all connections of a gateway share.
pub(super) struct Site {
    pub(super) rules: Rules,
    pub(super) limits: Limits,
    pub(super) auth: Auth,
    pub(super) creates: Creates,
    pub(super) sessions: Sessions,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) gateway: GatewayId,
    pub(super) router: Arc<Router>,
    pub(super) conns: Arc<Slab<Conn>>,
    pub(super) metrics: Metrics,
}

impl Site {
    fn view(&self, conn: &Conn, loopback: bool, now: Mono) -> View<'_> {
        View {
            rules: &self.rules,
            auth: &self.auth,
            creates: &self.creates,
            rng: &self.rng,
            directory: &*self.router.directory,
            gateway: self.gateway,
            conn: conn.id,
            loopback,
            now,
            wall: self.clock.wall(),
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Stored> + Send>>;
type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    site: Arc<Site>,
    conn: Arc<Conn>,
    loopback: bool,
    reader: Reader,
    machine: Machine,
    effects: VecDeque<Effect>,
    /// Kept for its memory: what a step wants is collected here.
    scratch: Vec<Effect>,
    /// Questions to the store: at most one per state of the machine, and an acknowledgement.
    asks: VecDeque<Ask>,
    answer: Option<Answer>,
    /// Detaches that a node has not taken yet; at most one per seat that this socket had.
    detaches: VecDeque<(Arc<Link>, ToNode)>,
    /// A player leaves: his detach waits until the ring is handed over.
    leave: bool,
    /// Where the note came from that is being looked at.
    from: Option<Arc<Link>>,
    /// Since when the seat is between owners.
    between: Option<(Mono, metrics::Between)>,
    messages: Gcra,
    bytes: Gcra,
    heard: Mono,
    ping_at: Mono,
    login_by: Option<Mono>,
    /// The client is to move, and was not told yet: it has no seat.
    move_to: Option<(Arc<[String]>, u32)>,
    go_away: Option<(Mono, Option<u32>)>,
    /// When to offer again what the node did not take.
    offer_at: Option<Mono>,
    /// The client wants a snapshot, and the node was not told yet.
    resync: bool,
    timer: Option<(Mono, Sleep)>,
    /// What comes makes no sense any more: where the next frame begins is not known.
    unreadable: bool,
    end: End,
}

/// Serves a connection to its end. `part` is what came behind the upgrade request.
pub(super) async fn serve(site: Arc<Site>, conn: Arc<Conn>, peer: IpAddr, part: Vec<u8>) {
    let now = site.clock.now();
    let limits = &site.limits;
    let second = Duration::from_secs(1);
    let per_second = limits.bytes_per_second as u64;
    let mut task = Box::new(Task {
        loopback: peer.to_canonical().is_loopback(),
        reader: Reader::new(part, limits.login_message),
        machine: Machine::new(),
        effects: VecDeque::new(),
        scratch: Vec::new(),
        asks: VecDeque::new(),
        answer: None,
        detaches: VecDeque::new(),
        leave: false,
        from: None,
        between: None,
        messages: Gcra::new(second, u64::from(limits.messages_per_second), u64::from(limits.messages_burst)),
        // The largest message must fit, however small the rate.
        bytes: Gcra::new(second, per_second, per_second.max(2 * limits.client_message as u64)),
        heard: now,
        ping_at: now.plus(limits.ping_every),
        login_by: Some(now.plus(limits.login_timeout)),
        move_to: None,
        go_away: None,
        offer_at: None,
        resync: false,
        timer: None,
        unreadable: false,
        end: End::Open,
        site,
        conn,
    });
    poll_fn(|cx| task.poll(cx)).await;
    task.finish().await;
}

impl Task {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.site.clock.now();
        let mut notes = Vec::new();
        let raised = {
            let mut inner = self.conn.lock();
            inner.watch(cx.waker());
            while let Some(note) = inner.take_note() {
                notes.push(note);
            }
            inner.take_raised()
        };
        if let Some(generation) = raised {
            self.step(cx, now, |machine, _, out| machine.raised(generation, out));
        }
        for note in notes {
            self.note(cx, now, note);
        }
        self.poll_store(cx, now);
        self.on_time(cx, now);
        let more = matches!(self.end, End::Open) && self.read(cx, now);
        self.offer(cx, now);
        self.settle(cx, now);
        if self.poll_end(cx, now).is_ready() {
            return Poll::Ready(());
        }
        if more {
            cx.waker().wake_by_ref();
        }
        self.arm(cx, now);
        Poll::Pending
    }

    fn note(&mut self, cx: &mut Context<'_>, now: Mono, note: Note) {
        match note {
            Note::Node(ToGateway::Close { code, reason, .. }) if !matches!(self.end, End::Open) => {
                tracing::debug!(conn = self.conn.id.0, ?code, reason, "a close came for a socket that is closing");
            }
            Note::Node(note) => self.step(cx, now, |machine, view, out| machine.node(view, note, out)),
            Note::Attached(attached, link) => {
                self.from = Some(link);
                self.step(cx, now, |machine, view, out| machine.node(view, ToGateway::Attached(attached), out));
                self.from = None;
            }
            Note::Again { attempt, lost } => {
                self.step(cx, now, |machine, view, out| machine.again(view, attempt, lost, out));
            }
            Note::Behind { attempt } => self.step(cx, now, |machine, view, out| machine.behind(view, attempt, out)),
            Note::Off { gone } => {
                // The machine says it again to the next owner.
                self.leave = false;
                self.step(cx, now, |machine, view, out| machine.off(view, gone, out));
            }
            Note::Route => self.step(cx, now, |machine, view, _| machine.route(view)),
            Note::Move { urls, after } => self.move_to = Some((urls, after)),
            Note::GoAway { at, retry } => self.go_away = Some((at, retry)),
        }
    }

    fn poll_store(&mut self, cx: &mut Context<'_>, now: Mono) {
        loop {
            let Some(answer) = &mut self.answer else {
                let Some(ask) = self.asks.pop_front() else { return };
                self.answer = Some(Box::pin(self.site.sessions.clone().answer(ask)));
                continue;
            };
            let Poll::Ready(stored) = answer.as_mut().poll(cx) else { return };
            self.answer = None;
            self.step(cx, now, |machine, view, out| machine.stored(view, stored, out));
        }
    }

    /// Reads what is there; `true` if there may be more.
    fn read(&mut self, cx: &mut Context<'_>, now: Mono) -> bool {
        for _ in 0..READS {
            let Poll::Ready(incoming) = self.reader.poll(&self.conn, cx) else {
                self.count_bytes(cx, now);
                return false;
            };
            if !self.count_bytes(cx, now) {
                return false;
            }
            match incoming {
                Incoming::Message(bytes) => {
                    let mut rate = self.messages;
                    let mut count = 0;
                    self.step(cx, now, |machine, view, out| count = machine.receive(view, &mut rate, &bytes, out));
                    self.messages = rate;
                    self.site.metrics.messages.increment(count);
                }
                Incoming::Control => {
                    if self.messages.take(now, 1).is_err() {
                        self.step(cx, now, |machine, _, out| machine.too_fast("control frames", out));
                    }
                }
                Incoming::Closed => self.end = End::Answering(now.plus(ending::CLOSE_TIME)),
                Incoming::Gone => self.end = End::Done,
                Incoming::Fault(code, why) => {
                    self.unreadable = true;
                    self.step(cx, now, |machine, _, out| machine.close(code, &why, out));
                }
            }
            if !matches!(self.end, End::Open) {
                return false;
            }
        }
        true
    }

    fn count_bytes(&mut self, cx: &mut Context<'_>, now: Mono) -> bool {
        let fresh = self.reader.take_fresh();
        if fresh > 0 {
            self.heard = now;
            if self.bytes.note(now, fresh as u64) {
                self.step(cx, now, |machine, _, out| machine.too_fast("bytes", out));
                return false;
            }
        }
        true
    }

    fn on_time(&mut self, cx: &mut Context<'_>, now: Mono) {
        if !matches!(self.end, End::Open) {
            return;
        }
        if self.login_by.is_some_and(|by| now >= by) {
            self.login_by = None;
            self.step(cx, now, |machine, _, out| machine.close(CloseCode::Unauthorised, "no login in time", out));
        }
        if self.machine.deadline().is_some_and(|by| now >= by) {
            self.step(cx, now, |machine, view, out| machine.timeout(view, out));
        }
        let limits = &self.site.limits;
        if now.since(self.heard) >= limits.idle_timeout {
            let silent = format!("nothing was heard for {} ms", limits.idle_timeout.as_millis());
            self.step(cx, now, |machine, _, out| machine.close(CloseCode::MayRetry, &silent, out));
        } else if now >= self.ping_at {
            self.ping_at = now.plus(limits.ping_every);
            self.conn.lock().out.ping();
        }
        if let Some((urls, after)) = self.move_to.take_if(|_| self.machine.is_seated()) {
            self.site.metrics.moves.increment(1);
            self.step(cx, now, |machine, _, out| machine.move_to(&urls, after, out));
        }
        if let Some((_, retry)) = self.go_away.take_if(|(at, _)| now >= *at) {
            self.step(cx, now, |machine, _, out| machine.go_away(retry, out));
        }
        if self.conn.lock().out.closes_at().is_some_and(|at| now >= at) {
            self.slow(cx, now);
        }
    }

    fn slow(&mut self, cx: &mut Context<'_>, now: Mono) {
        self.step(cx, now, |machine, _, out| {
            machine.close(CloseCode::SlowConsumer, "the client reads too slowly", out);
        });
    }

    /// Writes what is left, and looks at what became of earlier writes.
    fn settle(&mut self, cx: &mut Context<'_>, now: Mono) {
        let broken = {
            let mut inner = self.conn.lock();
            inner.flush(cx);
            inner.take_broken()
        };
        match broken {
            Some(Broken::Slow) if matches!(self.end, End::Open) => {
                self.slow(cx, now);
                self.conn.lock().flush(cx);
            }
            Some(Broken::Behind) if matches!(self.end, End::Open) => {
                let text = "the room was restored; resume the seat";
                self.step(cx, now, |machine, _, out| machine.close(CloseCode::MayRetry, text, out));
                self.conn.lock().flush(cx);
            }
            Some(Broken::Slow | Broken::Behind) | None => {}
            Some(Broken::Io(error)) => {
                tracing::debug!(conn = self.conn.id.0, %error, "a socket failed");
                self.end = End::Done;
            }
        }
    }

    /// When the task has something to do, whatever happens.
    fn next_time(&self) -> Option<Mono> {
        if let Some(until) = self.end.until() {
            return Some(until);
        }
        let limits = &self.site.limits;
        let (slow, asked) = {
            let inner = self.conn.lock();
            (inner.out.closes_at(), inner.out.asked().map(|at| at.plus(SNAPSHOT_TIME)))
        };
        let go_away = self.go_away.map(|(at, _)| at);
        let idle = Some(self.heard.plus(limits.idle_timeout));
        [Some(self.ping_at), idle, self.login_by, self.machine.deadline(), go_away, self.offer_at, slow, asked]
            .into_iter()
            .flatten()
            .min()
    }

    fn arm(&mut self, cx: &mut Context<'_>, now: Mono) {
        let Some(next) = self.next_time() else { return };
        loop {
            // A timer that fires too early only costs a look; making one anew for each message would cost more.
            if self.timer.as_ref().is_none_or(|(at, _)| *at > next) {
                self.timer = Some((next, self.site.clock.sleep_until(next)));
            }
            let Some((at, sleep)) = &mut self.timer else { return };
            if sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            let fired = *at;
            self.timer = None;
            if fired >= next || now >= next {
                cx.waker().wake_by_ref();
                return;
            }
        }
    }
}
