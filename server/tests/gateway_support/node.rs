//! A room host without worlds: it seats players as the contract says and shows what the test tells it to show.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure::{
    link::{
        Attach, Attached, ConnId, Downlink, Frame, FrameMember, Input, Mode, Node, RestoredMember, ToGateway, ToNode,
        Uplink,
    },
    runtime::mailbox::Refused,
};
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, ShardId, Term, Tick,
    codes::{CloseCode, ErrorCode},
    wire::{ServerMessage, TableRow},
};

use super::cluster::SHARDS;

pub const HASH: u64 = 0x1122_3344_5566_7788;

#[derive(Clone, Debug)]
pub struct SeatState {
    pub seat: SeatId,
    pub generation: Generation,
    pub conn: ConnId,
    pub connected: bool,
    /// Through which link.
    pub link: u32,
    /// Last message applied.
    pub applied: u64,
}

#[derive(Default)]
pub struct RoomState {
    pub seats: HashMap<PlayerId, SeatState>,
    pub inputs: Vec<Input>,
    pub full: bool,
}

#[derive(Default)]
pub struct State {
    pub rooms: HashMap<RoomId, RoomState>,
    pub term: u64,
    pub tick: u64,
    pub attaches: Vec<Attach>,
    pub detaches: Vec<(RoomId, SeatId, Generation, bool)>,
    pub finds: usize,
    pub resyncs: usize,
    /// Answers to `Find`, first to last; then none is found.
    pub found: Vec<RoomId>,
    /// What a resumed seat is owed.
    pub owed: u64,
    /// Seats are owed what comes after the last message applied, instead.
    pub follows: bool,
    /// The checkpoint that rooms were restored from.
    pub restored: Option<(u64, u64)>,
    /// Of rooms whose shard it does not own.
    pub foreign: BTreeSet<RoomId>,
    pub hash: u64,
    pub table: Option<Arc<Vec<TableRow>>>,
    pub terms_seen: Vec<(ShardId, Term)>,
    /// Whether a room that was found is new.
    pub new: bool,
    downlinks: BTreeMap<u32, Arc<dyn Downlink>>,
}

pub struct FakeNode {
    pub state: Mutex<State>,
    /// Every queue is full.
    pub full: AtomicBool,
    /// Attaches and resyncs are kept without an answer.
    pub silent: AtomicBool,
}

pub fn frame_body(term: u64, tick: u64, bytes: usize) -> Bytes {
    let mut ops = vec![0x91, 0xc5];
    ops.extend_from_slice(&(bytes as u16).to_be_bytes());
    ops.extend(std::iter::repeat_n(0x01, bytes));
    encode(&ServerMessage::Frame { term: Term(term), tick: Tick(tick), ops: &ops })
}

pub fn snapshot_of(term: u64, tick: u64) -> Bytes {
    encode(&ServerMessage::Snapshot { term: Term(term), tick: Tick(tick), ops: &[0x90] })
}

pub fn encode(message: &ServerMessage<'_>) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out);
    out.into()
}

