//! Coins: they lie about, are picked up, and new ones fall.

use tenure::prelude::*;

use super::parts::{HEIGHT, PLAYER_RADIUS, Picked, Player, Pos, Token, WIDTH};

/// Coins on the field.
const COINS: usize = 40;
/// A coin is this round.
const RADIUS: f32 = 10.0;
/// One coin in so many is a big one.
const BIG: u64 = 8;

/// Coins by rising x, so that a player looks at those beside him only. It is not kept: a move makes it stale, no more.
#[derive(Resource)]
pub(crate) struct Field<C: Token> {
    coins: Vec<(Pos, C, Entity)>,
    stale: bool,
}

impl<C: Token> Default for Field<C> {
    fn default() -> Self {
        Self { coins: Vec::new(), stale: true }
    }
}

pub(crate) fn first_coins<C: Token>(mut commands: Commands, mut rng: RoomRng) {
    (0..COINS).for_each(|_| drop_coin::<C>(&mut commands, &mut rng));
}

fn drop_coin<C: Token>(commands: &mut Commands, rng: &mut RoomRng) {
    let value = if rng.below(BIG) == 0 { 5 } else { 1 };
    commands.spawn((Pos::anywhere(rng, 2.0 * RADIUS), C::worth(value)));
}

pub(crate) fn pick<C: Token>(
    mut field: ResMut<Field<C>>,
    coins: Query<(Entity, &Pos, &C), Without<Player>>,
    mut players: Query<(Entity, &Pos, &mut Player)>,
    nets: NetIds,
    mut out: Out,
    mut commands: Commands,
) {
    const REACH: f32 = PLAYER_RADIUS + RADIUS;
    if field.stale {
        field.coins = coins.iter().map(|(entity, pos, coin)| (*pos, *coin, entity)).collect();
        field.coins.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
        field.stale = false;
    }
    for (seat, at, mut player) in &mut players {
        let mut i = field.coins.partition_point(|(pos, ..)| pos.x < at.x - REACH);
        while let Some((pos, coin, entity)) = field.coins.get(i).copied().filter(|(pos, ..)| pos.x <= at.x + REACH) {
            if (pos.x - at.x).hypot(pos.y - at.y) > REACH {
                i += 1;
                continue;
            }
            field.coins.remove(i);
            player.score = player.score.saturating_add(u32::from(coin.value()));
            let entity_id = nets.id(entity).map_or(0, |id| id.0);
            out.to(seat, &Picked { entity: entity_id, value: coin.value() });
            commands.entity(entity).despawn();
        }
    }
}

/// Keeps the field full.
pub(crate) fn refill<C: Token>(mut field: ResMut<Field<C>>, mut commands: Commands, mut rng: RoomRng) {
    let missing = COINS.saturating_sub(field.coins.len());
    if missing > 0 {
        (0..missing).for_each(|_| drop_coin::<C>(&mut commands, &mut rng));
        field.stale = true;
    }
}

const _: () = assert!(WIDTH > HEIGHT, "the sweep goes along the longer side");
