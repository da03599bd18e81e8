//! A room of the baseline: seats that move, one frame per tick for all, a tail for each.

use std::{sync::PoisonError, time::Duration};

use bytes::Bytes;
use tenure_shared::{
    Generation, RoomId, SeatId, Seq, Term, Tick,
    delta::OpsWriter,
    wire::{Joined, ServerMessage, Space, TableRow, table_hash, write_frame_head, write_snapshot_head, write_tail},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};

/// Ticks per second.
const RATE: u32 = 20;
/// How often all inputs count as saved, ticks.
const SAVE_EVERY: u64 = 20;
/// Number of the position component.
const POSITION: u16 = 0;
/// Number of the component that counts inputs.
const INPUTS: u16 = 1;
/// Distance per tick at full speed; the field is 1000 wide and wraps.
const SPEED: f32 = 5.0 / 127.0;

/// What connections tell their room.
pub(super) enum Command {
    /// A new seat, or with a session token an old one.
    Join { id: u32, session: Option<String>, out: mpsc::Sender<Piece>, answer: oneshot::Sender<Option<Seated>> },
    /// A steer.
    Input { seat: u32, seq: u64, steer: (i8, i8) },
    /// The seat wants a snapshot.
    Resync { seat: u32 },
    /// The seat is given up.
    Leave { seat: u32 },
    /// The connection ended.
    Gone { seat: u32, generation: u32 },
}

/// The answer to a join.
pub(super) struct Seated {
    pub(super) seat: u32,
    pub(super) generation: u32,
    pub(super) joined: Bytes,
}

/// What a room hands to one connection in a tick.
pub(super) struct Piece {
    /// A frame that all share, or a snapshot.
    body: Bytes,
    seat: u32,
    applied: u64,
    saved: u64,
    /// The count of inputs if it changed.
    count: Option<u64>,
}

impl Piece {
    /// Frame and tail as one message.
    pub(super) fn into_bytes(self) -> Bytes {
        let mut ops = Vec::with_capacity(16);
        if let Some(count) = self.count {
            let mut writer = OpsWriter::new(&mut ops);
            let mut value = Vec::with_capacity(9);
            tenure_shared::msgpack::uint(&mut value, count);
            writer.set(u64::from(self.seat));
            writer.component(INPUTS, &value);
            writer.finish();
        }
        let mut all = Vec::with_capacity(self.body.len() + 32);
        all.extend_from_slice(&self.body);
        write_tail(&mut all, Seq(self.applied), Seq(self.saved), &ops);
        all.into()
    }
}

/// A room as it was saved.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    term: u64,
    /// Seat, session token, last input applied.
    seats: Vec<(u32, String, u64)>,
}

#[cfg(test)]
impl Save {
    /// Inputs applied in it.
    pub(crate) fn inputs(&self) -> u64 {
        self.seats.iter().map(|(_, _, applied)| applied).sum()
    }
}

struct Member {
    seat: u32,
    generation: u32,
    session: String,
    at: (f32, f32),
    steer: (i8, i8),
    applied: u64,
    saved: u64,
    shown: u64,
    snapshot: bool,
    out: Option<mpsc::Sender<Piece>>,
}

pub(super) async fn run(id: RoomId, saves: super::Saves, mut queue: mpsc::Receiver<Command>) {
    let mut room = Room::new(id, saves);
    let mut timer = interval(Duration::from_secs(1) / RATE);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        timer.tick().await;
        loop {
            match queue.try_recv() {
                Ok(command) => room.command(command),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return,
            }
        }
        room.tick();
    }
}

struct Room {
    id: RoomId,
    saves: super::Saves,
    term: Term,
    members: Vec<Member>,
    tick: u64,
    seats: u32,
}

impl Member {
    fn new(seat: u32, session: String, applied: u64) -> Self {
        Self {
            seat,
            generation: 0,
            session,
            at: (500.0, 500.0),
            steer: (0, 0),
            applied,
            saved: applied,
            shown: 0,
            snapshot: true,
            out: None,
        }
    }
}

impl Room {
    fn new(id: RoomId, saves: super::Saves) -> Self {
        let save = saves.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let (term, seats) = save.map_or((0, Vec::new()), |save| (save.term, save.seats));
        let last = seats.iter().map(|(seat, ..)| *seat).max().unwrap_or(0);
        let members = seats.into_iter().map(|(seat, session, applied)| Member::new(seat, session, applied)).collect();
        let room = Self { id, saves, term: Term(term + 1), members, tick: 0, seats: last };
        // The term is taken before anything is sent under it.
        room.save();
        room
    }

