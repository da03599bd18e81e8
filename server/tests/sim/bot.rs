//! Bots behind their gateways: a double of the gateway's rules (rings, floors, attaching again) and of what a client does then, since the real
//! ones need sockets. While its room moves a bot's socket stays (`rejoin`); one that is closed, or goes to the other gateway, resumes the
//! seat. A seat that cannot be resumed is over for the client: it joins anew, and what it does not know to be saved is not sent again.

mod asking;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure::{
    link::{ConnId, ToGateway, ToNode},
    runtime::{Mono, Rng},
};
use tenure_shared::{
    Generation, RoomId, SeatId, ShardId, Term, Tick,
    codes::{CloseCode, ErrorCode},
};

use crate::{
    breaks::Break,
    checks::Checks,
    cluster::{SHARDS, Sim},
    lab::Say,
    net::Net,
    said::Life,
};

/// Longest wait for the answer to an attach.
const PATIENCE: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Asks again at this time.
    Idle(Mono),
    Asking((usize, u64), Mono),
    In((usize, u64)),
}

struct Inner {
    at: At,
    gateway: usize,
    conn: ConnId,
    attempt: u32,
    seat: Option<SeatId>,
    /// The socket has had the seat: it only follows the room.
    rejoin: bool,
    generation: Generation,
    /// The client's count of its resumes, and the one by which this socket has the seat.
    resumes: u32,
    had_by: u32,
    kind: u16,
    shown: (Term, Tick),
    /// What was said from seats that are over, and from the one that it has.
    ended: Vec<Life>,
    life: Life,
    /// Number of what is sent next.
    next: u64,
    said: usize,
    wanted: usize,
    last_heard: Mono,
    /// Questions of former sockets, to join, that may still be on their way: rooms cannot tell that they are older.
    late: usize,
    /// So many of them for this socket.
    asked: usize,
    /// A node that sends below what was seen is told so.
    tell: Option<usize>,
    /// How often it was told that something was rolled back.
    rollbacks: usize,
}

pub struct Bot {
    pub player: String,
    pub room: RoomId,
    pub net: Arc<Net>,
    checks: Arc<Checks>,
    pub broken: Break,
    rng: Rng,
    inner: Mutex<Inner>,
}

impl Bot {
    pub fn new(sim: &Sim, index: usize, room: RoomId, wanted: usize) -> Arc<Self> {
        let player = format!("p{index}");
        let inner = Inner {
            at: At::Idle(Mono(0)),
            gateway: index % 2,
            conn: ConnId(index as u64 * 1_000 + 1),
            attempt: 0,
            seat: None,
            rejoin: false,
            generation: Generation(0),
            resumes: 0,
            had_by: 0,
            kind: 0,
            shown: (Term(0), Tick(0)),
            ended: Vec::new(),
            life: Life::default(),
            next: 1,
            said: 0,
            wanted,
            last_heard: Mono(0),
            late: 0,
            asked: 0,
            tell: None,
            rollbacks: 0,
        };
        Arc::new(Self {
            rng: sim.net.rng(&player),
            player,
            room,
            net: sim.net.clone(),
            checks: sim.checks.clone(),
            broken: sim.broken,
            inner: Mutex::new(inner),
        })
    }

    fn shard(&self) -> ShardId {
        self.room.shard(SHARDS)
    }

    /// Everything that it was to say is said and saved, and it sees its room going on.
    pub fn is_done(&self) -> bool {
        let inner = self.inner.lock().expect("bot");
        let fresh = self.net.clock.now().since(inner.last_heard) < Duration::from_secs(1);
        inner.said >= inner.wanted && inner.life.saved == inner.life.last() && fresh
    }

    pub fn describe(&self) -> String {
        let inner = self.inner.lock().expect("bot");
        format!(
            "{} in {} is {:?}, said {}, in its seat to {}, saved {} next {} shown {:?}",
            self.player,
            self.room,
            inner.at,
            inner.said,
            inner.life.last(),
            inner.life.saved,
            inner.next,
            inner.shown
        )
    }

    /// What was said, seat after seat.
    pub fn lives(&self) -> Vec<Life> {
        let inner = self.inner.lock().expect("bot");
        inner.ended.iter().chain([&inner.life]).cloned().collect()
    }

    /// How often it was told that something was rolled back.
    pub fn rollbacks(&self) -> usize {
        self.inner.lock().expect("bot").rollbacks
    }

