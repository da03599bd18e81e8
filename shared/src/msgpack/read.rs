//! The reader: typed values with errors that say where.

use rmp::Marker;

use super::{Bounds, Error, Fault};
use crate::limits::MAX_SAFE_INTEGER;

/// Reads MessagePack values one after the other from a slice. After an error its position is undefined.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    pub(super) data: &'a [u8],
    pub(super) at: usize,
}

/// A value's first bytes, decoded. A length is already known to fit into what is left.
pub(super) enum Head {
    Nil,
    Bool,
    Uint(u64),
    Negative(i64),
    Float,
    Text(usize),
    Bin(usize),
    Array(usize),
    Map(usize),
}

impl Head {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Head::Nil => "nil",
            Head::Bool => "a bool",
            Head::Uint(_) => "a number",
            Head::Negative(_) => "a negative number",
            Head::Float => "a float",
            Head::Text(_) => "text",
            Head::Bin(_) => "bytes",
            Head::Array(_) => "an array",
            Head::Map(_) => "a map",
        }
    }
}

impl<'a> Reader<'a> {
    /// A reader at the start of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Offset of the next value, bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    /// Reads an array's header; its elements follow. The length is at most what is left, bytes.
    ///
    /// # Errors
    /// Anything but an array, or one longer than the bound.
    pub fn array(&mut self, bounds: &Bounds) -> Result<usize, Error> {
        let at = self.at;
        match self.head()? {
            Head::Array(len) => {
                within(at, "array", len, bounds.collection)?;
                Ok(len)
            }
            other => Err(wrong(at, "an array", &other)),
        }
    }

    /// Reads a map's header; its keys and values follow in turn.
    ///
    /// # Errors
    /// Anything but a map, or one longer than the bound.
    pub fn map(&mut self, bounds: &Bounds) -> Result<usize, Error> {
        let at = self.at;
        match self.head()? {
            Head::Map(len) => {
                within(at, "map", len, bounds.collection)?;
                Ok(len)
            }
            other => Err(wrong(at, "a map", &other)),
        }
    }

    /// Reads a number from 0 to 2^53 - 1.
    ///
    /// # Errors
    /// Anything else.
    pub fn u53(&mut self) -> Result<u64, Error> {
        self.unsigned(MAX_SAFE_INTEGER, "a number up to 2^53 - 1")
    }

