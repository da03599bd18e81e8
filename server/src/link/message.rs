//! What gateways and room nodes say to each other.

use bytes::Bytes;
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, ShardId, Term, Tick,
    codes::{CloseCode, ErrorCode},
    wire::TableRow,
};

/// A node's number of a gateway that is connected to it. The link stamps it on every message; what a gateway puts there is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId(pub u32);

/// A gateway's number of a socket; never used again in the gateway's life, and begun at random, so that two gateways do not give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Whether a room may, must or must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It must exist.
    Join,
    /// It is created if it does not exist.
    JoinOrCreate,
    /// It must not exist.
    Create,
}

/// Gateway → node.
#[derive(Clone, Debug, PartialEq)]
pub enum ToNode {
    /// Is there a public, unlocked room of this kind with a free seat? Answered by [`ToGateway::Found`].
    Find {
        /// Who asks.
        gateway: GatewayId,
        /// For whom.
        conn: ConnId,
        /// The sender's number of this question; it comes back with the answer.
        attempt: u32,
        /// The game.
        kind: String,
        /// The region.
        region: String,
        /// Whether the name of a new room is wanted when there is none with a free seat. Its shard may be another node's.
        make: bool,
    },
    /// A question to the coordinator of a region, wherever it runs; answered by [`ToGateway::Answered`].
    Ask {
        /// Who asks.
        gateway: GatewayId,
        /// For whom.
        conn: ConnId,
        /// The sender's number of this question; it comes back with the answer.
        attempt: u32,
        /// The region.
        region: String,
        /// How long the node may wait for the coordinator, milliseconds.
        within: u32,
        /// A [`super::lobby::Question`], encoded.
        question: Bytes,
    },
    /// A player takes a seat, or takes his own again. Answered by [`ToGateway::Attached`] or [`ToGateway::Refused`], after the
    /// room's first checkpoint is stored.
    Attach(Attach),
    /// A numbered message or request.
    Input(Input),
    /// A socket is gone, or its player leaves. Of an older generation: ignored (C49).
    Detach {
        /// The room.
        room: RoomId,
        /// The seat.
        seat: SeatId,
        /// The attachment.
        generation: Generation,
        /// Whether the player meant it: then the seat ends at once, answered by [`ToGateway::Left`]; else its grace begins.
        consented: bool,
    },
    /// A client needs a snapshot; answered by [`ToGateway::Snapshot`].
    Resync {
        /// The room.
        room: RoomId,
        /// The seat.
        seat: SeatId,
        /// The attachment.
        generation: Generation,
    },
    /// The gateway has seen a higher term of this shard than the one that the node's messages carry: the node acquires anew before it
    /// sends again (H7).
    TermSeen {
        /// The shard.
        shard: ShardId,
        /// The highest term seen.
        term: Term,
    },
}

/// A player takes a seat.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// Which gateway.
    pub gateway: GatewayId,
    /// Which socket.
    pub conn: ConnId,
    /// The sender's number of this question; it comes back with the answer. A socket that gave up waiting asks again under a higher
    /// number (coming round), so that late answers are known as such, and late questions, which another link brings, too.
    pub attempt: u32,
    /// Which room.
    pub room: RoomId,
    /// Whether it may, must or must not exist.
    pub mode: Mode,
    /// Who.
    pub player: PlayerId,
    /// MessagePack for `on_join`.
    pub options: Bytes,
    /// The metadata that the room begins with if it is made for this: a [`tenure_shared::Filter`], encoded, or nothing.
    pub metadata: Bytes,
    /// The seat to take again (resume); `None` joins (a player who has a seat in the room takes that one again, superseding).
    pub seat: Option<SeatId>,
    /// The seat's socket was never gone: its room changes hands. If the world does not know the seat (its join was not stored yet) the
    /// player is joined anew through the ordinary hooks, also when the room is locked; a room that others filled meanwhile, and the game's own
    /// refusal, end the seat.
    pub rejoin: bool,
    /// Newest attachment of the seat that the sender knows; the new one is above it. 0 for none.
    pub generation: Generation,
    /// Of a resume: the client's count of its resumes of the seat, so that one that waited on a link does not take the seat from a later one;
    /// 0 if the client joins or does not count. Of a rejoin: the count of the attach that its socket has the seat by; of one without, the
    /// number that the attachment had then.
    pub resumes: u32,
    /// First message number that the sender still has (H4).
    pub first: Seq,
    /// Newest (term, tick) that was shown (H7).
    pub shown: (Term, Tick),
    /// Hash of the name table that the client has.
    pub table: Option<u64>,
}

/// A numbered message of a seat.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The room.
    pub room: RoomId,
    /// The seat.
    pub seat: SeatId,
    /// The attachment; an older one is ignored.
    pub generation: Generation,
    /// Its number.
    pub seq: Seq,
    /// Set for requests: the client's number of it.
    pub request: Option<u32>,
    /// Number of its type in the name table.
    pub kind: u16,
    /// MessagePack; its form was checked by the gateway.
    pub payload: Bytes,
}

