//! Messages of the client protocol, version 1: `docs/wire.md` is the table, golden bytes are in `tests/golden.json`.

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick};

mod client;
mod error;
mod fields;
mod server;
mod table;
#[cfg(test)]
mod tests;

pub use client::ClientMessages;
pub use error::{Error, Fault};
pub use server::{ServerMessages, write_frame, write_frame_head, write_quiet, write_snapshot_head, write_tail};
pub use table::{table_bytes, table_hash};

/// A message from a client. Payloads are borrowed: one pass checks their form, nothing is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// First message on a socket.
    Hello {
        /// Version of the client protocol.
        protocol: u32,
        /// A signed token, or the guest token of an earlier `welcome`.
        token: Option<&'a str>,
        /// Hash of the name table that the client still has.
        table: Option<u64>,
    },
    /// Any room of the kind with a free seat, else a new one; with a name: that room.
    JoinOrCreate {
        /// The client's number of this request.
        id: u32,
        /// Which room is wanted.
        wanted: Wanted<'a>,
        /// MessagePack for the game's `on_join`.
        options: &'a [u8],
    },
    /// A new room.
    Create {
        /// The client's number of this request.
        id: u32,
        /// Which room is wanted.
        wanted: Wanted<'a>,
        /// MessagePack for the game's `on_join`.
        options: &'a [u8],
    },
    /// A room that exists.
    Join {
        /// The client's number of this request.
        id: u32,
        /// The room.
        room: RoomId,
        /// MessagePack for the game's `on_join`.
        options: &'a [u8],
    },
    /// A seat that the player still has.
    Resume {
        /// The client's number of this request.
        id: u32,
        /// The room.
        room: RoomId,
        /// The session token.
        session: &'a str,
        /// Newest (term, tick) shown: the floor below which nothing is shown (H7).
        shown: (Term, Tick),
        /// First message number that the client still keeps.
        first: Seq,
        /// The client's count of the resumes of this seat, above the `generation` of its last `joined`: the higher is the newer one. 0 from
        /// clients that do not say.
        resumes: u32,
    },
    /// Leave the room for good.
    Leave {
        /// The client's number of this request.
        id: u32,
    },
    /// A message to the room.
    Message {
        /// Its number (H4).
        seq: Seq,
        /// Number of its type in the name table.
        kind: u16,
        /// MessagePack of the type.
        payload: &'a [u8],
    },
    /// A request to the room.
    Request {
        /// Its number (H4).
        seq: Seq,
        /// The client's number of this request.
        id: u32,
        /// Number of its type in the name table.
        kind: u16,
        /// MessagePack of the type.
        payload: &'a [u8],
    },
    /// Answered at once by the gateway.
    Ping {
        /// Given back in the answer.
        id: u32,
    },
    /// The client has stored this session token.
    SessionAck {
        /// The token.
        session: &'a str,
    },
    /// The client wants a snapshot.
    Resync,
    /// From here on the client numbers its messages and requests by this name table, which a `renewed` told it.
    Table {
        /// Its hash.
        hash: u64,
    },
    /// Which rooms are there: a page of the region's list.
    Rooms {
        /// The client's number of this request.
        id: u32,
        /// Of this kind only.
        kind: Option<&'a str>,
        /// Region; the gateway's own if absent.
        region: Option<&'a str>,
        /// A [`crate::Filter`], encoded; empty for none.
        filter: &'a [u8],
        /// Those that can be joined only: not locked, with a free seat.
        open: bool,
        /// Behind this one, from an earlier page.
        after: Option<RoomId>,
        /// At most so many, and at most [`crate::limits::LIST_ROOMS`].
        limit: u32,
    },
}

/// The room that a `join_or_create` or `create` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Which game.
    pub kind: &'a str,
    /// Region; the gateway's own if absent.
    pub region: Option<&'a str>,
    /// Name; any if absent.
    pub name: Option<&'a str>,
    /// A [`crate::Filter`], encoded: what the room's metadata must hold, and what that of a new room begins with; empty for none.
    pub filter: &'a [u8],
}

