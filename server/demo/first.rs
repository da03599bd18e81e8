//! The arena's first version: coins have a value, and who has just spoken is silent for a moment.
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

use crate::arena::{
    self, chat,
    parts::{Player, Say, Token},
};

/// One may speak so often.
const COOLDOWN: Duration = Duration::from_millis(700);

#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coin {
    value: u8,
}

impl Token for Coin {
    fn worth(value: u8) -> Self {
        Self { value }
    }

    fn value(&self) -> u8 {
        self.value
    }
}

/// Room time at which one may speak again.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Silenced(Duration);

/// Registers the game.
pub(crate) fn arena(room: &mut RoomBuilder) {
    arena::shared::<Coin>(room);
    room.component::<Coin>("coin").replicated().persisted();
    room.component::<Silenced>("silenced").persisted();
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

fn talk(
    inbox: Inbox<Say>,
    players: Query<(&Player, Option<&Silenced>)>,
    tick: Tick,
    mut out: Out,
    mut commands: Commands,
) {
    let mut spoke: Vec<Entity> = Vec::new();
    for (seat, said) in inbox.iter() {
        let Ok((player, silenced)) = players.get(seat) else { continue };
        if spoke.contains(&seat) || silenced.is_some_and(|until| tick.now < until.0) {
            chat::refuse(seat, "not so fast", &mut out);
        } else if chat::say(seat, player, said, &mut out) {
            spoke.push(seat);
            commands.entity(seat).insert(Silenced(tick.now + COOLDOWN));
        }
    }
}
