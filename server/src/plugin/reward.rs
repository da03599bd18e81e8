//! A reward as a schedule describes it to the room that decides it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::runtime::Wall;

/// Who a reward is for. Audiences are of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Connected at the due tick.
    Present,
    /// Connected within this time before the due tick.
    Active(Duration),
    /// Ever had a seat in the room, up to [`Reward::max_known`].
    AllKnown,
}

/// One occurrence of a schedule: who gets how much at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reward {
    /// The schedule.
    pub id: Arc<str>,
    /// When it was due; part of every grant's identity.
    pub scheduled_for: Wall,
    /// Who gets it.
    pub audience: Audience,
    /// Currency → amount per player, unless the game's hook decides otherwise.
    pub amounts: BTreeMap<Arc<str>, i64>,
    /// Start of the period of the cap, and currency → most per player within it. The ledger applies it.
    pub cap: Option<(Wall, BTreeMap<Arc<str>, i64>)>,
    /// Most grants that one step decides; larger audiences are paged.
    pub max_grants_per_step: usize,
    /// Most players that `all-known` remembers.
    pub max_known: usize,
}
