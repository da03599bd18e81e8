//! Decoding and encoding of what servers send. Rooms write the hot kinds in place with the functions at the top.

use super::{
    Error, Fault, Granted, Joined, ListedRoom, ServerMessage, TableRow, Welcome,
    fields::Fields,
    table::{read_table, write_table},
};
use crate::{
    ids::{Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick},
    limits,
    msgpack::{Bounds, Reader, array_head, bin, boolean, int, nil, opt_text, opt_uint, text, uint},
};

/// Most addresses in a `move`, most currencies in a grant.
const LIST_LENGTH: usize = 64;

/// Appends the start of a frame; exactly one array of ops must follow.
pub fn write_frame_head(out: &mut Vec<u8>, term: Term, tick: Tick) {
    head(out, 5, 3);
    uint(out, term.0);
    uint(out, tick.0);
}

/// Appends a frame. `ops` is an array of ops, see [`crate::delta::OpsWriter`].
pub fn write_frame(out: &mut Vec<u8>, term: Term, tick: Tick, ops: &[u8]) {
    write_frame_head(out, term, tick);
    out.extend_from_slice(ops);
}

/// Appends the start of a snapshot; exactly one array of ops must follow.
pub fn write_snapshot_head(out: &mut Vec<u8>, term: Term, tick: Tick) {
    head(out, 7, 3);
    uint(out, term.0);
    uint(out, tick.0);
}

/// Appends a seat's tail. `ops` is an array of ops; `&[]` stands for the empty one.
pub fn write_tail(out: &mut Vec<u8>, applied: Seq, saved: Seq, ops: &[u8]) {
    head(out, 6, 3);
    uint(out, applied.0);
    uint(out, saved.0);
    if ops.is_empty() {
        array_head(out, 0);
    } else {
        out.extend_from_slice(ops);
    }
}

/// Appends the frame of a tick without changes.
pub fn write_quiet(out: &mut Vec<u8>, term: Term, tick: Tick) {
    head(out, 16, 2);
    uint(out, term.0);
    uint(out, tick.0);
}

/// The messages in one WebSocket message of a server. After an error it ends.
#[derive(Clone, Debug)]
pub struct ServerMessages<'a> {
    reader: Reader<'a>,
    bounds: Bounds,
    done: bool,
}

impl<'a> ServerMessages<'a> {
    /// Reads `bytes`, the payload of one binary WebSocket message. [`Bounds::SERVER`] is made for it.
    pub fn new(bytes: &'a [u8], bounds: &Bounds) -> Self {
        Self { reader: Reader::new(bytes), bounds: *bounds, done: false }
    }
}

impl<'a> Iterator for ServerMessages<'a> {
    type Item = Result<ServerMessage<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.reader.is_empty() {
            return None;
        }
        let message = decode(&mut self.reader, self.bounds);
        self.done = message.is_err();
        Some(message)
    }
}

