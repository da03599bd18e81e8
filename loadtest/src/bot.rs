//! One bot: connects, joins, steers, resumes after a drop, and keeps count of everything it sees.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tenure_shared::{
    PlayerId, Seq,
    codes::CloseCode,
    wire::{ClientMessage, Granted},
};
use tokio::time::{sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    host::Group,
    net::{self, Cause, Socket, Target},
    stats::count,
};

pub(crate) mod churn;
pub(crate) mod inputs;
mod leaving;
mod moving;
pub(crate) mod names;
pub(crate) mod noted;
mod plan;
pub(crate) mod state;
pub(crate) mod watch;

use churn::Way;
use inputs::Inputs;
use leaving::{close, leave, send};
use moving::{LINGER, Opening, leave_behind};
use noted::Books;
pub(crate) use plan::{Phase, Plan, Worker};
use state::State;

/// How often a bot looks at the phase when it has nothing else to do.
const IDLE: Duration = Duration::from_millis(200);
/// Time from the open socket to the seat.
const LOGIN_TIME: Duration = Duration::from_secs(15);
/// First and longest wait before a new connection; the wait is drawn from the whole range (full jitter).
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));
/// Time in which a bot that came back is shown what it missed.
const SHOWN: Duration = Duration::from_secs(1);
/// An input sent later than this after its planned time counts as late.
const LATE: Duration = Duration::from_millis(10);

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Left in good order.
    Left,
    /// Lost: come back after a while.
    Lost(Cause),
    /// The request was refused for now.
    Again(Duration),
    /// Gone by itself.
    Went(Way),
    /// There is no place for this bot.
    GaveUp(String),
    /// The run makes no sense.
    Fatal(String),
}

/// What a bot has to say at the end, for the audit.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) index: u32,
    pub(crate) player: Option<PlayerId>,
    /// Number of the last input.
    pub(crate) sent: u64,
    pub(crate) all_saved: bool,
    /// The room's own count of this seat's inputs.
    pub(crate) counted: Option<u64>,
    /// Inputs that the room refused.
    pub(crate) refused: u64,
    pub(crate) grants: Vec<Granted>,
    /// Number of its room.
    pub(crate) room: u32,
    /// What the room paid, as it said last.
    pub(crate) books: Option<Books>,
    /// It never left its room.
    pub(crate) stayed: bool,
}

pub(crate) struct Bot {
    plan: Arc<Plan>,
    worker: Arc<Worker>,
    index: u32,
    rng: StdRng,
    state: State,
    /// Connections tried since the last one on which it played.
    attempt: u32,
    /// The count of inputs was asked for.
    asked: bool,
    settled: bool,
    /// When it leaves its room for a while.
    leaves: Option<Instant>,
    /// It said that it leaves, and comes back.
    leaving: bool,
    /// When it took its seat on this connection.
    seated: Instant,
    /// It is counted as one who is in its room.
    inside: bool,
}

impl Bot {
    pub(crate) fn new(plan: Arc<Plan>, worker: Arc<Worker>, index: u32) -> Self {
        let mut rng = StdRng::seed_from_u64(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(index));
        let offset = plan.input_period.map_or(Duration::ZERO, |period| period.mul_f64(rng.random_range(0.0..1.0)));
        // Who leaves gets another seat each time, and an input that he sent last would have nobody to count it.
        let period = plan.input_period.filter(|_| plan.away(index).is_none());
        let inputs = Inputs::new(period, offset, Instant::now());
        let room = format!("load-{}", index % plan.rooms);
        let wanted = (plan.kind.clone(), plan.region.clone(), room);
        let mut state = State::new(wanted, inputs, index < plan.rooms, plan.audit.then(|| plan.watch.of(index)));
        state.noted.room = index % plan.rooms;
        Self {
            plan,
            worker,
            index,
            rng,
            state,
            attempt: 0,
            asked: false,
            settled: false,
            leaves: None,
            leaving: false,
            seated: Instant::now(),
            inside: false,
        }
    }