    /// The socket goes to the other gateway. The former one may or may not hear of that.
    pub fn change_gateway(&self, sim: &Sim) {
        let mut inner = self.inner.lock().expect("bot");
        if let (At::In(node), Some(seat)) = (inner.at, inner.seat)
            && self.rng.below(2) == 0
            && let Some(link) = sim.link(inner.gateway, node.0).filter(|link| link.life == node.1)
        {
            let generation = inner.generation;
            link.send(ToNode::Detach { room: self.room.clone(), seat, generation, consented: false });
        }
        inner.gateway = 1 - inner.gateway;
        self.net.log(&format!("{} resumes at gateway {}", self.player, inner.gateway));
        self.resume(&mut inner);
    }

    /// Another socket, which resumes the seat.
    fn resume(&self, inner: &mut Inner) {
        inner.conn = ConnId(inner.conn.0 + 1);
        inner.rejoin = false;
        inner.resumes += 1;
        inner.late += std::mem::take(&mut inner.asked);
        self.later(inner);
    }

    /// The seat cannot be resumed: the client joins anew. What it does not know to be saved may or may not have been applied.
    fn seat_is_over(&self, inner: &mut Inner) {
        self.net.log(&format!("{} has no seat, saved {} of {}", self.player, inner.life.saved, inner.life.last()));
        // A join, not the socket's seat on its way to another owner.
        (inner.seat, inner.resumes, inner.rejoin) = (None, 0, false);
        inner.ended.push(std::mem::take(&mut inner.life));
        self.later(inner);
    }

    /// Now and then: asks, says something, sends what waits.
    pub fn step(&self, sim: &Sim) {
        let now = self.net.clock.now();
        let mut inner = self.inner.lock().expect("bot");
        if let Some(node) = inner.tell.take()
            && let Some(link) = sim.link(inner.gateway, node)
        {
            self.net.log(&format!("{} tells {node} of term {}", self.player, inner.shown.0));
            link.send(ToNode::TermSeen { shard: self.shard(), term: inner.shown.0 });
        }
        let at = inner.at;
        match at {
            At::Idle(at) if now >= at => self.ask(sim, &mut inner, now),
            At::Asking(_, since) if now.since(since) > PATIENCE => self.later(&mut inner),
            // The directory names another: the seat goes there, without waiting for word from the former owner.
            At::In((node, _))
                if sim.owner(self.shard()).is_some_and(|owner| owner != node) && self.rng.below(4) == 0 =>
            {
                self.later(&mut inner);
            }
            At::In(node) => {
                if inner.said < inner.wanted {
                    let say = self.something(inner.said);
                    inner.life.said.push(say);
                    inner.said += 1;
                }
                self.send(sim, &mut inner, node);
            }
            _ => {}
        }
    }

    fn something(&self, n: usize) -> Say {
        match self.rng.below(8) {
            0 => Say::Gift(1 + i64::try_from(self.rng.below(9)).expect("small")),
            1 => Say::Later(format!("{}-{n}", self.player), self.rng.below(900)),
            _ => Say::Keep(n as u64),
        }
    }

    fn later(&self, inner: &mut Inner) {
        let pause = Duration::from_millis(40 + self.rng.below(200));
        inner.at = At::Idle(self.net.clock.now().plus(pause));
    }

    /// A link of this gateway has ended.
    pub fn broken(&self, gateway: usize, node: (usize, u64)) {
        let mut inner = self.inner.lock().expect("bot");
        let there = matches!(inner.at, At::In(at) | At::Asking(at, _) if at == node);
        if inner.gateway == gateway && there {
            self.later(&mut inner);
        }
    }

    /// Whether something of this term and tick may be shown; a node below what was seen is told.
    fn may_show(&self, inner: &mut Inner, at: (Term, Tick), node: usize) -> bool {
        if self.broken != Break::Floor && at < inner.shown {
            if at.0 < inner.shown.0 {
                inner.tell = Some(node);
            }
            return false;
        }
        inner.shown = at;
        inner.last_heard = self.net.clock.now();
        self.checks.shown(&self.player, at);
        true
    }