fn decode<'a>(reader: &mut Reader<'a>, bounds: Bounds) -> Result<ServerMessage<'a>, Error> {
    let at = reader.position();
    let (mut f, kind, count) = Fields::open(reader, bounds)?;
    let mut expect = |name, fields| f.expect(name, count, fields);
    Ok(match kind {
        1 => {
            expect("welcome", 8)?;
            welcome(&mut f)?
        }
        2 => {
            expect("joined", 11)?;
            joined(&mut f)?
        }
        3 => {
            expect("error", 4)?;
            let (id, code, message) = (f.u32("id")?, f.name("code")?, f.prose("message")?);
            let retry_after = f.get("retry_after", |r| r.optional(Reader::u32))?;
            ServerMessage::Error { id, code, message, retry_after }
        }
        4 => {
            expect("left", 1)?;
            ServerMessage::Left { id: f.request()? }
        }
        5 => {
            expect("frame", 3)?;
            let (term, tick) = f.term_tick()?;
            ServerMessage::Frame { term, tick, ops: f.ops()? }
        }
        6 => {
            expect("tail", 3)?;
            ServerMessage::Tail { applied: Seq(f.u53("applied")?), saved: Seq(f.u53("saved")?), ops: f.ops()? }
        }
        7 => {
            expect("snapshot", 3)?;
            let (term, tick) = f.term_tick()?;
            ServerMessage::Snapshot { term, tick, ops: f.ops()? }
        }
        8 => {
            expect("message", 2)?;
            ServerMessage::Message { kind: f.kind()?, payload: f.value("payload")? }
        }
        9 => {
            expect("reply", 2)?;
            ServerMessage::Reply { id: f.request()?, payload: f.value("payload")? }
        }
        10 => {
            expect("pong", 2)?;
            ServerMessage::Pong { id: f.u32("id")?, time: f.u53("time")? }
        }
        11 => {
            expect("move", 2)?;
            let at = f.at();
            let urls = f.list("urls", |f| f.prose("urls"))?;
            if urls.len() > LIST_LENGTH {
                return Err(f.fault(at, "urls", Fault::Value("at most 64 addresses")));
            }
            ServerMessage::Move { urls, after: f.u32("after")? }
        }
        12 => {
            expect("rolled_back", 2)?;
            let (term, tick) = f.term_tick()?;
            ServerMessage::RolledBack { term, tick }
        }
        13 => {
            expect("session", 1)?;
            ServerMessage::Session { session: f.token("session")? }
        }
        14 => {
            expect("granted", 4)?;
            let source = f.get("source", |r| r.text(2 * limits::ROOM_ID_BYTES))?.to_owned();
            let scheduled_for = f.opt_u53("scheduled_for")?;
            let (grants, balances) = (amounts(&mut f, "grants")?, amounts(&mut f, "balances")?);
            ServerMessage::Granted(Granted { source, scheduled_for, grants, balances })
        }
        15 => {
            expect("refused", 3)?;
            ServerMessage::Refused { seq: f.seq("seq")?, code: f.name("code")?, message: f.prose("message")? }
        }
        16 => {
            expect("heartbeat frame", 2)?;
            let (term, tick) = f.term_tick()?;
            ServerMessage::Quiet { term, tick }
        }
        17 => {
            expect("renewed", 4)?;
            let (seat, tick_rate) = (SeatId(f.u32("seat")?), f.u32("tick_rate")?);
            ServerMessage::Renewed { seat, tick_rate, hash: f.hash("hash")?, table: read_table(&mut f)? }
        }
        18 => {
            expect("rooms", 3)?;
            let (id, at) = (f.request()?, f.at());
            let rooms = f.list("rooms", listed)?;
            if rooms.len() > limits::LIST_ROOMS {
                return Err(f.fault(at, "rooms", Fault::Value("at most 50 rooms")));
            }
            ServerMessage::Rooms { id, rooms, next: f.opt_room("next")? }
        }
        other => return Err(f.fault(at, "kind", Fault::Kind(other))),
    })
}

fn welcome<'a>(f: &mut Fields<'_, 'a>) -> Result<ServerMessage<'a>, Error> {
    Ok(ServerMessage::Welcome(Welcome {
        protocol: f.u32("protocol")?,
        player: f.id("player", PlayerId::new)?,
        token: f.opt_token("token")?.map(str::to_owned),
        server: f.prose("server")?.to_owned(),
        ping: f.u32("ping")?,
        idle: f.u32("idle")?,
        bytes: f.u32("bytes")?,
        rate: f.u32("rate")?,
    }))
}

fn listed<'a>(f: &mut Fields<'_, 'a>) -> Result<ListedRoom<'a>, Error> {
    f.tuple("rooms", 5)?;
    Ok(ListedRoom {
        room: f.room()?,
        seats: f.u32("seats")?,
        max_seats: f.u32("max_seats")?,
        locked: f.flag("locked")?,
        metadata: f.value("metadata")?,
    })
}

fn joined<'a>(f: &mut Fields<'_, 'a>) -> Result<ServerMessage<'a>, Error> {
    Ok(ServerMessage::Joined(Joined {
        id: f.request()?,
        room: f.room()?,
        seat: SeatId(f.u32("seat")?),
        generation: Generation(f.u32("generation")?),
        session: f.token("session")?.to_owned(),
        term: Term(f.u53("term")?),
        tick: Tick(f.u53("tick")?),
        owed: f.seq("owed")?,
        tick_rate: f.u32("tick_rate")?,
        hash: f.hash("hash")?,
        table: read_table(f)?,
    }))
}

fn amounts(f: &mut Fields<'_, '_>, field: &'static str) -> Result<Vec<(String, i64)>, Error> {
    let at = f.at();
    let all = f.list(field, |f| {
        f.tuple(field, 2)?;
        let currency = f.get(field, |r| r.text(limits::NAME_BYTES))?.to_owned();
        Ok((currency, f.get(field, Reader::i54)?))
    })?;
    if all.len() > LIST_LENGTH {
        return Err(f.fault(at, field, Fault::Value("at most 64 currencies")));
    }
    Ok(all)
}