    /// Plays until the phase says leave or there is no place.
    pub(crate) async fn run(mut self) -> Record {
        while !self.plan.reached(Phase::Leave) && !self.is_late() {
            let end = self.connection().await;
            let end = self.may_wait(end);
            self.exits();
            let played = self.state.playing;
            self.state.closed(Instant::now());
            let leaving = self.plan.reached(Phase::Leave);
            {
                let mut stats = self.worker.shard.lock();
                stats.playing -= u64::from(played);
                match &end {
                    End::Lost(Cause::Own(label)) => count(&mut stats.own_failures, label),
                    End::Lost(cause) if !leaving => count(&mut stats.drops, &cause.label()),
                    End::GaveUp(_) | End::Fatal(_) => stats.counters.gave_up += 1,
                    End::Lost(_) | End::Left | End::Again(_) | End::Went(_) => {}
                }
            }
            self.attempt = if played { 0 } else { self.attempt + 1 };
            let attempt = self.attempt;
            let wait = match end {
                End::Left if self.leaving && !leaving && self.plan.churn.is_some() => self.goes(Way::Leave),
                End::Went(way) => self.goes(way),
                End::Left if self.leaving && !leaving => {
                    self.state.left();
                    (self.leaves, self.leaving) = (None, false);
                    self.plan.away(self.index).unwrap_or_default()
                }
                End::Left => break,
                End::Fatal(text) => {
                    // The first one is told; others say the same.
                    self.plan.fatal.get_or_init(|| text);
                    break;
                }
                End::GaveUp(_) => break,
                End::Lost(Cause::Closed(CloseCode::Superseded | CloseCode::RoomFull | CloseCode::Unauthorised)) => {
                    self.worker.shard.lock().counters.gave_up += 1;
                    break;
                }
                End::Lost(Cause::Closed(code)) if code == CloseCode::ResumeFailed || code.ends_seat() => {
                    self.worker.shard.lock().counters.seats_lost += 1;
                    self.state.lose_seat();
                    self.backoff(attempt)
                }
                End::Lost(_) => self.backoff(attempt),
                End::Again(wait) => wait + self.backoff(attempt),
            };
            self.pause(wait).await;
        }
        let now = Instant::now();
        let mut stats = self.worker.shard.lock();
        let stats = &mut *stats;
        stats.counters.unanswered += self.state.inputs.unanswered(now, |time| stats.latency.record(time));
        Record {
            index: self.index,
            player: self.state.player,
            sent: self.state.inputs.last(),
            all_saved: self.state.inputs.all_saved(),
            counted: self.state.input_count,
            refused: self.state.refused,
            grants: self.state.grants,
            room: self.state.noted.room,
            books: self.state.noted.books,
            stayed: self.plan.stays(self.index),
        }
    }

    fn backoff(&mut self, attempt: u32) -> Duration {
        let (first, longest) = BACKOFF;
        let most = first.saturating_mul(1 << attempt.min(16)).min(longest);
        most.mul_f64(self.rng.random_range(0.0..1.0))
    }

