//! What nodes say to gateways. The bodies of frames and snapshots are not copied.

use std::sync::Arc;

use bytes::Bytes;
use tenure_shared::{
    RoomId, ShardId, Term, Tick,
    codes::{CloseCode, ErrorCode},
    limits,
    wire::{Error, Fault, Space, TableRow},
};

use super::{ADDRESS_BYTES, FRAME_MEMBERS, Fields, Out, PACKET_BYTES, Packet, Packets, TEXT_BYTES, TooLong};
use crate::link::{Attached, Frame, FrameMember, RestoredMember, ToGateway};

/// Bytes of a member of a restored room besides its snapshot, at most.
const RESTORED_EACH: usize = 64;
/// Bytes of a packet besides its members, at most.
const RESTORED_HEAD: usize = 256;
/// Most fields of one name in a name table.
const TABLE_FIELDS: usize = 1_024;

pub(in super::super) fn write_to_gateway(message: &ToGateway) -> Result<Packets, TooLong> {
    if let ToGateway::Restored { room, term, tick, members } = message {
        return restored_parts(members, PACKET_BYTES).map(|part| restored(room, *term, *tick, part)).collect();
    }
    packet(message).map(|packet| Packets::from_elem(packet, 1))
}

fn packet(message: &ToGateway) -> Result<Packet, TooLong> {
    let out = match message {
        ToGateway::Found { conn, attempt, room, new } => {
            let mut out = Out::new(1, 4);
            out.uint(conn.0);
            out.uint(*attempt);
            out.opt_text(room.as_ref().map(RoomId::as_str), limits::ROOM_ID_BYTES);
            out.flag(*new);
            out
        }
        ToGateway::Attached(attached) => write_attached(attached),
        ToGateway::Refused { conn, attempt, code, word, message, retry_after } => {
            let mut out = Out::new(3, 5);
            out.uint(conn.0);
            out.uint(*attempt);
            // A game's own word is none of the framework's: one text says both.
            out.text(word.as_deref().unwrap_or(code.as_str()), TEXT_BYTES);
            out.text(message, TEXT_BYTES);
            out.opt_uint(retry_after.map(u64::from));
            out
        }
        ToGateway::NotOwner { conn, attempt, shard, term } => {
            let mut out = Out::new(4, 4);
            out.uint(conn.0);
            out.uint(*attempt);
            out.uint(shard.0);
            out.uint(term.0);
            out
        }
        ToGateway::Moved { shard, term, to } => {
            let mut out = Out::new(5, 3);
            out.uint(shard.0);
            out.uint(term.0);
            // A cut address leads nowhere: without it the gateway asks its directory.
            out.opt_text(to.as_deref().filter(|to| to.len() <= ADDRESS_BYTES), ADDRESS_BYTES);
            out
        }
        ToGateway::Gone { room, seat, generation } => {
            let mut out = Out::new(6, 3);
            out.text(room.as_str(), limits::ROOM_ID_BYTES);
            out.uint(seat.0);
            out.uint(generation.0);
            out
        }
        ToGateway::Frame(frame) => write_frame(frame)?,
        ToGateway::Snapshot { conn, term, tick, bytes } => {
            let mut out = Out::new(8, 4);
            out.uint(conn.0);
            out.uint(term.0);
            out.uint(tick.0);
            out.bytes(bytes);
            out
        }
        ToGateway::Restored { room, term, tick, members } => return restored(room, *term, *tick, members),
        ToGateway::Left { conn } => {
            let mut out = Out::new(10, 1);
            out.uint(conn.0);
            out
        }
        ToGateway::Answered { conn, attempt, answer } => {
            let mut out = Out::new(12, 3);
            out.uint(conn.0);
            out.uint(*attempt);
            match answer {
                Some(answer) => out.bytes(answer),
                None => out.nil(),
            }
            out
        }
        ToGateway::Close { conn, code, reason } => {
            let mut out = Out::new(11, 3);
            out.uint(conn.0);
            out.uint(code.code());
            out.text(reason, limits::REASON_BYTES);
            out
        }
    };
    out.done()
}