impl FakeNode {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { term: 5, tick: 10, owed: 1, hash: HASH, ..State::default() }),
            full: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        })
    }

    pub fn room(&self, room: &str) {
        self.state.lock().rooms.entry(RoomId::new(room).expect("id")).or_default();
    }

    pub fn send(&self, message: ToGateway) {
        let downlink = self.state.lock().downlinks.values().last().cloned().expect("connected");
        downlink.send(message).expect("taken");
    }

    /// The links break; what the node thinks of its seats is its own affair.
    pub fn break_links(&self) {
        let links = std::mem::take(&mut self.state.lock().downlinks);
        links.values().for_each(|link| link.broken("as the test wants it"));
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.state.lock().downlinks.len()
    }

    /// Takes over a room with the seats that another has, as of a checkpoint in which so much was applied.
    pub fn takes_over(&self, from: &FakeNode, room: &RoomId, term: u64, tick: u64, saved: u64) {
        let seats = from.state.lock().rooms[room].seats.clone();
        let mut state = self.state.lock();
        (state.term, state.tick, state.restored, state.follows) = (term, tick, Some((term, tick)), true);
        state.foreign.remove(room);
        let restored = state.rooms.entry(room.clone()).or_default();
        let old = |(player, seat): (PlayerId, SeatState)| {
            (player, SeatState { connected: false, applied: saved, link: 0, ..seat })
        };
        restored.seats = seats.into_iter().map(old).collect();
        restored.inputs.clear();
    }

    /// A tick of the room, with state of `bytes` ops; `tail` gives each player's tail and saved mark.
    pub fn tick(&self, room: &RoomId, bytes: usize, tail: impl Fn(&PlayerId) -> (Vec<u8>, u64)) -> u64 {
        let (frames, tick) = {
            let mut state = self.state.lock();
            state.tick += 1;
            let (term, tick) = (state.term, state.tick);
            let mut frames = Vec::new();
            for (link, downlink) in &state.downlinks {
                let mut tails = Vec::new();
                let mut members = Vec::new();
                let here = |seat: &&SeatState| seat.connected && seat.link == *link;
                for (player, seat) in &state.rooms[room].seats {
                    let Some(seat) = Some(seat).filter(here) else { continue };
                    let (tail, saved) = tail(player);
                    let start = tails.len() as u32;
                    tails.extend_from_slice(&tail);
                    members.push(FrameMember { conn: seat.conn, saved: Seq(saved), start, end: tails.len() as u32 });
                }
                let body = frame_body(term, tick, bytes);
                let (term, tails) = (Term(term), tails.into());
                let frame = Frame { room: room.clone(), term, tick: Tick(tick), body, tails, members };
                frames.push((downlink.clone(), frame));
            }
            (frames, tick)
        };
        for (downlink, frame) in frames {
            downlink.send(ToGateway::Frame(frame)).expect("taken");
        }
        tick
    }

    /// The room comes back from a checkpoint under a new term.
    pub fn restore(&self, room: &RoomId, term: u64, tick: u64, owed: u64) {
        let members = {
            let mut state = self.state.lock();
            (state.term, state.tick) = (term, tick);
            let member = |seat: &mut SeatState| {
                seat.generation.0 += 1;
                let (conn, id, generation) = (seat.conn, seat.seat, seat.generation);
                RestoredMember { conn, seat: id, generation, owed: Seq(owed), snapshot: snapshot_of(term, tick) }
            };
            let seats = &mut state.rooms.get_mut(room).expect("a room").seats;
            seats.values_mut().map(member).collect()
        };
        self.send(ToGateway::Restored { room: room.clone(), term: Term(term), tick: Tick(tick), members });
    }

    pub fn seats(&self, room: &RoomId) -> Vec<SeatState> {
        self.state.lock().rooms.get(room).map(|room| room.seats.values().cloned().collect()).unwrap_or_default()
    }

    pub fn inputs(&self, room: &RoomId) -> Vec<u64> {
        let state = self.state.lock();
        state.rooms.get(room).map(|room| room.inputs.iter().map(|i| i.seq.0).collect()).unwrap_or_default()
    }

    fn attach(state: &mut State, link: u32, attach: Attach) -> Vec<ToGateway> {
        state.attaches.push(attach.clone());
        let Attach { conn, attempt, room, mode, player, first, shown, rejoin, generation, .. } = attach;
        if state.foreign.contains(&room) {
            let (shard, term) = (room.shard(SHARDS), Term(0));
            return vec![ToGateway::NotOwner { conn, attempt, shard, term }];
        }
        let refuse = |code| {
            let message = "as the test wants it".to_owned();
            vec![ToGateway::Refused { conn, attempt, code, word: None, message, retry_after: None }]
        };
        match (mode, state.rooms.contains_key(&room)) {
            (Mode::Join, false) => return refuse(ErrorCode::NoSuchRoom),
            (Mode::Create, true) => return refuse(ErrorCode::RoomExists),
            _ => {}
        }
        let (term, tick, owed, follows) = (Term(state.term), Tick(state.tick), Seq(state.owed), state.follows);
        let restored = state.restored.map(|(term, tick)| (Term(term), Tick(tick)));
        let (hash, table) = (state.hash, state.table.clone().filter(|_| attach.table != Some(state.hash)));
        let links = state.downlinks.clone();
        let seats = state.rooms.entry(room.clone()).or_default();
        if seats.full && !seats.seats.contains_key(&player) {
            return refuse(ErrorCode::RoomFull);
        }
        let number = seats.seats.len() as u32 + 1;
        let mut out = Vec::new();
        let seat = match seats.seats.get_mut(&player) {
            Some(seat) => {
                if seat.connected {
                    let (code, reason) = (CloseCode::Superseded, "another socket took this seat".to_owned());
                    let close = ToGateway::Close { conn: seat.conn, code, reason };
                    match links.get(&seat.link).filter(|_| seat.link != link) {
                        Some(other) => other.send(close).expect("taken"),
                        None => out.push(close),
                    }
                }
                seat.generation = Generation(seat.generation.max(generation).0 + 1);
                (seat.conn, seat.connected, seat.link) = (conn, true, link);
                if follows {
                    seat.applied = seat.applied.max(first.0 - 1);
                }
                seat.clone()
            }
            None => {
                let generation = Generation(generation.0 + 1);
                let applied = if rejoin { first.0 - 1 } else { 0 };
                let seat = SeatState { seat: SeatId(number), generation, conn, connected: true, link, applied };
                seats.seats.insert(player, seat.clone());
                seat
            }
        };
        out.push(ToGateway::Attached(Attached {
            conn,
            attempt,
            room,
            seat: seat.seat,
            generation: seat.generation,
            term,
            tick,
            owed: if follows { Seq(seat.applied + 1) } else { owed },
            tick_rate: 20,
            hash,
            table,
            snapshot: snapshot_of(term.0, tick.0),
            rolled_back: shown.0 < term && restored.is_some_and(|restored| shown > (shown.0, restored.1)),
        }));
        out
    }

    fn handle(&self, link: u32, message: ToNode) -> Vec<ToGateway> {
        let mut state = self.state.lock();
        let silent = self.silent.load(Ordering::SeqCst);
        match message {
            ToNode::Ask { conn, attempt, .. } => vec![ToGateway::Answered { conn, attempt, answer: None }],
            ToNode::Find { conn, attempt, .. } => {
                state.finds += 1;
                if silent {
                    return Vec::new();
                }
                let room = if state.found.is_empty() { None } else { Some(state.found.remove(0)) };
                let new = state.new && room.is_some();
                vec![ToGateway::Found { conn, attempt, room, new }]
            }
            ToNode::Attach(attach) if silent => {
                state.attaches.push(attach);
                Vec::new()
            }
            ToNode::Attach(attach) => Self::attach(&mut state, link, attach),
            ToNode::Input(input) => {
                let room = state.rooms.get_mut(&input.room).expect("a room");
                if let Some(seat) = room.seats.values_mut().find(|s| s.seat == input.seat) {
                    seat.applied = seat.applied.max(input.seq.0);
                }
                room.inputs.push(input);
                Vec::new()
            }
            ToNode::Detach { room, seat, generation, consented } => {
                state.detaches.push((room.clone(), seat, generation, consented));
                let Some(room) = state.rooms.get_mut(&room) else { return Vec::new() };
                let is = |s: &SeatState| s.seat == seat && s.generation == generation;
                let Some(player) = room.seats.iter().find(|(_, s)| is(s)).map(|(player, _)| player.clone()) else {
                    return Vec::new();
                };
                if consented {
                    let conn = room.seats.remove(&player).expect("there").conn;
                    return vec![ToGateway::Left { conn }];
                }
                room.seats.get_mut(&player).expect("there").connected = false;
                Vec::new()
            }
            ToNode::TermSeen { shard, term } => {
                state.terms_seen.push((shard, term));
                Vec::new()
            }
            ToNode::Resync { room, seat, .. } => {
                state.resyncs += 1;
                if silent {
                    return Vec::new();
                }
                let (term, tick) = (state.term, state.tick);
                let seats = &state.rooms[&room].seats;
                let conn = seats.values().find(|s| s.seat == seat).expect("a seat").conn;
                let bytes = snapshot_of(term, tick);
                vec![ToGateway::Snapshot { conn, term: Term(term), tick: Tick(tick), bytes }]
            }
        }
    }
}

struct Line {
    node: Arc<FakeNode>,
    link: u32,
    gateway: Arc<dyn Downlink>,
}

impl Uplink for Line {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        if self.node.full.load(Ordering::SeqCst) {
            return Err(Refused::Full(message));
        }
        for answer in self.node.handle(self.link, message) {
            self.gateway.send(answer).expect("taken");
        }
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = self.node.state.lock();
        state.downlinks.remove(&self.link);
        let seats = state.rooms.values_mut().flat_map(|room| room.seats.values_mut());
        seats.filter(|seat| seat.link == self.link).for_each(|seat| seat.connected = false);
    }
}

/// What the gateway connects to.
pub struct Door(pub Arc<FakeNode>);

impl Node for Door {
    fn connect(&self, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let link = NEXT.fetch_add(1, Ordering::SeqCst);
        self.0.state.lock().downlinks.insert(link, gateway.clone());
        Arc::new(Line { node: self.0.clone(), link, gateway })
    }
}
