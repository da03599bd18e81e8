//! MessagePack, bounded: a reader that never trusts a length it has not seen the bytes for, and writers into a `Vec`.
//!
//! Nothing here recurses and nothing is reserved by a claimed length, so what a peer sends costs at most a small
//! multiple of the bytes it sent (H11). Refused: ext types, the unused byte 0xc1, text that is not UTF-8, a map
//! key that comes twice.

use crate::limits;

mod read;
mod skip;
mod write;

pub use read::Reader;
pub use write::{array_head, bin, bin_head, boolean, int, map_head, nil, opt_text, opt_uint, text, uint};

/// Deepest nesting that any [`Bounds`] can allow: the size of the reader's own stack.
pub const MAX_DEPTH: usize = 32;

/// What a value may look like at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Deepest nesting of arrays and maps in one value; capped at [`MAX_DEPTH`].
    pub depth: usize,
    /// Longest array or map, elements.
    pub collection: usize,
}

impl Bounds {
    /// For what a client sends.
    pub const CLIENT: Bounds = Bounds { depth: limits::NESTING_DEPTH, collection: limits::COLLECTION_LENGTH };
    /// For what a server sends: an op array has an element per entity, and values lie two levels deeper.
    pub const SERVER: Bounds = Bounds { depth: MAX_DEPTH, collection: 1 << 20 };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::CLIENT
    }
}

/// Why bytes were refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {fault}")]
pub struct Error {
    /// Offset of the value, bytes.
    pub at: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end inside of a value.
    #[error("the bytes end inside of a value")]
    End,
    /// Another type.
    #[error("expected {expected}, found {found}")]
    Type {
        /// What should stand here.
        expected: &'static str,
        /// What stands here.
        found: &'static str,
    },
    /// A number outside of its range.
    #[error("expected {expected}, found a number out of range")]
    Range {
        /// The range.
        expected: &'static str,
    },
    /// A length that the remaining bytes cannot hold, or above the bound.
    #[error("{what} of {length}; at most {limit} allowed here")]
    Length {
        /// Of what.
        what: &'static str,
        /// As claimed.
        length: usize,
        /// The bound, or what is left.
        limit: usize,
    },
    /// Nested too deeply.
    #[error("nested deeper than {limit}")]
    Depth {
        /// The bound.
        limit: usize,
    },
    /// A text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// An ext type or 0xc1.
    #[error("type byte 0x{0:02x} is not allowed")]
    Forbidden(u8),
    /// A map key that comes twice.
    #[error("map key comes twice")]
    DuplicateKey,
}

/// Takes one value off the front of `bytes`, whatever it is, and returns its encoding; `bytes` is unchanged on error.
///
/// # Errors
/// When the form is wrong or a bound is passed; positions count from the start of `bytes`.
pub fn slice_value<'a>(bytes: &mut &'a [u8], bounds: &Bounds) -> Result<&'a [u8], Error> {
    let mut reader = Reader::new(bytes);
    let value = reader.value(bounds)?;
    *bytes = reader.rest();
    Ok(value)
}

/// Checks that `bytes` are exactly one value.
///
/// # Errors
/// As [`slice_value`]; also when bytes are left over.
pub fn check(bytes: &[u8], bounds: &Bounds) -> Result<(), Error> {
    let mut rest = bytes;
    slice_value(&mut rest, bounds)?;
    if rest.is_empty() {
        return Ok(());
    }
    let fault = Fault::Length { what: "extra bytes", length: rest.len(), limit: 0 };
    Err(Error { at: bytes.len() - rest.len(), fault })
}

#[cfg(test)]
mod tests;
