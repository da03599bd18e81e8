//! Players who come, ask for any room, stay for a while and go.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{SinkExt as _, StreamExt as _};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tenure_shared::{
    Filter, RoomId, Scalar,
    limits::PROTOCOL,
    msgpack::Bounds,
    wire::{ClientMessage, ServerMessage, ServerMessages, Wanted},
};
use tokio::{
    sync::watch,
    time::{sleep, sleep_until, timeout_at},
};
use tokio_tungstenite::tungstenite::Message;

use super::seen::Seen;
use crate::{
    args::RunArgs,
    host::Group,
    net::{self, Cause, Socket, Target},
    stats::Times,
};

/// How long anything may take that a server answers.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(15);
/// How long a player stays, at least and at most.
const STAY: (f64, f64) = (1.5, 4.5);
/// Of a hundred players so many cut their socket while they wait, and so many when they go.
const CUT_WAITING: u32 = 4;
const CUT_GOING: u32 = 8;
/// How often a join is tried again after a passing fault, and the pause before.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks at how many have a seat.
const LOOK: Duration = Duration::from_millis(50);

/// How a player behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Comes and stays to the end.
    Stay,
    /// Comes and goes.
    Go,
}

/// The players.
pub(super) struct Visitors(Arc<Shared>);

struct Shared {
    targets: Vec<Target>,
    kind: String,
    seen: Arc<Seen>,
    seated: AtomicU64,
    here: AtomicU64,
    /// Tokens of players who are away: whoever comes next is one of them.
    away: Mutex<VecDeque<String>>,
    numbered: AtomicU64,
    seed: u64,
    lag: Mutex<Times>,
    leave: watch::Sender<bool>,
}

/// How a visit ended early.
enum End {
    Dropped(String),
    Unanswered,
    Refused,
}

impl From<Cause> for End {
    fn from(cause: Cause) -> Self {
        Self::Dropped(cause.label())
    }
}

impl Visitors {
    pub(super) fn new(args: &RunArgs, targets: Vec<Target>, seen: Arc<Seen>) -> Self {
        Self(Arc::new(Shared {
            targets,
            kind: args.kind.clone(),
            seen,
            seated: AtomicU64::new(0),
            here: AtomicU64::new(0),
            away: Mutex::default(),
            numbered: AtomicU64::new(0),
            seed: args.seed,
            lag: Mutex::default(),
            leave: watch::Sender::new(false),
        }))
    }

    /// So many come within a second.
    pub(super) async fn come(&self, count: u32, manner: Manner) {
        let each = Duration::from_secs(1) / count.max(1);
        let begun = Instant::now();
        for n in 0..count {
            self.one(begun + each * n, manner).await;
        }
    }

    /// So many come in each second, for this time; none waits for another.
    pub(super) async fn keep_coming(&self, per_second: u32, time: Duration) {
        let each = Duration::from_secs(1) / per_second.max(1);
        let begun = Instant::now();
        let mut next = begun;
        while next < begun + time {
            self.one(next, Manner::Go).await;
            next += each;
        }
    }