fn write_attached(attached: &Attached) -> Out {
    let mut out = Out::new(2, 13);
    out.uint(attached.conn.0);
    out.uint(attached.attempt);
    out.text(attached.room.as_str(), limits::ROOM_ID_BYTES);
    out.uint(attached.seat.0);
    out.uint(attached.generation.0);
    out.uint(attached.term.0);
    out.uint(attached.tick.0);
    out.uint(attached.owed.0);
    out.uint(attached.tick_rate);
    out.hash(attached.hash);
    match &attached.table {
        None => out.nil(),
        Some(rows) => {
            out.array(rows.len());
            for row in rows.iter() {
                out.array(5);
                out.uint(u8::from(row.space));
                out.uint(row.number);
                out.text(&row.name, limits::NAME_BYTES);
                out.uint(row.version);
                match &row.fields {
                    None => out.nil(),
                    Some(fields) => {
                        out.array(fields.len());
                        fields.iter().for_each(|field| out.text(field, limits::NAME_BYTES));
                    }
                }
            }
        }
    }
    out.flag(attached.rolled_back);
    out.bytes(&attached.snapshot);
    out
}

fn write_frame(frame: &Frame) -> Result<Out, TooLong> {
    if frame.members.len() > FRAME_MEMBERS {
        return Err(TooLong(frame.members.len().saturating_mul(size_of::<FrameMember>())));
    }
    let mut out = Out::new(7, 6);
    out.text(frame.room.as_str(), limits::ROOM_ID_BYTES);
    out.uint(frame.term.0);
    out.uint(frame.tick.0);
    out.array(frame.members.len());
    for member in &frame.members {
        out.array(4);
        out.uint(member.conn.0);
        out.uint(member.saved.0);
        out.uint(member.start);
        out.uint(member.end);
    }
    out.bytes(&frame.body);
    out.bytes(&frame.tails);
    Ok(out)
}

/// Members of a restored room, in parts that fit into a packet of `most` bytes each; their order does not matter, each is of one seat.
pub(super) fn restored_parts(members: &[RestoredMember], most: usize) -> impl Iterator<Item = &[RestoredMember]> {
    let mut rest = Some(members);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let mut bytes = RESTORED_HEAD;
        let fits = all.iter().take(FRAME_MEMBERS).take_while(|member| {
            bytes += member.snapshot.len() + RESTORED_EACH;
            bytes <= most
        });
        // One that fits nowhere goes alone, and is refused.
        let count = fits.count().max(1).min(all.len());
        let (part, later) = all.split_at(count);
        rest = (!later.is_empty()).then_some(later);
        Some(part)
    })
}

fn restored(room: &RoomId, term: Term, tick: Tick, members: &[RestoredMember]) -> Result<Packet, TooLong> {
    let mut out = Out::new(9, 4);
    out.text(room.as_str(), limits::ROOM_ID_BYTES);
    out.uint(term.0);
    out.uint(tick.0);
    out.array(members.len());
    for member in members {
        out.array(5);
        out.uint(member.conn.0);
        out.uint(member.seat.0);
        out.uint(member.generation.0);
        out.uint(member.owed.0);
        out.bytes(&member.snapshot);
    }
    out.done()
}

