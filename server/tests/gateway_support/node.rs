//! A room host without worlds: it seats players as the contract says and shows what the test tells it to show.

use std::{
    collections::HashMap,
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
    Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick,
    codes::{CloseCode, ErrorCode},
    wire::ServerMessage,
};

#[derive(Clone, Debug)]
pub struct SeatState {
    pub seat: SeatId,
    pub generation: Generation,
    pub conn: ConnId,
    pub connected: bool,
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
    downlink: Option<Arc<dyn Downlink>>,
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
            state: Mutex::new(State { term: 5, tick: 10, owed: 1, ..State::default() }),
            full: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        })
    }

    pub fn room(&self, room: &str) {
        self.state.lock().rooms.entry(RoomId::new(room).expect("id")).or_default();
    }

    pub fn send(&self, message: ToGateway) {
        let downlink = self.state.lock().downlink.clone().expect("connected");
        downlink.send(message).expect("taken");
    }

    /// A tick of the room, with state of `bytes` ops; `tail` gives each player's tail and saved mark.
    pub fn tick(&self, room: &RoomId, bytes: usize, tail: impl Fn(&PlayerId) -> (Vec<u8>, u64)) -> u64 {
        let (frame, tick) = {
            let mut state = self.state.lock();
            state.tick += 1;
            let (term, tick) = (state.term, state.tick);
            let mut tails = Vec::new();
            let mut members = Vec::new();
            for (player, seat) in state.rooms[room].seats.iter().filter(|(_, seat)| seat.connected) {
                let (tail, saved) = tail(player);
                let start = tails.len() as u32;
                tails.extend_from_slice(&tail);
                members.push(FrameMember { conn: seat.conn, saved: Seq(saved), start, end: tails.len() as u32 });
            }
            let body = frame_body(term, tick, bytes);
            let (term, tails) = (Term(term), tails.into());
            (Frame { room: room.clone(), term, tick: Tick(tick), body, tails, members }, tick)
        };
        self.send(ToGateway::Frame(frame));
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

    fn attach(state: &mut State, attach: Attach) -> Vec<ToGateway> {
        state.attaches.push(attach.clone());
        let Attach { conn, attempt, room, mode, player, .. } = attach;
        let refuse = |code| {
            let message = "as the test wants it".to_owned();
            vec![ToGateway::Refused { conn, attempt, code, message, retry_after: None }]
        };
        match (mode, state.rooms.contains_key(&room)) {
            (Mode::Join, false) => return refuse(ErrorCode::NoSuchRoom),
            (Mode::Create, true) => return refuse(ErrorCode::RoomExists),
            _ => {}
        }
        let (term, tick, owed) = (Term(state.term), Tick(state.tick), Seq(state.owed));
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
                    out.push(ToGateway::Close { conn: seat.conn, code, reason });
                }
                seat.generation.0 += 1;
                (seat.conn, seat.connected) = (conn, true);
                seat.clone()
            }
            None => {
                let seat = SeatState { seat: SeatId(number), generation: Generation(1), conn, connected: true };
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
            owed,
            tick_rate: 20,
            hash: 0x1122_3344_5566_7788,
            table: None,
            snapshot: snapshot_of(term.0, tick.0),
            rolled_back: false,
        }));
        out
    }

    fn handle(&self, message: ToNode) -> Vec<ToGateway> {
        let mut state = self.state.lock();
        let silent = self.silent.load(Ordering::SeqCst);
        match message {
            ToNode::Find { conn, .. } => {
                state.finds += 1;
                let room = if state.found.is_empty() { None } else { Some(state.found.remove(0)) };
                vec![ToGateway::Found { conn, room }]
            }
            ToNode::Attach(attach) if silent => {
                state.attaches.push(attach);
                Vec::new()
            }
            ToNode::Attach(attach) => Self::attach(&mut state, attach),
            ToNode::Input(input) => {
                let room = input.room.clone();
                state.rooms.get_mut(&room).expect("a room").inputs.push(input);
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
            ToNode::TermSeen { .. } => Vec::new(),
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

struct Line(Arc<FakeNode>);

impl Uplink for Line {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        if self.0.full.load(Ordering::SeqCst) {
            return Err(Refused::Full(message));
        }
        for answer in self.0.handle(message) {
            self.0.send(answer);
        }
        Ok(())
    }
}

/// What the gateway connects to.
pub struct Door(pub Arc<FakeNode>);

impl Node for Door {
    fn connect(&self, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        self.0.state.lock().downlink = Some(gateway);
        Arc::new(Line(self.0.clone()))
    }
}
