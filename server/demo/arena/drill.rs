//! Rooms for load tests: the arena with a beat that checks itself, and the same with two thousand things lying about.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

use super::{books, parts::Pos};

/// Stones of a quarry.
const STONES: u16 = 2_000;
/// Time between two beats, and the same in ticks of the arena.
const EVERY: Duration = Duration::from_secs(1);
const TICKS: u64 = 20;

/// What the beat found so far. It moves with the room, so that what a move does to a timer is seen by the next owner.
#[derive(Resource, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Beats {
    count: u64,
    /// Tick of the last one.
    last: u64,
    /// Beats that came at another tick than a second after the one before.
    wrong: u64,
}

/// From the room, to everybody, at each beat.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Beat {
    count: u64,
    wrong: u64,
}

/// It lies there.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Stone(u16);

/// A local timer that fires each second: a second fire, or one that is missing, is seen by the room itself and by its players.
pub(crate) fn beats(room: &mut RoomBuilder) {
    room.resource::<Beats>("beats").replicated().persisted();
    room.event::<Beat>("beat");
    room.timer("beat", beat);
    room.startup(first_beat);
    books::keep(room);
}

/// 2,000 entities that lie about.
pub(crate) fn stones(room: &mut RoomBuilder) {
    room.component::<Stone>("stone").replicated().persisted();
    room.startup(scatter);
}

fn first_beat(mut timers: Timers) {
    timers.every("beat", 0, EVERY);
}

fn beat(In(_): In<Fired>, mut beats: ResMut<Beats>, tick: Tick, mut out: Out) {
    // The first one begins the grid.
    let punctual = beats.count == 0 || beats.last + TICKS == tick.n;
    *beats = Beats { count: beats.count + 1, last: tick.n, wrong: beats.wrong + u64::from(!punctual) };
    out.all(&Beat { count: beats.count, wrong: beats.wrong });
}

fn scatter(mut commands: Commands, mut rng: RoomRng) {
    for nth in 0..STONES {
        commands.spawn((Pos::anywhere(&mut rng, 0.0), Stone(nth)));
    }
}
