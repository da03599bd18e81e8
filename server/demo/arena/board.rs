//! The leader board: the ten best of the room.

use tenure::prelude::*;

use super::parts::{Board, Player};

/// Rows of the board.
const ROWS: usize = 10;

/// Whether somebody came or went. It starts as "yes", so that a restored room looks once.
#[derive(Resource)]
pub(crate) struct Stale(pub(crate) bool);

impl Default for Stale {
    fn default() -> Self {
        Self(true)
    }
}

pub(crate) fn rank(
    changed: Query<(), Changed<Player>>,
    players: Query<(&Seat, &Player)>,
    mut stale: ResMut<Stale>,
    mut board: ResMut<Board>,
) {
    if changed.is_empty() && !stale.0 {
        return;
    }
    stale.0 = false;
    let mut rows: Vec<_> = players.iter().map(|(seat, player)| (player.score, seat.id(), &player.name)).collect();
    // Equal scores: who came first stands first, so that rows do not flicker.
    rows.sort_by_key(|(score, seat, _)| (std::cmp::Reverse(*score), *seat));
    let best = rows.into_iter().take(ROWS).map(|(score, _, name)| (name.clone(), score)).collect();
    board.set_if_neq(Board(best));
}
