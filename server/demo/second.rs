//! The arena's second version, to be deployed over the first and rolled back: coins may shine, players have moods, and nobody is
//! silenced any more. Each way in which a game may change is here once (docs/writing-a-game.md, "Changing a game that is running").
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

use crate::arena::{
    self, chat,
    parts::{Player, Say, Token},
};

/// Coins worth so much shine.
const SHINES: u16 = 5;
/// Faces there are.
const FACES: u8 = 8;

/// A coin as the first version knows it.
#[derive(Serialize, Deserialize)]
struct CoinV1 {
    value: u8,
}

/// Changed: room for larger values, and whether it shines.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coin {
    value: u16,
    shiny: bool,
}

impl Coin {
    fn of(value: u16) -> Self {
        Self { value, shiny: value >= SHINES }
    }
}

impl Token for Coin {
    fn worth(value: u8) -> Self {
        Self::of(u16::from(value))
    }

    fn value(&self) -> u8 {
        u8::try_from(self.value).unwrap_or(u8::MAX)
    }
}

/// Added: the face that a player makes, 0 for none.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Mood {
    face: u8,
}

/// Added. To the room: make this face.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Emote {
    face: u8,
}

/// Registers the game. The first version's `silenced` is gone from here: stored ones are carried along, for a rollback.
pub(crate) fn arena(room: &mut RoomBuilder) {
    arena::shared::<Coin>(room);
    // It still writes what the first version reads. A third one would no more, and could be rolled back to this one.
    room.component::<Coin>("coin")
        .version(2)
        .migrate_from(1, |old: CoinV1| Coin::of(u16::from(old.value)))
        .writes(1, |coin: Coin| CoinV1 { value: coin.value() })
        .replicated()
        .persisted();
    room.component::<Mood>("mood").replicated().persisted();
    room.message::<Emote>("emote").latest();
    room.systems(Apply, emote);
    room.systems(Stage::Send, talk);
}

/// The arena with a beat that checks itself, for load tests.
pub(crate) fn drill(room: &mut RoomBuilder) {
    arena(room);
    arena::drill::beats(room);
}

/// A drill with 2,000 entities more.
pub(crate) fn quarry(room: &mut RoomBuilder) {
    drill(room);
    arena::drill::stones(room);
}

/// An arena for a few, of one of several sorts, for load tests of matchmaking.
pub(crate) fn skirmish(room: &mut RoomBuilder) {
    arena(room);
    room.max_seats(8).filter_by(&["mode"]);
}

fn emote(inbox: Inbox<Emote>, mut moods: Query<&mut Mood>, mut commands: Commands) {
    for (seat, Emote { face }) in inbox.iter() {
        let mood = Mood { face: face % FACES };
        match moods.get_mut(seat) {
            Ok(mut now) => {
                now.set_if_neq(mood);
            }
            Err(_) => {
                commands.entity(seat).insert(mood);
            }
        }
    }
}

fn talk(inbox: Inbox<Say>, players: Query<&Player>, mut out: Out) {
    for (seat, said) in inbox.iter() {
        if let Ok(player) = players.get(seat) {
            chat::say(seat, player, said, &mut out);
        }
    }
}