/// Node → gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum ToGateway {
    /// Answer to [`ToNode::Find`].
    Found {
        /// For whom.
        conn: ConnId,
        /// From the question.
        attempt: u32,
        /// A room, if there is one.
        room: Option<RoomId>,
        /// Whether it is not there yet: only its name was made, for this player, who is about to create it.
        new: bool,
    },
    /// Answer to [`ToNode::Ask`].
    Answered {
        /// For whom.
        conn: ConnId,
        /// From the question.
        attempt: u32,
        /// A [`super::lobby::Answer`], encoded; `None`: there was none in time, or nobody to ask.
        answer: Option<Bytes>,
    },
    /// Answer to [`ToNode::Attach`].
    Attached(Attached),
    /// The attach was refused.
    Refused {
        /// For whom.
        conn: ConnId,
        /// From the attach.
        attempt: u32,
        /// Why, for programs.
        code: ErrorCode,
        /// The game's own word, with the code [`ErrorCode::Refused`]: the client gets it in its place.
        word: Option<Box<str>>,
        /// Why, for people.
        message: String,
        /// Milliseconds after which it may be tried again.
        retry_after: Option<u32>,
    },
    /// Answer to an attach for a room whose shard this node does not own.
    NotOwner {
        /// For whom.
        conn: ConnId,
        /// From the attach.
        attempt: u32,
        /// The shard.
        shard: ShardId,
        /// Highest term that the node knows of it; 0 if none.
        term: Term,
    },
    /// The node no longer owns this shard: its seats behind this gateway are to be attached elsewhere. Sent to every gateway when a shard is
    /// lost or given away, and again to one whose input, detach or resync came for it (that message is dropped: what is not saved is
    /// kept by the gateway and sent again to the new owner).
    Moved {
        /// The shard.
        shard: ShardId,
        /// The term that ended here; 0 if the node never owned it.
        term: Term,
        /// Link address of the next owner, if it is known.
        to: Option<super::Address>,
    },
    /// An input came for a room that is not there, or for a seat that is over.
    Gone {
        /// The room.
        room: RoomId,
        /// The seat.
        seat: SeatId,
        /// From the input.
        generation: Generation,
    },
    /// A tick's news for all members of the room behind this gateway.
    Frame(Frame),
    /// A full snapshot for one member (a whole encoded `[7, …]`), at (term, tick).
    Snapshot {
        /// For whom.
        conn: ConnId,
        /// The owner's term.
        term: Term,
        /// The tick.
        tick: Tick,
        /// Encoded message.
        bytes: Bytes,
    },
    /// The room was restored from a checkpoint (after a panic or a takeover): members get `rolled_back` and a snapshot, and the
    /// gateway sends their unsaved inputs again from the number owed, under the generation given here. A member whose socket is
    /// gone is detached under it.
    Restored {
        /// The room.
        room: RoomId,
        /// The owner's term.
        term: Term,
        /// The tick of the checkpoint.
        tick: Tick,
        /// Its members behind this gateway.
        members: Vec<RestoredMember>,
    },
    /// The seat is given up, as its player asked.
    Left {
        /// For whom.
        conn: ConnId,
    },
    /// The socket must be closed: kicked, superseded, room parked or disposed.
    Close {
        /// Which.
        conn: ConnId,
        /// Why.
        code: CloseCode,
        /// For people, at most [`tenure_shared::limits::REASON_BYTES`].
        reason: String,
    },
}

/// A seat is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// By whom.
    pub conn: ConnId,
    /// From the attach.
    pub attempt: u32,
    /// The room.
    pub room: RoomId,
    /// The seat.
    pub seat: SeatId,
    /// Number of this attachment.
    pub generation: Generation,
    /// The owner's term.
    pub term: Term,
    /// The tick of the snapshot.
    pub tick: Tick,
    /// The number wanted next (H4).
    pub owed: Seq,
    /// Ticks per second.
    pub tick_rate: u32,
    /// Hash of the name table.
    pub hash: u64,
    /// The table, unless the client has it.
    pub table: Option<std::sync::Arc<Vec<TableRow>>>,
    /// Encoded `[7, …]`.
    pub snapshot: Bytes,
    /// Set when the world is behind what the attach said it had shown, or when it is owed a lower number than the sender still has and goes
    /// on from the sender's (F13): the client is told once.
    pub rolled_back: bool,
}

/// A member of a restored room.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredMember {
    /// Which socket.
    pub conn: ConnId,
    /// The seat.
    pub seat: SeatId,
    /// Number of the attachment from here on: what was sent under an older one is not applied, and is sent again.
    pub generation: Generation,
    /// The number wanted next.
    pub owed: Seq,
    /// Encoded `[7, …]`.
    pub snapshot: Bytes,
}

/// A tick's news: one per room, tick and gateway; the body is shared by all members.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The room.
    pub room: RoomId,
    /// The owner's term.
    pub term: Term,
    /// The tick.
    pub tick: Tick,
    /// Encoded `[5, …]` or `[16, …]`, shared; may be empty when only tails have news.
    pub body: Bytes,
    /// All tails of this tick, one after another; each is zero or more whole encoded messages.
    pub tails: Bytes,
    /// Members behind this gateway.
    pub members: Vec<FrameMember>,
}

/// Where a member's tail lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMember {
    /// Which socket.
    pub conn: ConnId,
    /// Last message in a stored checkpoint: the gateway's ring is trimmed up to it.
    pub saved: Seq,
    /// Start of its tail in [`Frame::tails`].
    pub start: u32,
    /// End of its tail.
    pub end: u32,
}
