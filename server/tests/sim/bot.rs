//! A gateway and its bots: a double of the gateway's rules (rings, floors, attaching again), since the real one needs sockets. A bot's
//! socket never closes; it may change gateways.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tenure::{
    link::{Attach, ConnId, GatewayId, Input, Mode, ToGateway, ToNode},
    runtime::{Mono, Rng},
};
use tenure_shared::{Generation, PlayerId, RoomId, SeatId, Seq, ShardId, Term, Tick, codes::CloseCode};

use crate::{
    checks::Checks,
    cluster::{Break, SHARDS, Sim},
    lab::Say,
    net::Net,
};

/// Longest wait for the answer to an attach.
const PATIENCE: Duration = Duration::from_millis(800);

pub struct Gateway {
    pub index: usize,
    bots: Mutex<Vec<Arc<Bot>>>,
}

impl Gateway {
    pub fn new(index: usize) -> Arc<Self> {
        Arc::new(Self { index, bots: Mutex::default() })
    }

    pub fn add(&self, bot: &Arc<Bot>) {
        self.bots.lock().expect("bots").push(bot.clone());
    }

    fn bots(&self) -> Vec<Arc<Bot>> {
        self.bots.lock().expect("bots").clone()
    }

    pub fn hear(&self, node: usize, life: u64, message: &ToGateway) {
        for bot in self.bots() {
            bot.hear(self.index, (node, life), message);
        }
    }

    pub fn broken(&self, node: usize, life: u64) {
        for bot in self.bots() {
            bot.broken(self.index, (node, life));
        }
    }
}

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
    generation: Generation,
    kind: u16,
    shown: (Term, Tick),
    said: Vec<Say>,
    saved: u64,
    next: u64,
    wanted: usize,
    last_heard: Mono,
    rolled_back: usize,
    /// A node that sends below what was seen is told so.
    tell: Option<usize>,
}

pub struct Bot {
    pub player: String,
    pub room: RoomId,
    net: Arc<Net>,
    checks: Arc<Checks>,
    broken: Break,
    rng: Rng,
    inner: Mutex<Inner>,
}

/// What was asked of a room by one bot.
#[derive(Default)]
pub struct Asked {
    pub kept: Vec<u64>,
    pub gold: i64,
    pub gifts: usize,
    pub work: BTreeSet<String>,
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
            generation: Generation(0),
            kind: 0,
            shown: (Term(0), Tick(0)),
            said: Vec::new(),
            saved: 0,
            next: 1,
            wanted,
            last_heard: Mono(0),
            rolled_back: 0,
            tell: None,
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
        inner.said.len() >= inner.wanted && inner.saved == inner.said.len() as u64 && fresh
    }

    pub fn describe(&self) -> String {
        let inner = self.inner.lock().expect("bot");
        format!(
            "{} in {} is {:?}, said {} saved {} next {} shown {:?}",
            self.player,
            self.room,
            inner.at,
            inner.said.len(),
            inner.saved,
            inner.next,
            inner.shown
        )
    }

    pub fn asked(&self) -> Asked {
        let mut asked = Asked::default();
        for say in &self.inner.lock().expect("bot").said {
            match say {
                Say::Keep(n) => asked.kept.push(*n),
                Say::Gift(gold) => {
                    asked.gold += gold;
                    asked.gifts += 1;
                }
                Say::Later(key, _) => {
                    asked.work.insert(key.clone());
                }
                _ => {}
            }
        }
        asked
    }

    /// The socket goes to the other gateway.
    pub fn change_gateway(&self) {
        let mut inner = self.inner.lock().expect("bot");
        inner.gateway = 1 - inner.gateway;
        inner.conn = ConnId(inner.conn.0 + 1);
        inner.at = At::Idle(self.net.clock.now());
        self.net.log(&format!("{} resumes at gateway {}", self.player, inner.gateway));
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
                if inner.said.len() < inner.wanted {
                    let say = self.something(inner.said.len());
                    inner.said.push(say);
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

    fn ask(&self, sim: &Sim, inner: &mut Inner, now: Mono) {
        // The directory is a hint: now and then it is wrong.
        let node = match sim.owner(self.shard()) {
            Some(node) if self.rng.below(8) > 0 => node,
            _ => usize::try_from(self.rng.below(crate::net::NODES as u64)).expect("small"),
        };
        let Some(link) = sim.link(inner.gateway, node) else { return self.later(inner) };
        inner.attempt += 1;
        let attach = Attach {
            gateway: GatewayId(0),
            conn: inner.conn,
            attempt: inner.attempt,
            room: self.room.clone(),
            mode: Mode::JoinOrCreate,
            player: PlayerId::new(&self.player).expect("a name"),
            options: Bytes::new(),
            seat: inner.seat,
            rejoin: inner.seat.is_some(),
            generation: inner.generation,
            first: Seq(inner.saved + 1),
            shown: inner.shown,
            table: None,
        };
        if link.send(ToNode::Attach(attach)) {
            inner.at = At::Asking((link.node, link.life), now);
        } else {
            self.later(inner);
        }
    }

    fn send(&self, sim: &Sim, inner: &mut Inner, node: (usize, u64)) {
        let Some(link) = sim.link(inner.gateway, node.0).filter(|link| link.life == node.1) else { return };
        while inner.next <= inner.said.len() as u64 {
            let say = &inner.said[usize::try_from(inner.next).expect("small") - 1];
            let sent = link.send(ToNode::Input(Input {
                room: self.room.clone(),
                seat: inner.seat.expect("a seat"),
                generation: inner.generation,
                seq: Seq(inner.next),
                request: None,
                kind: inner.kind,
                payload: Bytes::from(rmp_serde::to_vec(say).expect("encoded")),
            }));
            if !sent {
                return;
            }
            inner.next += 1;
        }
    }

    fn broken(&self, gateway: usize, node: (usize, u64)) {
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

    fn hear(&self, gateway: usize, node: (usize, u64), message: &ToGateway) {
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
                inner.seat = Some(attached.seat);
                inner.generation = attached.generation;
                inner.rolled_back += usize::from(attached.rolled_back);
                inner.next = match self.broken {
                    Break::Ring => inner.said.len() as u64 + 1,
                    _ => attached.owed.0,
                };
                if let Some(table) = &attached.table {
                    inner.kind = table.iter().find(|row| &*row.name == "say").expect("registered").number;
                }
            }
            ToGateway::Frame(frame) if (there || self.broken == Break::Floor) && frame.room == self.room => {
                let Some(member) = frame.members.iter().find(|member| member.conn == conn) else { return };
                if self.may_show(inner, (frame.term, frame.tick), node.0) {
                    inner.saved = inner.saved.max(member.saved.0);
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
            ToGateway::NotOwner { conn: of, attempt, .. } | ToGateway::Refused { conn: of, attempt, .. }
                if *of == conn && *attempt == inner.attempt && asked =>
            {
                self.later(inner);
            }
            ToGateway::Gone { room, generation, .. }
                if there && *room == self.room && *generation == inner.generation =>
            {
                self.later(inner);
            }
            ToGateway::Close { conn: of, code, .. } if *of == conn && (there || asked) => {
                self.net.log(&format!("{} is closed: {code:?}", self.player));
                if *code == CloseCode::Superseded {
                    self.checks.wrong(format!("{} was superseded by nobody", self.player));
                }
                self.later(inner);
            }
            _ => {}
        }
    }
}
