//! The chest: a reward schedule opens it (`config/rewards.toml`); the room counts down to it.

use tenure::prelude::*;

use super::parts::{Arena, Chest, ChestPast};

/// Everyone present gets what the schedule says.
pub(crate) fn opened(
    In(due): In<RewardDue>,
    mut arena: ResMut<Arena>,
    mut chest: ResMut<Chest>,
    mut past: ResMut<ChestPast>,
) -> Vec<Recipient> {
    if due.first {
        arena.round += 1;
        past.last = due.scheduled_for.0;
        let gold = due.amounts.get("gold").and_then(|gold| u32::try_from(*gold).ok()).unwrap_or(0);
        if chest.gold != gold {
            chest.gold = gold;
        }
    }
    due.recipients
}

/// Tells clients at which tick the next one is due.
pub(crate) fn announce(schedules: Schedules, tick: Tick, past: Res<ChestPast>, mut chest: ResMut<Chest>) {
    if !schedules.is_changed() {
        return;
    }
    let Some(next) = schedules.next("chest") else { return };
    let mut now = *chest;
    now.next_at = tick.tick_at(next);
    let every = next.0.saturating_sub(past.last).div_ceil(1_000_000);
    if past.last > 0 && every > 0 {
        now.every = u32::try_from(every).unwrap_or(u32::MAX);
    }
    chest.set_if_neq(now);
}