    fn save(&self) {
        let seats = self.members.iter().map(|m| (m.seat, m.session.clone(), m.saved)).collect();
        let save = Save { term: self.term.0, seats };
        self.saves.lock().unwrap_or_else(PoisonError::into_inner).insert(self.id.clone(), save);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Join { id, session, out, answer } => {
                let seated = self.seat(id, session.as_deref(), out);
                // A connection that ended meanwhile says so by `Gone`, or never had a seat.
                let _missed = answer.send(seated);
            }
            Command::Input { seat, seq, steer } => {
                if let Some(member) = self.member(seat)
                    && seq == member.applied + 1
                {
                    member.applied = seq;
                    member.steer = steer;
                }
            }
            Command::Resync { seat } => {
                if let Some(member) = self.member(seat) {
                    member.snapshot = true;
                }
            }
            Command::Leave { seat } => self.members.retain(|m| m.seat != seat),
            Command::Gone { seat, generation } => {
                if let Some(member) = self.member(seat)
                    && member.generation == generation
                {
                    member.out = None;
                }
            }
        }
    }

    fn member(&mut self, seat: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.seat == seat)
    }

    fn seat(&mut self, id: u32, session: Option<&str>, out: mpsc::Sender<Piece>) -> Option<Seated> {
        let seat = match session {
            Some(session) => self.members.iter().find(|m| m.session == session)?.seat,
            None => {
                self.seats += 1;
                // Not the session of another life of this server.
                let session = format!("s{}.{}", std::process::id(), self.seats);
                self.members.push(Member::new(self.seats, session, 0));
                // As a real server does: a seat that was given is stored.
                self.save();
                self.seats
            }
        };
        let (room, term, tick) = (self.id.clone(), self.term, Tick(self.tick));
        let member = self.member(seat)?;
        member.generation += 1;
        member.snapshot = true;
        member.out = Some(out);
        let rows = table();
        let joined = Joined {
            id,
            room,
            seat: SeatId(seat),
            generation: Generation(member.generation),
            session: member.session.clone(),
            term,
            tick,
            owed: Seq(member.applied + 1),
            tick_rate: RATE,
            hash: table_hash(&rows),
            table: Some(rows),
        };
        let mut bytes = Vec::new();
        ServerMessage::Joined(joined).encode(&mut bytes);
        Some(Seated { seat, generation: member.generation, joined: bytes.into() })
    }

    fn tick(&mut self) {
        self.tick += 1;
        let save = self.tick.is_multiple_of(SAVE_EVERY);
        let mut body = Vec::with_capacity(32 + 20 * self.members.len());
        write_frame_head(&mut body, self.term, Tick(self.tick));
        let mut ops = OpsWriter::new(&mut body);
        for member in &mut self.members {
            let (dx, dy) = member.steer;
            if (dx, dy) != (0, 0) {
                member.at.0 = (member.at.0 + f32::from(dx) * SPEED).rem_euclid(1000.0);
                member.at.1 = (member.at.1 + f32::from(dy) * SPEED).rem_euclid(1000.0);
                ops.set(u64::from(member.seat));
                ops.component(POSITION, &position(member.at));
            }
            if save {
                member.saved = member.applied;
            }
        }
        ops.finish();
        if save {
            self.save();
        }
        let body = Bytes::from(body);
        let snapshot = self.members.iter().any(|m| m.snapshot).then(|| self.snapshot());
        for member in &mut self.members {
            let Some(out) = &member.out else { continue };
            let whole = snapshot.as_ref().filter(|_| member.snapshot);
            let count = (member.shown != member.applied || whole.is_some()).then_some(member.applied);
            let body = whole.unwrap_or(&body).clone();
            let piece = Piece { body, seat: member.seat, applied: member.applied, saved: member.saved, count };
            // A connection whose queue is full misses this frame and gets everything later.
            let full = out.try_send(piece).is_err();
            member.snapshot = full;
            if !full {
                member.shown = member.applied;
            }
        }
    }

    fn snapshot(&self) -> Bytes {
        let mut body = Vec::new();
        write_snapshot_head(&mut body, self.term, Tick(self.tick));
        let mut ops = OpsWriter::new(&mut body);
        for member in &self.members {
            ops.spawn(u64::from(member.seat));
            ops.component(POSITION, &position(member.at));
        }
        ops.finish();
        body.into()
    }
}

/// `[x, y]` as two floats of 32 bits.
fn position((x, y): (f32, f32)) -> [u8; 11] {
    let mut out = [0x92, 0xca, 0, 0, 0, 0, 0xca, 0, 0, 0, 0];
    out[2..6].copy_from_slice(&x.to_be_bytes());
    out[7..].copy_from_slice(&y.to_be_bytes());
    out
}

fn table() -> Vec<TableRow> {
    let row = |space, number, name: &str, fields: Option<[&str; 2]>| TableRow {
        space,
        number,
        name: name.to_owned(),
        version: 1,
        fields: fields.map(|names| names.map(str::to_owned).to_vec()),
    };
    vec![
        row(Space::Component, POSITION, "position", Some(["x", "y"])),
        row(Space::Component, INPUTS, "inputs", None),
        row(Space::Message, 0, "steer", Some(["dx", "dy"])),
    ]
}
