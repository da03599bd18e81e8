//! WebSocket close codes and the error codes of answers. `docs/wire.md` has a row for each.

/// Why a socket was closed: the WebSocket close code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// 1000: the client closed the socket itself.
    Normal = 1000,
    /// 1009: a message was larger than the limit.
    TooBig = 1009,
    /// 1011: the server met a fault of its own.
    Internal = 1011,
    /// 1012: the server restarts; come back after a moment.
    Restart = 1012,
    /// 1013: the server is over a limit; come back later.
    TryLater = 1013,
    /// 4000: the client left its room on purpose. The server begins no close with it: a room that ends a seat says 4011 or 4012.
    Consented = 4000,
    /// 4001: this gateway goes away: reconnect and resume.
    Moving = 4001,
    /// 4002: the room failed for good.
    RoomError = 4002,
    /// 4003: the seat could not be resumed (unknown, expired or a wrong session token).
    ResumeFailed = 4003,
    /// 4004: another socket took this seat; do not come back by yourself.
    Superseded = 4004,
    /// 4005: the client read too slowly for too long.
    SlowConsumer = 4005,
    /// 4006: the client sent more than its limits allow.
    RateLimited = 4006,
    /// 4007: the client broke the protocol; the reason says where.
    ProtocolError = 4007,
    /// 4008: the token was missing, wrong or expired.
    Unauthorised = 4008,
    /// 4009: the room has no free seat.
    RoomFull = 4009,
    /// 4010: a passing fault; the same request may be tried again.
    MayRetry = 4010,
    /// 4011: the game ended this seat; the reason is the game's.
    Kicked = 4011,
    /// 4012: the game ended the room, as at the end of a match.
    RoomEnded = 4012,
}

impl CloseCode {
    /// Every code, for tables and tests.
    pub const ALL: [CloseCode; 18] = [
        CloseCode::Normal,
        CloseCode::TooBig,
        CloseCode::Internal,
        CloseCode::Restart,
        CloseCode::TryLater,
        CloseCode::Consented,
        CloseCode::Moving,
        CloseCode::RoomError,
        CloseCode::ResumeFailed,
        CloseCode::Superseded,
        CloseCode::SlowConsumer,
        CloseCode::RateLimited,
        CloseCode::ProtocolError,
        CloseCode::Unauthorised,
        CloseCode::RoomFull,
        CloseCode::MayRetry,
        CloseCode::Kicked,
        CloseCode::RoomEnded,
    ];

    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The code with this number, if it is one of ours.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.code() == code)
    }

    /// A short name, used as a metric label and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            CloseCode::Normal => "normal",
            CloseCode::TooBig => "too_big",
            CloseCode::Internal => "internal",
            CloseCode::Restart => "restart",
            CloseCode::TryLater => "try_later",
            CloseCode::Consented => "consented",
            CloseCode::Moving => "moving",
            CloseCode::RoomError => "room_error",
            CloseCode::ResumeFailed => "resume_failed",
            CloseCode::Superseded => "superseded",
            CloseCode::SlowConsumer => "slow_consumer",
            CloseCode::RateLimited => "rate_limited",
            CloseCode::ProtocolError => "protocol_error",
            CloseCode::Unauthorised => "unauthorised",
            CloseCode::RoomFull => "room_full",
            CloseCode::MayRetry => "may_retry",
            CloseCode::Kicked => "kicked",
            CloseCode::RoomEnded => "room_ended",
        }
    }

    /// Whether a room that closes with it has ended the seat: there is nothing left to come back to.
    pub const fn ends_seat(self) -> bool {
        matches!(self, CloseCode::Consented | CloseCode::RoomError | CloseCode::Kicked | CloseCode::RoomEnded)
    }
}

/// The code of a refused request: a stable word that programs compare; the text beside it is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The room does not exist (and this verb does not create one).
    NoSuchRoom,
    /// No game of this kind is registered.
    UnknownKind,
    /// The room exists already.
    RoomExists,
    /// The room has no free seat, or is locked.
    RoomFull,
    /// The game's `on_join` refused.
    Refused,
    /// The session is unknown, expired, or its token is wrong.
    ResumeFailed,
    /// The message or request kind is not known to this version of the game.
    UnknownMessage,
    /// The payload could not be decoded as the registered type.
    BadPayload,
    /// The game's handler answered with an error.
    RequestFailed,
    /// A limit was reached; try again later.
    Limit,
    /// A passing fault; the same request may be tried again.
    MayRetry,
    /// The room failed for good.
    RoomError,
    /// The request makes no sense in the connection's state.
    BadState,
}

impl ErrorCode {
    /// Every code, for tables and tests.
    pub const ALL: [ErrorCode; 13] = [
        ErrorCode::NoSuchRoom,
        ErrorCode::UnknownKind,
        ErrorCode::RoomExists,
        ErrorCode::RoomFull,
        ErrorCode::Refused,
        ErrorCode::ResumeFailed,
        ErrorCode::UnknownMessage,
        ErrorCode::BadPayload,
        ErrorCode::RequestFailed,
        ErrorCode::Limit,
        ErrorCode::MayRetry,
        ErrorCode::RoomError,
        ErrorCode::BadState,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCode::NoSuchRoom => "no_such_room",
            ErrorCode::UnknownKind => "unknown_kind",
            ErrorCode::RoomExists => "room_exists",
            ErrorCode::RoomFull => "room_full",
            ErrorCode::Refused => "refused",
            ErrorCode::ResumeFailed => "resume_failed",
            ErrorCode::UnknownMessage => "unknown_message",
            ErrorCode::BadPayload => "bad_payload",
            ErrorCode::RequestFailed => "request_failed",
            ErrorCode::Limit => "limit",
            ErrorCode::MayRetry => "may_retry",
            ErrorCode::RoomError => "room_error",
            ErrorCode::BadState => "bad_state",
        }
    }

    /// The code with this word, if it is one of ours.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str() == word)
    }
}
