//! Reads the fields of one packet, naming message and field in every error; byte strings are slices of the packet.

use bytes::Bytes;
use tenure_shared::{
    Generation, RoomId, SeatId, Seq, Term, Tick, limits,
    msgpack::{self, Bounds, Reader},
    wire::{Error, Fault},
};

use super::{FRAME_MEMBERS, PACKET_BYTES};
use crate::link::ConnId;

/// What a packet's arrays may hold at most; nothing in it nests deeper than the readers here go.
const BOUNDS: Bounds = Bounds { depth: 4, collection: FRAME_MEMBERS };

/// The fields of one packet, in order.
pub(in super::super) struct Fields<'a> {
    packet: &'a Bytes,
    reader: Reader<'a>,
    message: &'static str,
    /// Fields of the array, without its number.
    count: usize,
}

impl<'a> Fields<'a> {
    /// Reads the array's header and number.
    pub(in super::super) fn open(packet: &'a Bytes) -> Result<(Self, u32), Error> {
        let mut fields = Self { packet, reader: Reader::new(packet), message: "message", count: 0 };
        let count = fields.get("array", |r| r.array(&BOUNDS))?;
        let none = fields.fault("array", Fault::Fields { found: 0, expected: 1 });
        fields.count = count.checked_sub(1).ok_or(none)?;
        let number = fields.get("number", Reader::u32)?;
        Ok((fields, number))
    }

    /// Names the message from here on and checks its number of fields.
    pub(in super::super) fn expect(&mut self, message: &'static str, expected: usize) -> Result<(), Error> {
        self.message = message;
        if self.count == expected {
            return Ok(());
        }
        Err(self.fault("array", Fault::Fields { found: self.count + 1, expected: expected + 1 }))
    }

    /// Everything must have been read.
    pub(in super::super) fn end(&self) -> Result<(), Error> {
        match self.reader.rest().len() {
            0 => Ok(()),
            _ => Err(self.fault("end", Fault::Value("nothing behind the message"))),
        }
    }

    pub(in super::super) fn unknown(&self, number: u32) -> Error {
        self.fault("number", Fault::Kind(number))
    }

    pub(in super::super) fn fault(&self, field: &'static str, fault: impl Into<Fault>) -> Error {
        Error { at: self.reader.position(), message: self.message, field, fault: fault.into() }
    }

    fn get<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, msgpack::Error>,
    ) -> Result<T, Error> {
        let message = self.message;
        read(&mut self.reader).map_err(|e| Error { at: e.at, message, field, fault: e.fault.into() })
    }

    pub(in super::super) fn u64(&mut self, field: &'static str) -> Result<u64, Error> {
        self.get(field, Reader::u64)
    }

    pub(in super::super) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.get(field, Reader::u32)
    }

    pub(in super::super) fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        self.get(field, Reader::u16)
    }

    pub(in super::super) fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.get(field, Reader::u8)
    }

    pub(in super::super) fn flag(&mut self, field: &'static str) -> Result<bool, Error> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.fault(field, Fault::Value("0 or 1"))),
        }
    }

    pub(in super::super) fn text(&mut self, field: &'static str, most: usize) -> Result<&'a str, Error> {
        self.get(field, |r| r.text(most))
    }

    /// Reads nil or what `read` reads.
    pub(in super::super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.reader.take_nil() { Ok(None) } else { read(self).map(Some) }
    }

    /// Byte strings as slices of the packet.
    pub(in super::super) fn bytes(&mut self, field: &'static str) -> Result<Bytes, Error> {
        let slice = self.get(field, |r| r.bin(PACKET_BYTES))?;
        // An empty slice may lie anywhere.
        Ok(if slice.is_empty() { Bytes::new() } else { self.packet.slice_ref(slice) })
    }

    pub(in super::super) fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let slice = self.get(field, |r| r.bin(N))?;
        <[u8; N]>::try_from(slice).map_err(|_| self.fault(field, Fault::Value("bytes of another length")))
    }

    pub(in super::super) fn hash(&mut self, field: &'static str) -> Result<u64, Error> {
        self.fixed(field).map(u64::from_be_bytes)
    }

    /// Reads an array's header; at most `most` elements follow.
    pub(in super::super) fn list(&mut self, field: &'static str, most: usize) -> Result<usize, Error> {
        self.get(field, |r| r.array(&Bounds { collection: most, ..BOUNDS }))
    }

    /// Reads the header of an array that must have `len` elements.
    pub(in super::super) fn tuple(&mut self, field: &'static str, len: usize) -> Result<(), Error> {
        match self.list(field, FRAME_MEMBERS)? {
            found if found == len => Ok(()),
            found => Err(self.fault(field, Fault::Fields { found, expected: len })),
        }
    }

    pub(in super::super) fn room(&mut self) -> Result<RoomId, Error> {
        let text = self.text("room", 2 * limits::ROOM_ID_BYTES)?;
        RoomId::new(text).map_err(|e| self.fault("room", e))
    }

    pub(in super::super) fn conn(&mut self) -> Result<ConnId, Error> {
        self.u64("conn").map(ConnId)
    }

    pub(in super::super) fn seat(&mut self) -> Result<SeatId, Error> {
        self.u32("seat").map(SeatId)
    }

    pub(in super::super) fn generation(&mut self) -> Result<Generation, Error> {
        self.u32("generation").map(Generation)
    }

    pub(in super::super) fn seq(&mut self, field: &'static str) -> Result<Seq, Error> {
        self.u64(field).map(Seq)
    }

    pub(in super::super) fn term(&mut self) -> Result<Term, Error> {
        self.u64("term").map(Term)
    }

    pub(in super::super) fn tick(&mut self) -> Result<Tick, Error> {
        self.u64("tick").map(Tick)
    }
}