/// Reads one packet, without its length; `None` is a ping.
pub(in super::super) fn read_to_gateway(packet: &Bytes) -> Result<Option<ToGateway>, Error> {
    let (mut f, number) = Fields::open(packet)?;
    let message = match number {
        0 => {
            f.expect("ping", 0)?;
            f.end()?;
            return Ok(None);
        }
        1 => {
            f.expect("found", 4)?;
            ToGateway::Found {
                conn: f.conn()?,
                attempt: f.u32("attempt")?,
                room: f.optional(Fields::room)?,
                new: f.flag("new")?,
            }
        }
        2 => {
            f.expect("attached", 13)?;
            ToGateway::Attached(read_attached(&mut f)?)
        }
        3 => {
            f.expect("refused", 5)?;
            let (conn, attempt, text) = (f.conn()?, f.u32("attempt")?, f.text("code", TEXT_BYTES)?);
            let code = ErrorCode::from_word(text);
            ToGateway::Refused {
                conn,
                attempt,
                code: code.unwrap_or(ErrorCode::Refused),
                word: code.is_none().then(|| text.into()),
                message: f.text("message", TEXT_BYTES)?.to_owned(),
                retry_after: f.optional(|f| f.u32("retry_after"))?,
            }
        }
        4 => {
            f.expect("not_owner", 4)?;
            let (conn, attempt) = (f.conn()?, f.u32("attempt")?);
            ToGateway::NotOwner { conn, attempt, shard: ShardId(f.u32("shard")?), term: f.term()? }
        }
        5 => {
            f.expect("moved", 3)?;
            let (shard, term) = (ShardId(f.u32("shard")?), f.term()?);
            ToGateway::Moved { shard, term, to: f.optional(|f| f.text("to", ADDRESS_BYTES))?.map(Arc::from) }
        }
        6 => {
            f.expect("gone", 3)?;
            ToGateway::Gone { room: f.room()?, seat: f.seat()?, generation: f.generation()? }
        }
        7 => {
            f.expect("frame", 6)?;
            ToGateway::Frame(read_frame(&mut f)?)
        }
        8 => {
            f.expect("snapshot", 4)?;
            ToGateway::Snapshot { conn: f.conn()?, term: f.term()?, tick: f.tick()?, bytes: f.bytes("bytes")? }
        }
        9 => {
            f.expect("restored", 4)?;
            let (room, term, tick) = (f.room()?, f.term()?, f.tick()?);
            let mut members = Vec::new();
            for _ in 0..f.list("members", FRAME_MEMBERS)? {
                f.tuple("members", 5)?;
                let (conn, seat, generation) = (f.conn()?, f.seat()?, f.generation()?);
                let (owed, snapshot) = (f.seq("owed")?, f.bytes("snapshot")?);
                members.push(RestoredMember { conn, seat, generation, owed, snapshot });
            }
            ToGateway::Restored { room, term, tick, members }
        }
        10 => {
            f.expect("left", 1)?;
            ToGateway::Left { conn: f.conn()? }
        }
        11 => {
            f.expect("close", 3)?;
            let conn = f.conn()?;
            // A number of a newer version: the client may come again.
            let code = CloseCode::from_code(f.u16("code")?).unwrap_or(CloseCode::MayRetry);
            ToGateway::Close { conn, code, reason: f.text("reason", limits::REASON_BYTES)?.to_owned() }
        }
        12 => {
            f.expect("answered", 3)?;
            ToGateway::Answered {
                conn: f.conn()?,
                attempt: f.u32("attempt")?,
                answer: f.optional(|f| f.bytes("answer"))?,
            }
        }
        other => return Err(f.unknown(other)),
    };
    f.end()?;
    Ok(Some(message))
}

fn read_attached(f: &mut Fields<'_>) -> Result<Attached, Error> {
    Ok(Attached {
        conn: f.conn()?,
        attempt: f.u32("attempt")?,
        room: f.room()?,
        seat: f.seat()?,
        generation: f.generation()?,
        term: f.term()?,
        tick: f.tick()?,
        owed: f.seq("owed")?,
        tick_rate: f.u32("tick_rate")?,
        hash: f.hash("hash")?,
        table: f.optional(read_table)?.map(Arc::new),
        rolled_back: f.flag("rolled_back")?,
        snapshot: f.bytes("snapshot")?,
    })
}

fn read_table(f: &mut Fields<'_>) -> Result<Vec<TableRow>, Error> {
    let mut rows = Vec::new();
    for _ in 0..f.list("table", limits::TABLE_NAMES)? {
        f.tuple("table", 5)?;
        let space =
            Space::try_from(f.u8("space")?).map_err(|_| f.fault("space", Fault::Value("a space from 0 to 4")))?;
        let (number, name) = (f.u16("number")?, f.text("name", limits::NAME_BYTES)?.to_owned());
        let version = f.u32("version")?;
        let fields = f.optional(|f| {
            let count = f.list("fields", TABLE_FIELDS)?;
            (0..count).map(|_| f.text("fields", limits::NAME_BYTES).map(str::to_owned)).collect()
        })?;
        rows.push(TableRow { space, number, name, version, fields });
    }
    Ok(rows)
}

fn read_frame(f: &mut Fields<'_>) -> Result<Frame, Error> {
    let (room, term, tick) = (f.room()?, f.term()?, f.tick()?);
    // Grows with the members that were read, never by the claimed number (C60).
    let mut members = Vec::new();
    for _ in 0..f.list("members", FRAME_MEMBERS)? {
        f.tuple("members", 4)?;
        let (conn, saved) = (f.conn()?, f.seq("saved")?);
        members.push(FrameMember { conn, saved, start: f.u32("start")?, end: f.u32("end")? });
    }
    let (body, tails) = (f.bytes("body")?, f.bytes("tails")?);
    if members.iter().any(|member| member.start > member.end || member.end as usize > tails.len()) {
        return Err(f.fault("members", Fault::Value("a tail inside of the tails")));
    }
    Ok(Frame { room, term, tick, body, tails, members })
}