    /// A node said something to this gateway.
    pub fn hear(&self, gateway: usize, node: (usize, u64), message: &ToGateway) {
        let mut inner = self.inner.lock().expect("bot");
        let inner = &mut *inner;
        if inner.gateway != gateway {
            return;
        }
        let conn = inner.conn;
        let asked = matches!(inner.at, At::Asking(at, _) if at == node);
        let there = matches!(inner.at, At::In(at) if at == node);
        match message {
            ToGateway::Attached(attached) if attached.conn == conn && attached.attempt == inner.attempt && asked => {
                self.net.log(&format!(
                    "{} attached at {node:?} term {} tick {} owed {} rolled_back {}",
                    self.player, attached.term, attached.tick, attached.owed, attached.rolled_back
                ));
                let at = (attached.term, attached.tick);
                if !self.may_show(inner, at, node.0) {
                    return self.later(inner);
                }
                inner.at = At::In(node);
                inner.rollbacks += usize::from(attached.rolled_back);
                if inner.seat.is_none() {
                    // The client numbers from what the room wants: the room may still know a seat of his whose end was not stored.
                    inner.life = Life::from(attached.owed.0 - 1);
                }
                if attached.owed.0 <= inner.life.saved || attached.owed.0 > inner.life.last() + 1 {
                    // Through an earlier socket, a gateway says: the client resumes, and says from which number on.
                    let (owed, life) = (attached.owed, &inner.life);
                    self.checks.wrong(format!(
                        "H4: {} is owed {owed} in {}..={}",
                        self.player,
                        life.saved,
                        life.last()
                    ));
                }
                if !inner.rejoin {
                    inner.had_by = if inner.seat.is_some() { inner.resumes } else { attached.generation.0 };
                    inner.resumes = inner.resumes.max(attached.generation.0);
                }
                (inner.seat, inner.rejoin) = (Some(attached.seat), true);
                inner.generation = attached.generation;
                inner.next = match self.broken {
                    Break::Ring => inner.life.last() + 1,
                    _ => attached.owed.0,
                };
                if let Some(table) = &attached.table {
                    inner.kind = table.iter().find(|row| &*row.name == "say").expect("registered").number;
                }
            }
            ToGateway::Frame(frame) if (there || self.broken == Break::Floor) && frame.room == self.room => {
                let Some(member) = frame.members.iter().find(|member| member.conn == conn) else { return };
                if self.may_show(inner, (frame.term, frame.tick), node.0) {
                    inner.life.saved = inner.life.saved.max(member.saved.0);
                }
            }
            ToGateway::Restored { room, term, tick, members } if there && *room == self.room => {
                if let Some(member) = members.iter().find(|member| member.conn == conn) {
                    inner.generation = member.generation;
                    inner.next = member.owed.0;
                    self.may_show(inner, (*term, *tick), node.0);
                }
            }
            ToGateway::Moved { shard, .. } if *shard == self.shard() && (there || asked) => self.later(inner),
            ToGateway::NotOwner { conn: of, attempt, .. } if *of == conn && *attempt == inner.attempt && asked => {
                self.later(inner);
            }
            ToGateway::Refused { conn: of, attempt, code, message, .. }
                if *of == conn && *attempt == inner.attempt && asked =>
            {
                self.net.log(&format!("{} is refused: {code:?}, {message}", self.player));
                match code {
                    ErrorCode::MayRetry | ErrorCode::Limit => self.later(inner),
                    // The store forgot the room with the seat.
                    ErrorCode::NoSuchRoom if self.checks.has_forgotten() => self.seat_is_over(inner),
                    ErrorCode::NoSuchRoom | ErrorCode::RoomError | ErrorCode::UnknownKind => {
                        self.checks.wrong(format!("H5: {} has no room: {code:?}, {message}", self.player));
                        self.later(inner);
                    }
                    // The gateway closes the socket, and the client hears at its resume why it cannot.
                    _ if inner.rejoin => self.resume(inner),
                    ErrorCode::ResumeFailed => self.seat_is_over(inner),
                    _ => self.later(inner),
                }
            }
            ToGateway::Gone { room, generation, .. }
                if there && *room == self.room && *generation == inner.generation =>
            {
                self.later(inner);
            }
            ToGateway::Close { conn: of, code, .. } if *of == conn && (there || asked) => {
                self.net.log(&format!("{} is closed: {code:?}", self.player));
                if *code == CloseCode::Superseded {
                    if inner.late == 0 {
                        self.checks.wrong(format!("{} was superseded by nobody", self.player));
                    }
                    inner.late = inner.late.saturating_sub(1);
                }
                self.resume(inner);
            }
            _ => {}
        }
    }
}