/// A message to a client, except the hot ones (frame, tail), which are written in place.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerMessage<'a> {
    /// Answer to `hello`.
    Welcome(Welcome),
    /// A join or resume succeeded.
    Joined(Joined),
    /// A request was refused.
    Error {
        /// The request; 0 for none.
        id: u32,
        /// A word of [`crate::codes::ErrorCode`].
        code: &'a str,
        /// For people.
        message: &'a str,
        /// Milliseconds after which it may be tried again.
        retry_after: Option<u32>,
    },
    /// The seat is given up.
    Left {
        /// The request.
        id: u32,
    },
    /// What changed in a tick, for all.
    Frame {
        /// Term of the room's owner.
        term: Term,
        /// The tick.
        tick: Tick,
        /// MessagePack array of ops.
        ops: &'a [u8],
    },
    /// Marks and private changes of this seat.
    Tail {
        /// Last message applied.
        applied: Seq,
        /// Last message in a stored checkpoint.
        saved: Seq,
        /// MessagePack array of ops.
        ops: &'a [u8],
    },
    /// Everything this seat sees.
    Snapshot {
        /// Term of the room's owner.
        term: Term,
        /// The tick.
        tick: Tick,
        /// MessagePack array of ops.
        ops: &'a [u8],
    },
    /// A message from the room.
    Message {
        /// Number of its type in the name table.
        kind: u16,
        /// MessagePack of the type.
        payload: &'a [u8],
    },
    /// Answer to a request.
    Reply {
        /// The request.
        id: u32,
        /// MessagePack of the answer.
        payload: &'a [u8],
    },
    /// Answer to a ping.
    Pong {
        /// Of the ping.
        id: u32,
        /// Server's wall clock, ms since 1970.
        time: u64,
    },
    /// Open a new socket elsewhere, then close this one.
    Move {
        /// Where; empty: the same address.
        urls: Vec<&'a str>,
        /// Milliseconds to wait before.
        after: u32,
    },
    /// A takeover restored the room to this tick.
    RolledBack {
        /// The new term.
        term: Term,
        /// The tick of the restored checkpoint.
        tick: Tick,
    },
    /// The next session token.
    Session {
        /// The token.
        session: &'a str,
    },
    /// A grant, after the ledger has it (H8).
    Granted(Granted),
    /// A message was not applied, and will not be.
    Refused {
        /// The message.
        seq: Seq,
        /// A word of [`crate::codes::ErrorCode`].
        code: &'a str,
        /// For people.
        message: &'a str,
    },
    /// A tick without changes.
    Quiet {
        /// Term of the room's owner.
        term: Term,
        /// The tick.
        tick: Tick,
    },
    /// The seat's room goes on at another server, and something that `joined` said is different there. A snapshot follows.
    Renewed {
        /// Number of the seat.
        seat: SeatId,
        /// Ticks per second.
        tick_rate: u32,
        /// Hash of the name table that what comes from here on is numbered by.
        hash: u64,
        /// The table, unless the client has it.
        table: Option<Vec<TableRow>>,
    },
    /// Answer to `rooms`.
    Rooms {
        /// The request.
        id: u32,
        /// In the order of their ids.
        rooms: Vec<ListedRoom<'a>>,
        /// Where the next page begins behind; `None`: this was the last one.
        next: Option<RoomId>,
    },
}

/// A room of a list, as it said a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoom<'a> {
    /// Which.
    pub room: RoomId,
    /// Seats taken.
    pub seats: u32,
    /// Most seats.
    pub max_seats: u32,
    /// Whether new players are refused.
    pub locked: bool,
    /// Metadata: one MessagePack value, nil if the game set none.
    pub metadata: &'a [u8],
}

/// Answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the client protocol.
    pub protocol: u32,
    /// Who the server takes the client for.
    pub player: PlayerId,
    /// A guest's token, to be kept.
    pub token: Option<String>,
    /// The gateway's node name.
    pub server: String,
    /// Ping interval, ms.
    pub ping: u32,
    /// Silence after which the socket is closed, ms.
    pub idle: u32,
    /// Largest client message, bytes.
    pub bytes: u32,
    /// Messages per second.
    pub rate: u32,
}

/// A join or resume succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The request.
    pub id: u32,
    /// The room.
    pub room: RoomId,
    /// The seat.
    pub seat: SeatId,
    /// Number of this attachment.
    pub generation: Generation,
    /// Session token with which to resume.
    pub session: String,
    /// Term of the room's owner.
    pub term: Term,
    /// Its tick.
    pub tick: Tick,
    /// The message number wanted next (H4).
    pub owed: Seq,
    /// Ticks per second.
    pub tick_rate: u32,
    /// Hash of the name table.
    pub hash: u64,
    /// The name table, unless the client has it.
    pub table: Option<Vec<TableRow>>,
}

/// One name of a room's name table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRow {
    /// What the number counts.
    pub space: Space,
    /// The number in frames and messages.
    pub number: u16,
    /// The registered name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Names of a struct's fields, in order.
    pub fields: Option<Vec<String>>,
}

/// What a number of the name table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Space {
    /// A component.
    Component = 0,
    /// A resource.
    Resource = 1,
    /// A message to the room.
    Message = 2,
    /// A request to the room.
    Request = 3,
    /// A message from the room.
    Event = 4,
}

impl TryFrom<u8> for Space {
    type Error = String;
    fn try_from(n: u8) -> Result<Self, String> {
        [Space::Component, Space::Resource, Space::Message, Space::Request, Space::Event]
            .get(usize::from(n))
            .copied()
            .ok_or_else(|| format!("space {n}; expected 0 to 4"))
    }
}
impl From<Space> for u8 {
    fn from(space: Space) -> u8 {
        space as u8
    }
}

/// A grant, as the ledger recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Schedule id or job name.
    pub source: String,
    /// When it was due, ms since 1970.
    pub scheduled_for: Option<u64>,
    /// What was given: (currency, amount); charges are negative.
    pub grants: Vec<(String, i64)>,
    /// Balances afterwards.
    pub balances: Vec<(String, i64)>,
}
