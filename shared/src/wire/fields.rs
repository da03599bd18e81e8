//! Reads the fields of one message, naming message and field in every error.

use super::{Error, Fault};
use crate::{
    ids::{IdError, RoomId, Seq, Term, Tick},
    limits,
    msgpack::{self, Bounds, Reader},
};

/// Longest token of any sort on the wire, bytes: a JWT with a few claims fits, a message's own limit comes first.
const TOKEN_BYTES: usize = 4096;
/// Longest text for people in a message of the server, bytes.
const TEXT_BYTES: usize = 1024;

pub(super) struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    bounds: Bounds,
    message: &'static str,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Reads a message's array header and kind: the kind and how many fields follow it.
    pub(super) fn open(reader: &'r mut Reader<'a>, bounds: Bounds) -> Result<(Self, u32, usize), Error> {
        let mut fields = Self { reader, bounds, message: "message" };
        let at = fields.at();
        let count = fields.get("array", |r| r.array(&bounds))?;
        let Some(rest) = count.checked_sub(1) else {
            return Err(fields.fault(at, "array", Fault::Fields { found: 0, expected: 1 }));
        };
        let kind = fields.get("kind", Reader::u32)?;
        Ok((fields, kind, rest))
    }

    /// Names the message from here on and checks its number of fields.
    pub(super) fn expect(&mut self, message: &'static str, found: usize, expected: usize) -> Result<(), Error> {
        self.message = message;
        if found == expected {
            return Ok(());
        }
        // Counted with the kind, as in `docs/wire.md`.
        let fault = Fault::Fields { found: found + 1, expected: expected + 1 };
        Err(self.fault(self.at(), "array", fault))
    }

    pub(super) fn at(&self) -> usize {
        self.reader.position()
    }

    pub(super) fn fault(&self, at: usize, field: &'static str, fault: impl Into<Fault>) -> Error {
        Error { at, message: self.message, field, fault: fault.into() }
    }

    pub(super) fn get<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, msgpack::Error>,
    ) -> Result<T, Error> {
        let message = self.message;
        read(self.reader).map_err(|e| Error { at: e.at, message, field, fault: e.fault.into() })
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.get(field, Reader::u32)
    }

    pub(super) fn u53(&mut self, field: &'static str) -> Result<u64, Error> {
        self.get(field, Reader::u53)
    }

    /// A request's number: 0 would mean "no request" in an error.
    pub(super) fn request(&mut self) -> Result<u32, Error> {
        let at = self.at();
        match self.u32("id")? {
            0 => Err(self.fault(at, "id", Fault::Value("a number from 1"))),
            id => Ok(id),
        }
    }

    /// A message number, from 1.
    pub(super) fn seq(&mut self, field: &'static str) -> Result<Seq, Error> {
        let at = self.at();
        match self.u53(field)? {
            0 => Err(self.fault(at, field, Fault::Value("a number from 1"))),
            seq => Ok(Seq(seq)),
        }
    }

    pub(super) fn term_tick(&mut self) -> Result<(Term, Tick), Error> {
        Ok((Term(self.u53("term")?), Tick(self.u53("tick")?)))
    }

    pub(super) fn kind(&mut self) -> Result<u16, Error> {
        self.get("type", Reader::u16)
    }

    pub(super) fn token(&mut self, field: &'static str) -> Result<&'a str, Error> {
        self.get(field, |r| r.text(TOKEN_BYTES))
    }

    pub(super) fn opt_token(&mut self, field: &'static str) -> Result<Option<&'a str>, Error> {
        self.get(field, |r| r.optional(|r| r.text(TOKEN_BYTES)))
    }

    pub(super) fn prose(&mut self, field: &'static str) -> Result<&'a str, Error> {
        self.get(field, |r| r.text(TEXT_BYTES))
    }

    pub(super) fn name(&mut self, field: &'static str) -> Result<&'a str, Error> {
        self.get(field, |r| r.text(limits::ROOM_ID_BYTES))
    }

    pub(super) fn opt_name(&mut self, field: &'static str) -> Result<Option<&'a str>, Error> {
        self.get(field, |r| r.optional(|r| r.text(limits::ROOM_ID_BYTES)))
    }

    pub(super) fn room(&mut self) -> Result<RoomId, Error> {
        self.id("room", RoomId::new)
    }

    pub(super) fn opt_room(&mut self, field: &'static str) -> Result<Option<RoomId>, Error> {
        if self.nil() { Ok(None) } else { self.id(field, RoomId::new).map(Some) }
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, Error> {
        let at = self.at();
        self.reader.take_bool().ok_or_else(|| self.fault(at, field, Fault::Value("true or false")))
    }

    pub(super) fn id<T>(&mut self, field: &'static str, make: impl Fn(&str) -> Result<T, IdError>) -> Result<T, Error> {
        let at = self.at();
        // Twice the bound: the id's own error says more about what is wrong.
        let text = self.get(field, |r| r.text(2 * limits::PLAYER_ID_BYTES))?;
        make(text).map_err(|e| self.fault(at, field, e))
    }

    /// A name table's hash: 8 bytes, big endian.
    pub(super) fn hash(&mut self, field: &'static str) -> Result<u64, Error> {
        let at = self.at();
        let bytes = self.get(field, |r| r.bin(8))?;
        let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| self.fault(at, field, Fault::Value("8 bytes")))?;
        Ok(u64::from_be_bytes(bytes))
    }

    pub(super) fn opt_hash(&mut self, field: &'static str) -> Result<Option<u64>, Error> {
        if self.reader.take_nil() { Ok(None) } else { self.hash(field).map(Some) }
    }

    pub(super) fn opt_u53(&mut self, field: &'static str) -> Result<Option<u64>, Error> {
        self.get(field, |r| r.optional(Reader::u53))
    }

    /// A value of any type, left encoded.
    pub(super) fn value(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let bounds = self.bounds;
        self.get(field, |r| r.value(&bounds))
    }

    /// An array of any elements, left encoded.
    pub(super) fn ops(&mut self) -> Result<&'a [u8], Error> {
        let bounds = self.bounds;
        let mut ahead = self.reader.clone();
        self.get("ops", |_| ahead.array(&bounds))?;
        self.value("ops")
    }

    /// An array whose elements `read` reads one by one; the vector grows with what was read.
    pub(super) fn list<T>(
        &mut self,
        field: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let bounds = self.bounds;
        let count = self.get(field, |r| r.array(&bounds))?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(read(self)?);
        }
        Ok(all)
    }

    /// Reads an array header that must say `len`.
    pub(super) fn tuple(&mut self, field: &'static str, len: usize) -> Result<(), Error> {
        let (at, bounds) = (self.at(), self.bounds);
        match self.get(field, |r| r.array(&bounds))? {
            found if found == len => Ok(()),
            found => Err(self.fault(at, field, Fault::Fields { found, expected: len })),
        }
    }

    pub(super) fn nil(&mut self) -> bool {
        self.reader.take_nil()
    }
}
