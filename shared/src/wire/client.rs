//! Decoding and encoding of what clients send.

use super::{ClientMessage, Error, Fault, Wanted, fields::Fields};
use crate::{
    ids::RoomId,
    msgpack::{Bounds, Reader, array_head, bin, boolean, nil, opt_text, text, uint},
};

/// The messages in one WebSocket message of a client. After an error it ends.
#[derive(Clone, Debug)]
pub struct ClientMessages<'a> {
    reader: Reader<'a>,
    bounds: Bounds,
    done: bool,
}

impl<'a> ClientMessages<'a> {
    /// Reads `bytes`, the payload of one binary WebSocket message.
    pub fn new(bytes: &'a [u8], bounds: &Bounds) -> Self {
        Self { reader: Reader::new(bytes), bounds: *bounds, done: false }
    }
}

impl<'a> Iterator for ClientMessages<'a> {
    type Item = Result<ClientMessage<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.reader.is_empty() {
            return None;
        }
        let message = decode(&mut self.reader, self.bounds);
        self.done = message.is_err();
        Some(message)
    }
}

fn decode<'a>(reader: &mut Reader<'a>, bounds: Bounds) -> Result<ClientMessage<'a>, Error> {
    let at = reader.position();
    let (mut f, kind, count) = Fields::open(reader, bounds)?;
    let mut expect = |name, fields| f.expect(name, count, fields);
    Ok(match kind {
        1 => {
            expect("hello", 3)?;
            let protocol = f.u32("protocol")?;
            ClientMessage::Hello { protocol, token: f.opt_token("token")?, table: f.opt_hash("table")? }
        }
        2 => {
            // Clients of earlier builds know no filters.
            expect("join_or_create", 5 + usize::from(count != 5))?;
            let (id, (wanted, options)) = (f.request()?, wanted(&mut f, count)?);
            ClientMessage::JoinOrCreate { id, wanted, options }
        }
        3 => {
            expect("create", 5 + usize::from(count != 5))?;
            let (id, (wanted, options)) = (f.request()?, wanted(&mut f, count)?);
            ClientMessage::Create { id, wanted, options }
        }
        4 => {
            expect("join", 3)?;
            ClientMessage::Join { id: f.request()?, room: f.room()?, options: f.value("options")? }
        }
        5 => {
            // Clients of earlier builds do not count.
            let counts = count != 6;
            expect("resume", 6 + usize::from(counts))?;
            ClientMessage::Resume {
                id: f.request()?,
                room: f.room()?,
                session: f.token("session")?,
                shown: f.term_tick()?,
                first: f.seq("first")?,
                resumes: if counts { f.u32("resumes")? } else { 0 },
            }
        }
        6 => {
            expect("leave", 1)?;
            ClientMessage::Leave { id: f.request()? }
        }
        7 => {
            expect("message", 3)?;
            ClientMessage::Message { seq: f.seq("seq")?, kind: f.kind()?, payload: f.value("payload")? }
        }
        8 => {
            expect("request", 4)?;
            let (seq, id) = (f.seq("seq")?, f.request()?);
            ClientMessage::Request { seq, id, kind: f.kind()?, payload: f.value("payload")? }
        }
        9 => {
            expect("ping", 1)?;
            ClientMessage::Ping { id: f.u32("id")? }
        }
        10 => {
            expect("session_ack", 1)?;
            ClientMessage::SessionAck { session: f.token("session")? }
        }
        11 => {
            expect("resync", 0)?;
            ClientMessage::Resync
        }
        12 => {
            expect("table", 1)?;
            ClientMessage::Table { hash: f.hash("hash")? }
        }
        13 => {
            expect("rooms", 7)?;
            ClientMessage::Rooms {
                id: f.request()?,
                kind: f.opt_name("kind")?,
                region: f.opt_name("region")?,
                filter: filter(&mut f)?,
                open: f.flag("open")?,
                after: f.opt_room("after")?,
                limit: f.u32("limit")?,
            }
        }
        other => return Err(f.fault(at, "kind", Fault::Kind(other))),
    })
}

