//! Identifiers: rooms, shards, terms, players, seats. Each checks itself when made and prints as it is configured.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::limits;

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty or longer than the bound.
    #[error("{what} has {length} bytes; expected 1 to {limit}")]
    Length {
        /// Which id.
        what: &'static str,
        /// Its length, bytes.
        length: usize,
        /// The bound, bytes.
        limit: usize,
    },
    /// A character is outside the alphabet.
    #[error("{what} {text:?} has a character at byte {at} that is not allowed; expected {expected}")]
    Alphabet {
        /// Which id.
        what: &'static str,
        /// The text, cut to its bound.
        text: String,
        /// Byte offset of the character.
        at: usize,
        /// The allowed characters.
        expected: &'static str,
    },
    /// A room id is not `kind/region/name`.
    #[error("room id {0:?} is not of the form kind/region/name")]
    Shape(String),
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id!(
    /// A fixed slice of the room-id space: the unit of ownership.
    ShardId(u32)
);
number_id!(
    /// The fencing token of a claim; it only grows (H2).
    Term(u64)
);
number_id!(
    /// A tick of a room, from 1; it never goes back within a term.
    Tick(u64)
);
number_id!(
    /// Number of a client's message to its room, from 1 (H4).
    Seq(u64)
);
number_id!(
    /// A seat's number in its room, from 1; never used again in that room.
    SeatId(u32)
);
number_id!(
    /// Number of an attachment of a seat; the higher one wins.
    Generation(u32)
);
number_id!(
    /// An entity's identity on wire and disk: a counter of the room, never used again.
    NetId(u64)
);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $limit:expr, $expected:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            ///
            /// # Errors
            /// When it is empty, too long or has a character outside the alphabet.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check($what, text, $limit, $expected, $ok)?;
                Ok(Self(text.into()))
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(&text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
    };
}

text_id!(
    /// A player: the `sub` of the token, or `guest:<uuid>`.
    PlayerId,
    "player id",
    limits::PLAYER_ID_BYTES,
    "visible ASCII",
    |c: u8| c.is_ascii_graphic()
);
text_id!(
    /// One life of a node in the store: `<node name>#<uuid>`.
    IncarnationId,
    "incarnation",
    128,
    "visible ASCII",
    |c: u8| c.is_ascii_graphic()
);

fn check(
    what: &'static str,
    text: &str,
    limit: usize,
    expected: &'static str,
    ok: impl Fn(u8) -> bool,
) -> Result<(), IdError> {
    if text.is_empty() || text.len() > limit {
        return Err(IdError::Length { what, length: text.len(), limit });
    }
    match text.bytes().position(|c| !ok(c)) {
        None => Ok(()),
        Some(at) => Err(IdError::Alphabet { what, text: text.to_owned(), at, expected }),
    }
}

/// One room: `kind/region/name`, at most 64 bytes of `[a-z0-9_-/]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoomId(Arc<str>);

impl RoomId {
    /// Checks the text.
    ///
    /// # Errors
    /// When it is too long, has a character outside `[a-z0-9_-/]` or is not `kind/region/name`.
    pub fn new(text: &str) -> Result<Self, IdError> {
        check("room id", text, limits::ROOM_ID_BYTES, "[a-z0-9_-/]", |c| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-' | b'/')
        })?;
        let mut parts = text.split('/');
        let three = [parts.next(), parts.next(), parts.next()].iter().all(|p| p.is_some_and(|p| !p.is_empty()));
        if !three || parts.next().is_some() {
            return Err(IdError::Shape(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// Joins and checks the three parts.
    ///
    /// # Errors
    /// As [`RoomId::new`].
    pub fn from_parts(kind: &str, region: &str, name: &str) -> Result<Self, IdError> {
        Self::new(&format!("{kind}/{region}/{name}"))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Which game.
    pub fn kind(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// A label for matchmaking and daemons.
    pub fn region(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.split('/').nth(2).unwrap_or_default()
    }

    /// The shard of this room: `xxh3_64(id) % shards`. [`ID_HASH_VERSION`] names this function in the agreement.
    pub fn shard(&self, shards: u32) -> ShardId {
        let shards = u64::from(shards.max(1));
        ShardId((xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % shards) as u32)
    }
}

/// Version of the function room id → shard; every node of a cluster must have the same (docs/invariants.md C30).
pub const ID_HASH_VERSION: u32 = 1;

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl FromStr for RoomId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}
impl TryFrom<String> for RoomId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::new(&text)
    }
}
impl From<RoomId> for String {
    fn from(id: RoomId) -> String {
        id.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ids_are_checked() {
        let room = RoomId::new("arena/eu/k3").expect("valid");
        assert_eq!((room.kind(), room.region(), room.name()), ("arena", "eu", "k3"));
        for bad in ["", "arena", "arena/eu", "arena/eu/", "//x", "a/b/c/d", "Arena/eu/x", "a/b/c d", "a/b/é"] {
            assert!(RoomId::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(RoomId::new(&format!("a/b/{}", "x".repeat(60))).is_ok());
        assert!(RoomId::new(&format!("a/b/{}", "x".repeat(61))).is_err());
    }

    #[test]
    fn the_shard_function_is_fixed() {
        // A change of these values would put a stored room into another shard (docs/invariants.md C30).
        let of = |text: &str, shards| RoomId::new(text).expect("valid").shard(shards).0;
        assert_eq!([of("arena/eu/k3", 256), of("arena/eu/p9", 256), of("chess/us/1", 256)], [134, 78, 207]);
        assert_eq!([of("arena/eu/k3", 1000), of("arena/eu/k3", 1), of("arena/eu/k3", 0)], [294, 0, 0]);
    }
}