    async fn one(&self, planned: Instant, manner: Manner) {
        sleep_until(planned.into()).await;
        held(&self.0.lag).record(planned.elapsed());
        let shared = self.0.clone();
        let number = shared.numbered.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            shared.here.fetch_add(1, Ordering::Relaxed);
            visit(&shared, number, manner).await;
            shared.here.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Players who have a seat.
    pub(super) fn seated(&self) -> u64 {
        self.0.seated.load(Ordering::Relaxed)
    }

    /// How late players were sent.
    pub(super) fn lag(&self) -> Times {
        let mut all = Times::default();
        all.add(&held(&self.0.lag));
        all
    }

    pub(super) async fn until_seated(&self, count: u64) {
        while self.seated() < count {
            sleep(LOOK).await;
        }
    }

    /// Until only so many are here.
    pub(super) async fn until_gone(&self, count: u64) {
        while self.0.here.load(Ordering::Relaxed) > count {
            sleep(LOOK).await;
        }
    }

    /// Those who stay leave now.
    pub(super) fn leave(&self) {
        self.0.leave.send_replace(true);
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn visit(shared: &Shared, number: u64, manner: Manner) {
    let mut rng = StdRng::seed_from_u64(shared.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
    let known = if manner == Manner::Go { held(&shared.away).pop_front() } else { None };
    let mut visit = Visit { shared, token: known, socket: None, room: None };
    let ended = visit.run(number, manner, &mut rng).await;
    visit.goes();
    match ended {
        Ok(()) | Err(End::Refused) => {}
        Err(End::Unanswered) => shared.seen.unanswered(),
        Err(End::Dropped(why)) => shared.seen.dropped(&why),
    }
    if let (Some(token), Manner::Go) = (visit.token.take(), manner) {
        held(&shared.away).push_back(token);
    }
}

/// One player from coming to going.
struct Visit<'a> {
    shared: &'a Shared,
    token: Option<String>,
    socket: Option<Socket>,
    room: Option<RoomId>,
}

/// What a server says, as far as it matters here.
enum Said {
    Welcome(Option<String>),
    Joined(RoomId),
    Refused(String, Duration),
    Left,
}

impl Visit<'_> {
    async fn run(&mut self, number: u64, manner: Manner, rng: &mut StdRng) -> Result<(), End> {
        let target = self.shared.targets.get(number as usize % self.shared.targets.len());
        let Some(target) = target else { return Ok(()) };
        self.socket = Some(net::websocket(target, Group::Bots, (number % 60_000) as u32).await?);
        let token = self.token.clone();
        self.send(&ClientMessage::Hello { protocol: PROTOCOL, token: token.as_deref(), table: None }).await?;
        let late = Instant::now() + ANSWER_TIME;
        loop {
            if let Said::Welcome(token) = self.hear(late).await? {
                self.token = token.or(self.token.take());
                break;
            }
        }
        let cuts = |of: u32, rng: &mut StdRng| manner == Manner::Go && rng.random_range(0..100) < of;
        // Half of them say which sort of room they want; those who come first take any, and fill one after another.
        let mode = (manner == Manner::Go && rng.random_range(0..2) == 0)
            .then(|| Filter::from_iter([("mode".to_owned(), Scalar::Text(format!("sort-{}", number % 2)))]).encode());
        let filter = mode.unwrap_or_default();
        let asked = Instant::now();
        let ask = async |visit: &mut Self| {
            let wanted = Wanted { kind: &visit.shared.kind, region: None, name: None, filter: &filter };
            visit.send(&ClientMessage::JoinOrCreate { id: 1, wanted, options: &[0x80] }).await
        };
        ask(self).await?;
        if cuts(CUT_WAITING, rng) {
            self.shared.seen.cut();
            self.socket = None;
            return Ok(());
        }
        let mut tries = 0;
        loop {
            match self.hear(Instant::now() + ANSWER_TIME).await? {
                Said::Joined(room) => {
                    self.shared.seen.joined(&room, asked, asked.elapsed());
                    self.shared.seated.fetch_add(1, Ordering::Relaxed);
                    self.room = Some(room);
                    break;
                }
                Said::Refused(code, wait) => {
                    self.shared.seen.refused(&code);
                    tries += 1;
                    if code != "may_retry" || tries > TRIES {
                        return Err(End::Refused);
                    }
                    sleep(wait).await;
                    ask(self).await?;
                }
                Said::Welcome(_) | Said::Left => {}
            }
        }
        self.stay(manner, rng).await?;
        if cuts(CUT_GOING, rng) {
            self.socket = None;
            return Ok(());
        }
        // Before the word of it: the seat is another's as soon as the room has heard it, and that may be told before its answer.
        self.goes();
        self.send(&ClientMessage::Leave { id: 2 }).await?;
        let late = Instant::now() + ANSWER_TIME;
        while !matches!(self.hear(late).await?, Said::Left) {}
        Ok(())
    }

    /// The seat counts no more.
    fn goes(&mut self) {
        if let Some(room) = self.room.take() {
            self.shared.seated.fetch_sub(1, Ordering::Relaxed);
            self.shared.seen.left(&room);
        }
    }

    /// Reads what the room says, and what else comes.
    async fn stay(&mut self, manner: Manner, rng: &mut StdRng) -> Result<(), End> {
        let mut leave = self.shared.leave.subscribe();
        let until = Instant::now() + Duration::from_secs_f64(rng.random_range(STAY.0..STAY.1));
        let goes = async {
            match manner {
                Manner::Go => sleep_until(until.into()).await,
                // The sender outlives all of them.
                Manner::Stay => drop(leave.wait_for(|leave| *leave).await),
            }
        };
        tokio::pin!(goes);
        loop {
            let far = Instant::now() + Duration::from_secs(3_600);
            tokio::select! {
                biased;
                () = &mut goes => return Ok(()),
                said = self.hear(far) => {
                    if let Said::Joined(_) = said? {
                        // An answer to a request that was tried again.
                        self.shared.seen.twice();
                    }
                }
            }
        }
    }

    async fn send(&mut self, message: &ClientMessage<'_>) -> Result<(), End> {
        let mut out = Vec::new();
        message.encode(&mut out);
        match &mut self.socket {
            Some(socket) => {
                let sent = socket.send(Message::binary(out)).await;
                sent.map_err(|error| End::Dropped(net::from_ws(&error).label()))
            }
            None => Err(End::Dropped("no socket".to_owned())),
        }
    }

    /// The next thing that matters. Cancelled, at most a frame of the room is lost.
    async fn hear(&mut self, late: Instant) -> Result<Said, End> {
        let Some(socket) = &mut self.socket else { return Err(End::Dropped("no socket".to_owned())) };
        loop {
            let Ok(message) = timeout_at(late.into(), socket.next()).await else { return Err(End::Unanswered) };
            let bytes = match message {
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(Message::Close(frame))) => return Err(net::from_close(frame.as_ref()).into()),
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(net::from_ws(&error).into()),
                None => return Err(End::Dropped("cut without a close frame".to_owned())),
            };
            for message in ServerMessages::new(&bytes, &Bounds::SERVER) {
                match message {
                    Ok(ServerMessage::Welcome(welcome)) => return Ok(Said::Welcome(welcome.token)),
                    Ok(ServerMessage::Joined(joined)) => return Ok(Said::Joined(joined.room)),
                    Ok(ServerMessage::Left { .. }) => return Ok(Said::Left),
                    Ok(ServerMessage::Error { id, code, retry_after, .. }) if id != 0 => {
                        let wait = retry_after.map_or(PAUSE, |ms| Duration::from_millis(u64::from(ms)));
                        return Ok(Said::Refused(code.to_owned(), wait));
                    }
                    Ok(_) => {}
                    Err(error) => return Err(End::Dropped(format!("unreadable: {error}"))),
                }
            }
        }
    }
}
