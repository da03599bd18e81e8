//! MessagePack of game types: structs as arrays of their fields, read with a bounded depth.

use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::msgpack::{self, Bounds};

use super::shown::encode_shown;

/// Appends a value; on error nothing is appended.
pub(crate) fn encode<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let before = out.len();
    rmp_serde::encode::write(out, value).map_err(|e| {
        out.truncate(before);
        e.to_string()
    })
}

/// Appends a value, structs as maps: for answers, whose fields no name table lists.
pub(crate) fn encode_named<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let before = out.len();
    rmp_serde::encode::write_named(out, value).map_err(|e| {
        out.truncate(before);
        e.to_string()
    })
}

/// Deepest nesting of a value that this server wrote itself.
const OWN_DEPTH: usize = 64;

/// Reads a value that this server wrote. Damaged bytes are an error, never a panic; serde reserves no memory on a claimed length.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(OWN_DEPTH);
    T::deserialize(&mut reader).map_err(|e| e.to_string())
}

/// The same of two values, one behind the other; where there is no second one it is the default.
pub(crate) fn decode_both<A: DeserializeOwned, B: DeserializeOwned + Default>(bytes: &[u8]) -> Result<(A, B), String> {
    let mut rest = bytes;
    let mut reader = rmp_serde::Deserializer::new(&mut rest);
    reader.set_max_depth(OWN_DEPTH);
    let first = A::deserialize(&mut reader).map_err(|e| e.to_string())?;
    let second = if rest.is_empty() { B::default() } else { decode(rest)? };
    Ok((first, second))
}

/// Reads exactly one value that a client wrote, its form checked first (H11).
pub(crate) fn decode_client<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    msgpack::check(bytes, &Bounds::CLIENT).map_err(|e| e.to_string())?;
    decode(bytes)
}

/// One encoded component of one entity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) net: u64,
    pub(crate) number: u16,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Components as clients are shown them, in one buffer; it is reused from tick to tick.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) bytes: Vec<u8>,
    pub(crate) changes: Vec<Change>,
    pub(crate) faults: u64,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    pub(crate) fn push<T: Serialize>(&mut self, net: u64, number: u16, value: &T) {
        let start = self.bytes.len();
        match encode_shown(&mut self.bytes, value) {
            Ok(()) => {
                let (start, end) = (start as u32, self.bytes.len() as u32);
                self.changes.push(Change { net, number, start, end });
            }
            Err(_) => self.faults += 1,
        }
    }

    pub(crate) fn value(&self, change: &Change) -> &[u8] {
        self.bytes.get(change.start as usize..change.end as usize).unwrap_or_default()
    }

    pub(crate) fn sort(&mut self) {
        self.changes.sort_unstable_by_key(|c| (c.net, c.number));
    }
}

/// Error texts of game code, at most `bound`; the rest are counted.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    texts: Vec<String>,
    more: u64,
}

impl Faults {
    const BOUND: usize = 16;

    pub(crate) fn push(&mut self, text: String) {
        if self.texts.len() < Self::BOUND {
            self.texts.push(text);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn take(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.texts);
        if self.more > 0 {
            out.push(format!("and {} more", std::mem::take(&mut self.more)));
        }
    }
}

/// Encodes a payload that is kept, up to `bound` bytes.
pub(crate) fn bounded<T: Serialize + ?Sized>(what: &str, value: &T, bound: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    encode(&mut out, value)?;
    if out.len() > bound {
        return Err(format!("{what} has {} bytes; at most {bound}", out.len()));
    }
    Ok(out)
}