    /// Reads a number of 64 bits: between processes only, a browser would lose digits.
    ///
    /// # Errors
    /// Anything else.
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.unsigned(u64::MAX, "a number of 64 bits")
    }

    /// Reads a number of 32 bits.
    ///
    /// # Errors
    /// Anything else.
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.unsigned(u64::from(u32::MAX), "a number of 32 bits").map(|n| n as u32)
    }

    /// Reads a number of 16 bits.
    ///
    /// # Errors
    /// Anything else.
    pub fn u16(&mut self) -> Result<u16, Error> {
        self.unsigned(u64::from(u16::MAX), "a number of 16 bits").map(|n| n as u16)
    }

    /// Reads a number of 8 bits.
    ///
    /// # Errors
    /// Anything else.
    pub fn u8(&mut self) -> Result<u8, Error> {
        self.unsigned(u64::from(u8::MAX), "a number of 8 bits").map(|n| n as u8)
    }

    /// Reads a number from -(2^53 - 1) to 2^53 - 1.
    ///
    /// # Errors
    /// Anything else.
    pub fn i54(&mut self) -> Result<i64, Error> {
        const EXPECTED: &str = "a number within +-(2^53 - 1)";
        let at = self.at;
        let n = match self.head()? {
            Head::Uint(n) if n <= MAX_SAFE_INTEGER => n as i64,
            Head::Negative(n) if n.unsigned_abs() <= MAX_SAFE_INTEGER => n,
            Head::Uint(_) | Head::Negative(_) => return Err(Error { at, fault: Fault::Range { expected: EXPECTED } }),
            other => return Err(wrong(at, EXPECTED, &other)),
        };
        Ok(n)
    }

    /// Reads a text of at most `limit` bytes.
    ///
    /// # Errors
    /// Anything else.
    pub fn text(&mut self, limit: usize) -> Result<&'a str, Error> {
        let at = self.at;
        match self.head()? {
            Head::Text(len) => {
                within(at, "text", len, limit)?;
                self.utf8(at, len)
            }
            other => Err(wrong(at, "text", &other)),
        }
    }

    /// Reads bytes, at most `limit`.
    ///
    /// # Errors
    /// Anything else.
    pub fn bin(&mut self, limit: usize) -> Result<&'a [u8], Error> {
        let at = self.at;
        match self.head()? {
            Head::Bin(len) => {
                within(at, "bytes", len, limit)?;
                self.take(len)
            }
            other => Err(wrong(at, "bytes", &other)),
        }
    }

    /// Takes a nil if one stands here.
    pub fn take_nil(&mut self) -> bool {
        let found = self.data.get(self.at) == Some(&Marker::Null.to_u8());
        self.at += usize::from(found);
        found
    }

    /// Takes true or false if one of them stands here.
    pub fn take_bool(&mut self) -> Option<bool> {
        let byte = *self.data.get(self.at)?;
        let found = [false, true].into_iter().find(|of| byte == if *of { Marker::True } else { Marker::False }.to_u8());
        self.at += usize::from(found.is_some());
        found
    }

    /// Reads `nil` or what `read` reads.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<Option<T>, Error> {
        if self.take_nil() { Ok(None) } else { read(self).map(Some) }
    }

    /// Reads what follows a scalar's head.
    pub(super) fn body(&mut self, at: usize, head: &Head) -> Result<(), Error> {
        match *head {
            Head::Text(len) => self.utf8(at, len).map(drop),
            Head::Bin(len) => self.take(len).map(drop),
            _ => Ok(()),
        }
    }

    fn unsigned(&mut self, max: u64, expected: &'static str) -> Result<u64, Error> {
        let at = self.at;
        match self.head()? {
            Head::Uint(n) if n <= max => Ok(n),
            Head::Uint(_) | Head::Negative(_) => Err(Error { at, fault: Fault::Range { expected } }),
            other => Err(wrong(at, expected, &other)),
        }
    }

    pub(super) fn head(&mut self) -> Result<Head, Error> {
        let at = self.at;
        let byte = self.fixed::<1>(at)?[0];
        Ok(match Marker::from_u8(byte) {
            Marker::FixPos(n) => Head::Uint(u64::from(n)),
            Marker::FixNeg(n) => Head::Negative(i64::from(n)),
            Marker::Null => Head::Nil,
            Marker::True | Marker::False => Head::Bool,
            Marker::U8 => Head::Uint(u64::from(u8::from_be_bytes(self.fixed(at)?))),
            Marker::U16 => Head::Uint(u64::from(u16::from_be_bytes(self.fixed(at)?))),
            Marker::U32 => Head::Uint(u64::from(u32::from_be_bytes(self.fixed(at)?))),
            Marker::U64 => Head::Uint(u64::from_be_bytes(self.fixed(at)?)),
            Marker::I8 => signed(i64::from(i8::from_be_bytes(self.fixed(at)?))),
            Marker::I16 => signed(i64::from(i16::from_be_bytes(self.fixed(at)?))),
            Marker::I32 => signed(i64::from(i32::from_be_bytes(self.fixed(at)?))),
            Marker::I64 => signed(i64::from_be_bytes(self.fixed(at)?)),
            Marker::F32 => self.fixed::<4>(at).map(|_| Head::Float)?,
            Marker::F64 => self.fixed::<8>(at).map(|_| Head::Float)?,
            Marker::FixStr(n) => Head::Text(self.length(at, "text", usize::from(n), 1)?),
            Marker::Str8 => Head::Text(self.length8(at, "text", 1)?),
            Marker::Str16 => Head::Text(self.length16(at, "text", 1)?),
            Marker::Str32 => Head::Text(self.length32(at, "text", 1)?),
            Marker::Bin8 => Head::Bin(self.length8(at, "bytes", 1)?),
            Marker::Bin16 => Head::Bin(self.length16(at, "bytes", 1)?),
            Marker::Bin32 => Head::Bin(self.length32(at, "bytes", 1)?),
            Marker::FixArray(n) => Head::Array(self.length(at, "array", usize::from(n), 1)?),
            Marker::Array16 => Head::Array(self.length16(at, "array", 1)?),
            Marker::Array32 => Head::Array(self.length32(at, "array", 1)?),
            Marker::FixMap(n) => Head::Map(self.length(at, "map", usize::from(n), 2)?),
            Marker::Map16 => Head::Map(self.length16(at, "map", 2)?),
            Marker::Map32 => Head::Map(self.length32(at, "map", 2)?),
            Marker::Reserved
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32
            | Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16 => return Err(Error { at, fault: Fault::Forbidden(byte) }),
        })
    }

    fn length8(&mut self, at: usize, what: &'static str, each: usize) -> Result<usize, Error> {
        let n = u8::from_be_bytes(self.fixed(at)?);
        self.length(at, what, usize::from(n), each)
    }

    fn length16(&mut self, at: usize, what: &'static str, each: usize) -> Result<usize, Error> {
        let n = u16::from_be_bytes(self.fixed(at)?);
        self.length(at, what, usize::from(n), each)
    }

    fn length32(&mut self, at: usize, what: &'static str, each: usize) -> Result<usize, Error> {
        let n = u32::from_be_bytes(self.fixed(at)?);
        self.length(at, what, n as usize, each)
    }

    /// Refuses a length that what is left cannot hold, at `each` bytes or more per element.
    fn length(&self, at: usize, what: &'static str, length: usize, each: usize) -> Result<usize, Error> {
        let limit = self.data.len().saturating_sub(self.at) / each;
        within(at, what, length, limit)?;
        Ok(length)
    }

    fn utf8(&mut self, at: usize, len: usize) -> Result<&'a str, Error> {
        std::str::from_utf8(self.take(len)?).map_err(|_| Error { at, fault: Fault::Utf8 })
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let end = Error { at: self.at, fault: Fault::End };
        let taken = self.data.get(self.at..).and_then(|rest| rest.get(..len)).ok_or(end)?;
        self.at += len;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self, at: usize) -> Result<[u8; N], Error> {
        let bytes = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        bytes.copied().ok_or(Error { at, fault: Fault::End })
    }
}

fn signed(n: i64) -> Head {
    u64::try_from(n).map_or(Head::Negative(n), Head::Uint)
}

pub(super) fn within(at: usize, what: &'static str, length: usize, limit: usize) -> Result<(), Error> {
    if length <= limit { Ok(()) } else { Err(Error { at, fault: Fault::Length { what, length, limit } }) }
}

fn wrong(at: usize, expected: &'static str, found: &Head) -> Error {
    Error { at, fault: Fault::Type { expected, found: found.name() } }
}