impl ServerMessage<'_> {
    /// Appends the message. `ops` must be an array of ops, `payload` and a room's `metadata` one MessagePack value each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ServerMessage::Welcome(w) => {
                head(out, 1, 8);
                uint(out, u64::from(w.protocol));
                text(out, w.player.as_str());
                opt_text(out, w.token.as_deref());
                text(out, &w.server);
                for n in [w.ping, w.idle, w.bytes, w.rate] {
                    uint(out, u64::from(n));
                }
            }
            ServerMessage::Joined(j) => encode_joined(out, j),
            ServerMessage::Error { id, code, message, retry_after } => {
                head(out, 3, 4);
                uint(out, u64::from(*id));
                text(out, code);
                text(out, message);
                opt_uint(out, retry_after.map(u64::from));
            }
            ServerMessage::Left { id } => {
                head(out, 4, 1);
                uint(out, u64::from(*id));
            }
            ServerMessage::Frame { term, tick, ops } => write_frame(out, *term, *tick, ops),
            ServerMessage::Tail { applied, saved, ops } => write_tail(out, *applied, *saved, ops),
            ServerMessage::Snapshot { term, tick, ops } => {
                write_snapshot_head(out, *term, *tick);
                out.extend_from_slice(ops);
            }
            ServerMessage::Message { kind, payload } => {
                head(out, 8, 2);
                uint(out, u64::from(*kind));
                out.extend_from_slice(payload);
            }
            ServerMessage::Reply { id, payload } => {
                head(out, 9, 2);
                uint(out, u64::from(*id));
                out.extend_from_slice(payload);
            }
            ServerMessage::Pong { id, time } => {
                head(out, 10, 2);
                uint(out, u64::from(*id));
                uint(out, *time);
            }
            ServerMessage::Move { urls, after } => {
                head(out, 11, 2);
                array_head(out, urls.len());
                urls.iter().for_each(|url| text(out, url));
                uint(out, u64::from(*after));
            }
            ServerMessage::RolledBack { term, tick } => {
                head(out, 12, 2);
                uint(out, term.0);
                uint(out, tick.0);
            }
            ServerMessage::Session { session } => {
                head(out, 13, 1);
                text(out, session);
            }
            ServerMessage::Granted(granted) => {
                head(out, 14, 4);
                text(out, &granted.source);
                opt_uint(out, granted.scheduled_for);
                for list in [&granted.grants, &granted.balances] {
                    array_head(out, list.len());
                    for (currency, amount) in list {
                        array_head(out, 2);
                        text(out, currency);
                        int(out, *amount);
                    }
                }
            }
            ServerMessage::Refused { seq, code, message } => {
                head(out, 15, 3);
                uint(out, seq.0);
                text(out, code);
                text(out, message);
            }
            ServerMessage::Quiet { term, tick } => write_quiet(out, *term, *tick),
            ServerMessage::Renewed { seat, tick_rate, hash, table } => {
                head(out, 17, 4);
                uint(out, u64::from(seat.0));
                uint(out, u64::from(*tick_rate));
                hash_and_table(out, *hash, table.as_deref());
            }
            ServerMessage::Rooms { id, rooms, next } => {
                head(out, 18, 3);
                uint(out, u64::from(*id));
                array_head(out, rooms.len());
                rooms.iter().for_each(|room| encode_listed(out, room));
                opt_text(out, next.as_ref().map(RoomId::as_str));
            }
        }
    }
}

fn encode_listed(out: &mut Vec<u8>, room: &ListedRoom<'_>) {
    array_head(out, 5);
    text(out, room.room.as_str());
    uint(out, u64::from(room.seats));
    uint(out, u64::from(room.max_seats));
    boolean(out, room.locked);
    out.extend_from_slice(room.metadata);
}

fn encode_joined(out: &mut Vec<u8>, j: &Joined) {
    head(out, 2, 11);
    uint(out, u64::from(j.id));
    text(out, j.room.as_str());
    uint(out, u64::from(j.seat.0));
    uint(out, u64::from(j.generation.0));
    text(out, &j.session);
    for n in [j.term.0, j.tick.0, j.owed.0, u64::from(j.tick_rate)] {
        uint(out, n);
    }
    hash_and_table(out, j.hash, j.table.as_deref());
}

fn hash_and_table(out: &mut Vec<u8>, hash: u64, table: Option<&[TableRow]>) {
    bin(out, &hash.to_be_bytes());
    match table {
        Some(rows) => write_table(out, rows),
        None => nil(out),
    }
}

fn head(out: &mut Vec<u8>, kind: u8, fields: usize) {
    array_head(out, fields + 1);
    out.push(kind);
}
