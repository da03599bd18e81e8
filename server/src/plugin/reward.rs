//! Scheduled rewards as a room sees them: who is meant, how much, and what a hook may change.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bevy_ecs::entity::Entity;
use tenure_shared::PlayerId;

use crate::runtime::Wall;

/// Who is meant by a schedule. Audiences are of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Connected seats at the due tick.
    Present,
    /// Players who had a connected seat within this time.
    Active(Duration),
    /// Every player who ever had a seat here, up to [`Reward::max_known`].
    AllKnown,
}

/// One occurrence of a schedule that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reward {
    /// The schedule's id.
    pub id: Arc<str>,
    /// When it was due, by the store's clock.
    pub scheduled_for: Wall,
    /// Who is meant.
    pub audience: Audience,
    /// Currency → amount for each recipient; a hook may change it.
    pub amounts: BTreeMap<Arc<str>, i64>,
    /// Cap per player: start of the period, currency → most in it.
    pub cap: Option<(Wall, BTreeMap<Arc<str>, i64>)>,
    /// Most grants decided in one tick; the rest follows in pages.
    pub max_grants_per_step: usize,
    /// Most players considered for [`Audience::AllKnown`].
    pub max_known: usize,
}

/// A player who gets a reward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Who.
    pub player: PlayerId,
    /// His seat, if he has one now.
    pub seat: Option<Entity>,
    /// Currency → amount.
    pub amounts: BTreeMap<Arc<str>, i64>,
}

/// What a reward hook is given: one page of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewardDue {
    /// The schedule's id.
    pub id: Arc<str>,
    /// When it was due.
    pub scheduled_for: Wall,
    /// Currency → amount as the schedule says.
    pub amounts: BTreeMap<Arc<str>, i64>,
    /// The audience of this page, by player id. The hook returns those who get something, with how much.
    pub recipients: Vec<Recipient>,
    /// Whether this is the first page of the occurrence: what happens once per occurrence belongs here.
    pub first: bool,
}