    /// Sleeps, but not past the order to leave.
    async fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        while !self.plan.reached(Phase::Leave) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(IDLE)).await;
        }
    }

    async fn connection(&mut self) -> End {
        let opened = {
            // The gate is closed only with the runtime.
            let Ok(_permit) = self.worker.gate.acquire().await else { return End::Left };
            let Some(target) = self.target() else { return End::Left };
            net::websocket(&target, Group::Bots, self.index).await
        };
        let mut socket = match opened {
            Ok(socket) => socket,
            Err(cause) => return End::Lost(cause),
        };
        self.worker.shard.lock().counters.connects += 1;
        (self.asked, self.leaving) = (false, false);
        let hello = self.state.hello(Instant::now());
        if let Err(error) = socket.send(Message::binary(hello)).await {
            return End::Lost(net::from_ws(&error));
        }
        match self.talk(socket).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    /// Where to connect. Not by the room's number: players of one room sit behind different gateways. Who had no luck tries the next.
    fn target(&self) -> Option<Target> {
        self.plan.target((self.index / self.plan.rooms) as usize + self.attempt as usize)
    }

    /// Reads and sends until the connection ends; it never ends well.
    async fn talk(&mut self, mut socket: Socket) -> Result<std::convert::Infallible, End> {
        let mut opened = Instant::now();
        let mut out = Vec::new();
        let (mut opening, mut old): (Option<Opening>, Option<Socket>) = (None, None);
        // When the old one is not read any more.
        let mut farewell: Option<Instant> = None;
        let timer = sleep_until((opened + IDLE).into());
        tokio::pin!(timer);
        loop {
            tokio::select! {
                biased;
                () = timer.as_mut() => {
                    let now = Instant::now();
                    if !self.state.playing && now.saturating_duration_since(opened) > LOGIN_TIME {
                        return Err(End::Lost(Cause::Remote("join: no answer".to_owned())));
                    }
                    if self.plan.reached(Phase::Leave) {
                        return Err(leave(&mut socket, self.state.playing).await);
                    }
                    if self.state.moving.is_some_and(|when| when <= now) && opening.is_none() && old.is_none() {
                        opening = Some(self.open_next());
                    }
                    if farewell.is_some_and(|when| when <= now) {
                        farewell = None;
                        leave_behind(old.take());
                    }
                    self.go_away(&mut socket, now).await?;
                    if let Err(end) = self.come_and_go(&mut socket, now).await {
                        self.hold_open(socket);
                        return Err(end);
                    }
                    self.send_inputs(&mut socket, now).await?;
                    let wake = self.state.inputs.wake(now, IDLE);
                    timer.as_mut().reset(self.state.moving.map_or(wake, |when| wake.min(when)).max(now).into());
                }
                next = async { match &mut opening { Some(opening) => opening.await, None => std::future::pending().await } } => {
                    opening = None;
                    match next {
                        Ok(mut next) => {
                            self.change_to(&mut next).await?;
                            old = Some(std::mem::replace(&mut socket, next));
                            opened = Instant::now();
                        }
                        // The old connection serves on; it is tried again until that one is closed.
                        Err(cause) => {
                            count(&mut self.worker.shard.lock().refusals, &format!("move: {}", cause.label()));
                            self.state.moving = Some(Instant::now() + self.backoff(1));
                        }
                    }
                }
                message = async { match &mut old { Some(old) => old.next().await, None => std::future::pending().await } } => {
                    if !self.former(message) {
                        (old, farewell) = (None, None);
                    }
                }
                message = socket.next() => {
                    let bytes = match message {
                        Some(Ok(Message::Binary(bytes))) => bytes,
                        Some(Ok(Message::Close(frame))) => return Err(End::Lost(net::from_close(frame.as_ref()))),
                        Some(Ok(_)) => continue,
                        Some(Err(error)) => return Err(End::Lost(net::from_ws(&error))),
                        None => return Err(End::Lost(Cause::Remote("cut without a close frame".to_owned()))),
                    };
                    let now = Instant::now();
                    let waiting = !self.state.playing;
                    self.state.receive(&bytes, now, &mut self.worker.shard.lock(), &mut out)?;
                    if !out.is_empty() {
                        send(&mut socket, std::mem::take(&mut out)).await?;
                    }
                    if waiting && self.state.playing {
                        self.entered();
                        self.seated = now;
                        farewell = old.as_ref().map(|_| now + LINGER);
                        timer.as_mut().reset(now.into());
                    }
                }
            }
        }
    }

    async fn send_inputs(&mut self, socket: &mut Socket, now: Instant) -> Result<(), End> {
        if self.plan.reached(Phase::Settle) {
            self.settle(socket).await?;
        } else if self.state.seat.is_some() && !self.leaving {
            let mut stats = self.worker.shard.lock();
            let rng = &mut self.rng;
            let steer = || (rng.random_range(-100..=100), rng.random_range(-100..=100));
            let (planned, withheld) = self.state.inputs.plan(now, stats.measuring, steer);
            stats.counters.planned += planned;
            stats.counters.withheld += withheld;
        }
        while let Some(seat) = self.state.seat.as_ref().filter(|_| self.state.playing && !self.leaving) {
            let names = seat.names.clone();
            let Some(input) = self.state.inputs.take(now) else { break };
            let payload = names.payload(input.steer);
            let message = ClientMessage::Message { seq: Seq(input.seq), kind: names.steer, payload: &payload };
            send(socket, state::encoded(&message)).await?;
            let mut stats = self.worker.shard.lock();
            if input.again {
                stats.counters.sent_again += 1;
            } else {
                stats.counters.sent += 1;
                stats.counters.sent_late += u64::from(input.planned.elapsed() > LATE);
            }
        }
        Ok(())
    }

    /// Waits until all is saved, then asks for the room's own count.
    async fn settle(&mut self, socket: &mut Socket) -> Result<(), End> {
        if self.settled || !self.state.playing || !self.state.inputs.all_saved() {
            return Ok(());
        }
        if self.plan.away(self.index).is_some() && self.seated.elapsed() < SHOWN {
            return Ok(());
        }
        if !self.asked {
            self.asked = true;
            if self.plan.audit {
                self.state.input_count = None;
                send(socket, state::encoded(&ClientMessage::Resync)).await?;
            }
        }
        if !self.plan.audit || self.state.input_count.is_some() {
            self.has_settled();
        }
        Ok(())
    }

    fn has_settled(&mut self) {
        self.settled = true;
        self.plan.settled.fetch_add(1, Ordering::Relaxed);
    }

    /// It has no seat, and nobody who has one goes any more: there is nothing to wait for.
    fn is_late(&mut self) -> bool {
        let late = self.plan.churn.is_some() && self.plan.reached(Phase::Settle) && self.state.seat.is_none();
        if late && !self.settled {
            self.has_settled();
        }
        late
    }
}