/// What is wanted, and the options.
fn wanted<'a>(f: &mut Fields<'_, 'a>, count: usize) -> Result<(Wanted<'a>, &'a [u8]), Error> {
    let (kind, region, name) = (f.name("kind")?, f.opt_name("region")?, f.opt_name("name")?);
    let options = f.value("options")?;
    let filter = if count > 5 { filter(f)? } else { &[] };
    Ok((Wanted { kind, region, name, filter }, options))
}

/// Left encoded; what is in it is looked at by whoever compares.
fn filter<'a>(f: &mut Fields<'_, 'a>) -> Result<&'a [u8], Error> {
    Ok(if f.nil() { &[] } else { f.value("filter")? })
}

impl ClientMessage<'_> {
    /// Appends the message. `options`, `payload` and a filter that is not empty must each be one MessagePack value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ClientMessage::Hello { protocol, token, table } => {
                head(out, 1, 3);
                uint(out, u64::from(*protocol));
                opt_text(out, *token);
                match table {
                    Some(hash) => bin(out, &hash.to_be_bytes()),
                    None => nil(out),
                }
            }
            ClientMessage::JoinOrCreate { id, wanted, options } => encode_wanted(out, 2, *id, wanted, options),
            ClientMessage::Create { id, wanted, options } => encode_wanted(out, 3, *id, wanted, options),
            ClientMessage::Join { id, room, options } => {
                head(out, 4, 3);
                uint(out, u64::from(*id));
                text(out, room.as_str());
                out.extend_from_slice(options);
            }
            ClientMessage::Resume { id, room, session, shown: (term, tick), first, resumes } => {
                head(out, 5, 6 + usize::from(*resumes > 0));
                uint(out, u64::from(*id));
                text(out, room.as_str());
                text(out, session);
                for n in [term.0, tick.0, first.0] {
                    uint(out, n);
                }
                if *resumes > 0 {
                    uint(out, u64::from(*resumes));
                }
            }
            ClientMessage::Leave { id } => {
                head(out, 6, 1);
                uint(out, u64::from(*id));
            }
            ClientMessage::Message { seq, kind, payload } => {
                head(out, 7, 3);
                uint(out, seq.0);
                uint(out, u64::from(*kind));
                out.extend_from_slice(payload);
            }
            ClientMessage::Request { seq, id, kind, payload } => {
                head(out, 8, 4);
                for n in [seq.0, u64::from(*id), u64::from(*kind)] {
                    uint(out, n);
                }
                out.extend_from_slice(payload);
            }
            ClientMessage::Ping { id } => {
                head(out, 9, 1);
                uint(out, u64::from(*id));
            }
            ClientMessage::SessionAck { session } => {
                head(out, 10, 1);
                text(out, session);
            }
            ClientMessage::Resync => head(out, 11, 0),
            ClientMessage::Table { hash } => {
                head(out, 12, 1);
                bin(out, &hash.to_be_bytes());
            }
            ClientMessage::Rooms { id, kind, region, filter, open, after, limit } => {
                head(out, 13, 7);
                uint(out, u64::from(*id));
                opt_text(out, *kind);
                opt_text(out, *region);
                match filter {
                    [] => nil(out),
                    some => out.extend_from_slice(some),
                }
                boolean(out, *open);
                opt_text(out, after.as_ref().map(RoomId::as_str));
                uint(out, u64::from(*limit));
            }
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, fields: usize) {
    array_head(out, fields + 1);
    out.push(kind);
}

fn encode_wanted(out: &mut Vec<u8>, kind: u8, id: u32, wanted: &Wanted<'_>, options: &[u8]) {
    head(out, kind, 5 + usize::from(!wanted.filter.is_empty()));
    uint(out, u64::from(id));
    text(out, wanted.kind);
    opt_text(out, wanted.region);
    opt_text(out, wanted.name);
    out.extend_from_slice(options);
    out.extend_from_slice(wanted.filter);
}
