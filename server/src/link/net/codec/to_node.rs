//! What gateways say to nodes. The gateway's number is not sent: the node stamps its own on every message.

use bytes::Bytes;
use tenure_shared::{
    PlayerId, ShardId, limits,
    wire::{Error, Fault},
};

use super::{Fields, Out, Packet, Packets, TEXT_BYTES, TooLong};
use crate::link::{Attach, GatewayId, Input, Mode, ToNode};

pub(in super::super) fn write_to_node(message: &ToNode) -> Result<Packets, TooLong> {
    packet(message).map(|packet| Packets::from_elem(packet, 1))
}

fn packet(message: &ToNode) -> Result<Packet, TooLong> {
    let out = match message {
        ToNode::Find { gateway: _, conn, attempt, kind, region, make } => {
            let mut out = Out::new(1, 5);
            out.uint(conn.0);
            out.uint(*attempt);
            out.text(kind, TEXT_BYTES);
            out.text(region, TEXT_BYTES);
            out.flag(*make);
            out
        }
        ToNode::Ask { gateway: _, conn, attempt, region, within, question } => {
            let mut out = Out::new(7, 5);
            out.uint(conn.0);
            out.uint(*attempt);
            out.text(region, TEXT_BYTES);
            out.uint(*within);
            out.bytes(question);
            out
        }
        ToNode::Attach(attach) => write_attach(attach),
        ToNode::Input(input) => {
            let mut out = Out::new(3, 7);
            out.text(input.room.as_str(), limits::ROOM_ID_BYTES);
            out.uint(input.seat.0);
            out.uint(input.generation.0);
            out.uint(input.seq.0);
            out.opt_uint(input.request.map(u64::from));
            out.uint(input.kind);
            out.bytes(&input.payload);
            out
        }
        ToNode::Detach { room, seat, generation, consented } => {
            let mut out = Out::new(4, 4);
            out.text(room.as_str(), limits::ROOM_ID_BYTES);
            out.uint(seat.0);
            out.uint(generation.0);
            out.flag(*consented);
            out
        }
        ToNode::Resync { room, seat, generation } => {
            let mut out = Out::new(5, 3);
            out.text(room.as_str(), limits::ROOM_ID_BYTES);
            out.uint(seat.0);
            out.uint(generation.0);
            out
        }
        ToNode::TermSeen { shard, term } => {
            let mut out = Out::new(6, 2);
            out.uint(shard.0);
            out.uint(term.0);
            out
        }
    };
    out.done()
}

fn write_attach(attach: &Attach) -> Out {
    let mut out = Out::new(2, 15);
    out.uint(attach.conn.0);
    out.uint(attach.attempt);
    out.text(attach.room.as_str(), limits::ROOM_ID_BYTES);
    out.uint(match attach.mode {
        Mode::Join => 0_u8,
        Mode::JoinOrCreate => 1,
        Mode::Create => 2,
    });
    out.text(attach.player.as_str(), limits::PLAYER_ID_BYTES);
    out.bytes(&attach.options);
    out.bytes(&attach.metadata);
    out.opt_uint(attach.seat.map(|seat| u64::from(seat.0)));
    out.flag(attach.rejoin);
    out.uint(attach.generation.0);
    out.uint(attach.resumes);
    out.uint(attach.first.0);
    out.uint(attach.shown.0.0);
    out.uint(attach.shown.1.0);
    match attach.table {
        Some(hash) => out.hash(hash),
        None => out.nil(),
    }
    out
}

/// Reads one packet, without its length; `None` is a ping.
pub(in super::super) fn read_to_node(packet: &Bytes) -> Result<Option<ToNode>, Error> {
    let (mut f, number) = Fields::open(packet)?;
    let message = match number {
        0 => {
            f.expect("ping", 0)?;
            f.end()?;
            return Ok(None);
        }
        1 => {
            f.expect("find", 5)?;
            ToNode::Find {
                gateway: GatewayId(0),
                conn: f.conn()?,
                attempt: f.u32("attempt")?,
                kind: f.text("kind", TEXT_BYTES)?.to_owned(),
                region: f.text("region", TEXT_BYTES)?.to_owned(),
                make: f.flag("make")?,
            }
        }
        2 => {
            f.expect("attach", 15)?;
            ToNode::Attach(read_attach(&mut f)?)
        }
        3 => {
            f.expect("input", 7)?;
            ToNode::Input(Input {
                room: f.room()?,
                seat: f.seat()?,
                generation: f.generation()?,
                seq: f.seq("seq")?,
                request: f.optional(|f| f.u32("request"))?,
                kind: f.u16("type")?,
                payload: f.bytes("payload")?,
            })
        }
        4 => {
            f.expect("detach", 4)?;
            let (room, seat, generation) = (f.room()?, f.seat()?, f.generation()?);
            ToNode::Detach { room, seat, generation, consented: f.flag("consented")? }
        }
        5 => {
            f.expect("resync", 3)?;
            ToNode::Resync { room: f.room()?, seat: f.seat()?, generation: f.generation()? }
        }
        6 => {
            f.expect("term_seen", 2)?;
            ToNode::TermSeen { shard: ShardId(f.u32("shard")?), term: f.term()? }
        }
        7 => {
            f.expect("ask", 5)?;
            ToNode::Ask {
                gateway: GatewayId(0),
                conn: f.conn()?,
                attempt: f.u32("attempt")?,
                region: f.text("region", TEXT_BYTES)?.to_owned(),
                within: f.u32("within")?,
                question: f.bytes("question")?,
            }
        }
        other => return Err(f.unknown(other)),
    };
    f.end()?;
    Ok(Some(message))
}

fn read_attach(f: &mut Fields<'_>) -> Result<Attach, Error> {
    Ok(Attach {
        gateway: GatewayId(0),
        conn: f.conn()?,
        attempt: f.u32("attempt")?,
        room: f.room()?,
        mode: match f.u8("mode")? {
            0 => Mode::Join,
            1 => Mode::JoinOrCreate,
            2 => Mode::Create,
            _ => return Err(f.fault("mode", Fault::Value("0 to 2"))),
        },
        player: {
            let text = f.text("player", limits::PLAYER_ID_BYTES)?;
            PlayerId::new(text).map_err(|e| f.fault("player", e))?
        },
        options: f.bytes("options")?,
        metadata: f.bytes("metadata")?,
        seat: f.optional(Fields::seat)?,
        rejoin: f.flag("rejoin")?,
        generation: f.generation()?,
        resumes: f.u32("resumes")?,
        first: f.seq("first")?,
        shown: (f.term()?, f.tick()?),
        table: f.optional(|f| f.hash("table"))?,
    })
}
