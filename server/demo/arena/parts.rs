//! Components, resources and messages. Fields are the wire's and the disk's: add, never reorder, without a version.

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

/// Width of the field.
pub(crate) const WIDTH: f32 = 1000.0;
/// Height of the field.
pub(crate) const HEIGHT: f32 = 600.0;
/// Players are this round.
pub(crate) const PLAYER_RADIUS: f32 = 18.0;
/// Colors of the client's palette.
pub(crate) const COLORS: u64 = 12;

#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pos {
    pub(crate) x: f32,
    pub(crate) y: f32,
}

impl Pos {
    /// Somewhere on the field, this far from its edge.
    pub(crate) fn anywhere(rng: &mut RoomRng, margin: f32) -> Self {
        Self { x: rng.between(margin, WIDTH - margin), y: rng.between(margin, HEIGHT - margin) }
    }
}

#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Player {
    pub(crate) name: String,
    pub(crate) color: u8,
    pub(crate) score: u32,
    /// 0: none; 1 to 5.
    pub(crate) hat: u8,
}

/// What a coin is differs between the versions of this game; this is what all of them have.
pub(crate) trait Token: Component + Copy {
    /// A coin of this value.
    fn worth(value: u8) -> Self;
    /// Its value.
    fn value(&self) -> u8;
}

/// Gold in the ledger, as last heard; only its owner sees it.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wallet {
    pub(crate) gold: i64,
}

/// How many steers were applied to this seat, ever: load tests compare it with what they sent.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs(pub(crate) u64);

/// Where a player wants to go.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heading {
    pub(crate) dx: i8,
    pub(crate) dy: i8,
}

/// Faster for a while; a timer ends it.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Boost;

#[derive(Resource, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arena {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Chests opened so far.
    pub(crate) round: u32,
}

impl Default for Arena {
    fn default() -> Self {
        Self { width: WIDTH as u32, height: HEIGHT as u32, round: 0 }
    }
}

#[derive(Resource, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chest {
    /// Room tick at which the next chest is due; 0 if not known.
    pub(crate) next_at: u64,
    /// Seconds from chest to chest.
    pub(crate) every: u32,
    /// Gold for each.
    pub(crate) gold: u32,
}

impl Default for Chest {
    fn default() -> Self {
        Self { next_at: 0, every: 30, gold: 25 }
    }
}

/// When the last chest was due, µs since 1970; 0 if there was none.
#[derive(Resource, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChestPast {
    pub(crate) last: u64,
}

/// The node that the room runs at, for the page's corner. It is not persisted: each owner writes its own name.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host(pub(crate) String);

/// Name and score of the best, best first.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Board(pub(crate) Vec<(String, u32)>);

/// To the room: go there. A direction, its length does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steer {
    pub(crate) dx: i8,
    pub(crate) dy: i8,
}

/// To the room: say this.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Say {
    pub(crate) text: String,
}

/// From the room, to the one who did it: a coin was picked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picked {
    pub(crate) entity: u64,
    pub(crate) value: u8,
}

/// From the room: somebody said this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chat {
    pub(crate) from: String,
    pub(crate) text: String,
}

/// A name or text that may be shown: trimmed, not empty, of at most `limit` characters, none of them a control character.
pub(crate) fn clean(text: &str, limit: usize) -> Result<String, Refuse> {
    let text = text.trim();
    if text.is_empty() {
        return Err("there is nothing in it".into());
    }
    if text.chars().any(char::is_control) {
        return Err("there are control characters in it".into());
    }
    Ok(text.chars().take(limit).collect())
}
