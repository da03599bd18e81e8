//! Steering and walking.

use tenure::prelude::*;

use super::parts::{Boost, HEIGHT, Heading, Inputs, PLAYER_RADIUS, Pos, Steer, WIDTH};

/// Pixels per second.
const SPEED: f32 = 220.0;
/// Times as fast with a boost.
const BOOSTED: f32 = 1.7;

/// Every steer is counted; of several in a tick the last one gives the direction.
pub(crate) fn steer(inbox: Inbox<Steer>, mut players: Query<(&mut Heading, &mut Inputs)>) {
    for (seat, Steer { dx, dy }) in inbox.iter() {
        let Ok((mut heading, mut inputs)) = players.get_mut(seat) else { continue };
        inputs.0 += 1;
        heading.set_if_neq(Heading { dx: *dx, dy: *dy });
    }
}

/// Those who have a direction go there; those who stand send nothing.
pub(crate) fn walk(tick: Tick, mut players: Query<(&Heading, &mut Pos, Has<Boost>)>) {
    for (heading, mut pos, boosted) in &mut players {
        if *heading == Heading::default() {
            continue;
        }
        let (dx, dy) = (f32::from(heading.dx), f32::from(heading.dy));
        let step = SPEED * if boosted { BOOSTED } else { 1.0 } * tick.seconds() / dx.hypot(dy);
        let x = (pos.x + dx * step).clamp(PLAYER_RADIUS, WIDTH - PLAYER_RADIUS);
        let y = (pos.y + dy * step).clamp(PLAYER_RADIUS, HEIGHT - PLAYER_RADIUS);
        pos.set_if_neq(Pos { x, y });
    }
}
