//! What the state machine wants done, and what the store answers.

use bytes::Bytes;
use tenure_shared::{PlayerId, RoomId, SeatId, Seq, codes::CloseCode};

use crate::{
    link::{Address, Attach, ToNode},
    store::Session,
};

/// Something for the driver to do.
#[derive(Debug)]
pub(in crate::gateway) enum Effect {
    /// Send this.
    Send(Bytes),
    /// The client is known: raise the limits.
    LoggedIn,
    /// Ask the room's owner for a seat. `again`: for the one that this connection has; what that has and has seen is filled in. If nobody
    /// takes it, the machine is told.
    Attach { attach: Box<Attach>, again: bool },
    /// No answer to an attach is awaited any more.
    Unexpect,
    /// Ask this node for a room. If it does not take it, the machine is told.
    Find { to: Address, find: ToNode },
    /// The seat of this connection is given up: a detach. It gets the newest number on its way out.
    GiveUp(ToNode),
    /// A seat that the last note brought is nobody's: a detach for whoever sent the note.
    GiveBack(ToNode),
    /// The client numbers what it sends by this name table from here on.
    Speaks(u64),
    /// There is no seat (any more).
    Forget,
    /// Ask the store.
    Ask(Ask),
    /// The seat is taken: send this and the snapshot, then what has come meanwhile.
    Enter { resumed: bool, joined: Bytes, snapshot: Bytes, after: Bytes },
    /// Keep it in the ring and hand it to the room.
    Input { seq: Seq, request: Option<u32>, kind: u16, payload: Bytes },
    /// The client wants a snapshot.
    Resync,
    /// Close the socket.
    Close(CloseCode, String),
}

/// A question to the store about sessions.
#[derive(Debug, PartialEq)]
pub(in crate::gateway) enum Ask {
    /// The session, if the token opens it.
    Load { player: PlayerId, room: RoomId, token: String },
    /// A seat was joined: a session with a fresh token.
    Open { player: PlayerId, room: RoomId, seat: SeatId, options: Bytes },
    /// A seat was resumed with `token`: it becomes the current one, and there is a next one.
    Turn { session: Session, token: String, seat: SeatId },
    /// The seat has another number since its room changed hands: the session goes on with it. Nobody waits for the answer.
    Reseat { player: PlayerId, room: RoomId, from: SeatId, to: SeatId },
    /// The client has stored this next token.
    Acknowledge { player: PlayerId, room: RoomId, token: String },
    /// The seat was given up: its session goes, unless another socket of the player has made it its own.
    Delete { player: PlayerId, room: RoomId, seat: SeatId, tokens: Tokens },
}

/// The session tokens that a connection has given its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::gateway) struct Tokens {
    /// Opened the seat when it was entered.
    pub(in crate::gateway) current: String,
    /// Offered with it.
    pub(in crate::gateway) next: Option<String>,
}

impl Tokens {
    /// Whether this is one of them.
    pub(in crate::gateway) fn has(&self, token: &str) -> bool {
        self.current == token || self.next.as_deref() == Some(token)
    }
}

/// The store's answer.
#[derive(Debug, PartialEq)]
pub(in crate::gateway) enum Stored {
    /// To [`Ask::Load`]; `None`: there is none, or the token is wrong.
    Loaded(Option<Session>),
    /// To [`Ask::Open`] and [`Ask::Turn`].
    Kept {
        /// Opens the seat now.
        current: String,
        /// Opens it from its first use on.
        next: Option<String>,
    },
    /// To [`Ask::Acknowledge`] and [`Ask::Reseat`], also when it is lost: then the current token stays valid.
    Acknowledged,
    /// To [`Ask::Delete`].
    Deleted,
    /// It did not answer in time; nothing is known.
    Failed,
}
