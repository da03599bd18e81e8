//! What gateways ask the coordinators of regions, and how a room host reaches one.
//!
//! A gateway asks any node ([`super::ToNode::Ask`]); the node asks the coordinator, wherever it runs, and hands the answer back. Whoever
//! gets none in time asks again, another node perhaps: a player who asks twice for the same gets the same answer.

use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tenure_shared::{Filter, PlayerId, RoomId, codes::ErrorCode};

/// Largest question and largest answer, bytes.
pub const QUESTION_BYTES: usize = 60 * 1024;
/// Longest time for which a node waits for a coordinator's answer.
pub const QUESTION_TIME: Duration = Duration::from_secs(10);

/// What a coordinator is asked for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Any room of a kind with a free seat, or a new one: a seat is kept there for the player for a while.
    Seek(Seek),
    /// A page of the region's rooms that are not private.
    Rooms {
        /// Of this kind only.
        kind: Option<String>,
        /// What their metadata must hold.
        filter: Filter,
        /// Those that can be joined only: not locked, with a free seat.
        open: bool,
        /// Behind this one, from an earlier answer.
        after: Option<RoomId>,
        /// At most so many, and at most [`tenure_shared::limits::LIST_ROOMS`].
        limit: usize,
    },
}

/// A player who wants a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seek {
    /// Who.
    pub player: PlayerId,
    /// Which game.
    pub kind: String,
    /// What the room's metadata must hold.
    pub filter: Filter,
    /// The same for all questions of one request, and random: it decides the name of a new room, whoever is asked.
    pub request: u64,
    /// The room that was the answer before could not be joined, for this reason (a word of [`ErrorCode`]).
    pub refused: Option<(RoomId, String)>,
}

/// A room of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Which.
    pub room: RoomId,
    /// Seats taken.
    pub seats: u32,
    /// Most seats.
    pub max_seats: u32,
    /// Whether new players are refused.
    pub locked: bool,
    /// What the game says of it: a MessagePack map, or nothing.
    pub metadata: Bytes,
}

/// What a coordinator answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The room in which a seat is kept.
    Room {
        /// Which.
        room: RoomId,
        /// Whether it may have to be made by whoever comes.
        make: bool,
        /// Whether its name was made for this question.
        new: bool,
        /// What it begins with if it is made, whoever of those who were told of it comes first.
        metadata: Bytes,
    },
    /// A page of the list.
    Rooms {
        /// As they said a moment ago, in the order of their ids. Fewer than were asked for, or none, need not be the last ones.
        rooms: Vec<Listed>,
        /// Where the next page begins behind; `None`: there is none.
        next: Option<RoomId>,
    },
    /// It cannot be had.
    Refused {
        /// A word of [`ErrorCode`].
        code: String,
        /// For people.
        message: String,
    },
    /// There is no coordinator and will be none: its set is stopped or parked.
    Nobody,
}

impl Answer {
    /// A refusal.
    pub fn refused(code: ErrorCode, message: String) -> Self {
        Self::Refused { code: code.as_str().to_owned(), message }
    }
}

/// A question or answer as bytes.
///
/// # Errors
/// When it is larger than [`QUESTION_BYTES`], or cannot be encoded.
pub fn encode<T: Serialize>(value: &T) -> Result<Bytes, String> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|error| error.to_string())?;
    if bytes.len() > QUESTION_BYTES {
        return Err(format!("{} bytes; at most {QUESTION_BYTES}", bytes.len()));
    }
    Ok(bytes.into())
}

/// The same back.
///
/// # Errors
/// When the bytes are not of the type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(bytes).map_err(|error| error.to_string())
}

/// An answer on its way.
pub type Answering = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// The coordinators of regions, as a room host reaches them.
pub trait Coordinators: Send + Sync + 'static {
    /// Asks the region's coordinator, and waits while it moves. `None`: there was no answer in time; it may be asked again.
    fn ask(&self, region: &str, question: Question, within: Duration) -> Answering;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_back_and_are_bounded() {
        let seek = Seek {
            player: PlayerId::new("ann").expect("valid"),
            kind: "arena".into(),
            filter: Filter::default(),
            request: u64::MAX,
            refused: Some((RoomId::new("arena/eu/a").expect("valid"), "room_full".into())),
        };
        let question = Question::Seek(seek);
        assert_eq!(decode(&encode(&question).expect("small")).as_ref(), Ok(&question));
        let answer = Answer::refused(ErrorCode::Limit, "x".repeat(QUESTION_BYTES));
        assert!(encode(&answer).is_err());
        assert!(decode::<Answer>(&[0xc1]).is_err());
    }
}
