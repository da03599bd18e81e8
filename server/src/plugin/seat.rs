//! Components that the framework puts on entities: seats, owners and network ids.

use std::{collections::BTreeMap, time::Duration};

use bevy_ecs::{
    component::Component, entity::Entity, lifecycle::HookContext, resource::Resource, world::DeferredWorld,
};
use tenure_shared::{NetId, PlayerId, SeatId};

/// A player's place in the room. The framework makes the entity before `on_join` and removes it after `on_leave`; game code puts its
/// own components on it. It outlives the socket by the reconnect grace.
#[derive(Component, Clone, Debug, PartialEq, Eq)]
#[require(Net)]
pub struct Seat {
    pub(crate) id: SeatId,
    pub(crate) player: PlayerId,
    pub(crate) connected: bool,
    pub(crate) since: u64,
}

impl Seat {
    /// Its number, never used again in this room.
    pub fn id(&self) -> SeatId {
        self.id
    }

    /// Whose it is.
    pub fn player(&self) -> &PlayerId {
        &self.player
    }

    /// Whether a socket is attached.
    pub fn connected(&self) -> bool {
        self.connected
    }

    /// Room time since which it is connected, or disconnected.
    pub fn since(&self) -> Duration {
        Duration::from_nanos(self.since)
    }
}

/// Whose an entity is that is not a seat itself: `.to_owner()` components of it go to that seat alone. Persisted by the framework.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedBy(pub SeatId);

/// Identity of an entity on wire and disk; every entity with a registered component has one.
#[derive(Component, Clone, Copy, Debug, Default)]
#[component(on_add = added, on_remove = removed)]
pub(crate) struct Net {
    pub(crate) id: u64,
}

/// Which entity has which id. The hooks of [`Net`] keep it, so it is right at every moment.
#[derive(Resource, Debug, Default)]
pub(crate) struct NetIndex {
    pub(crate) next: u64,
    pub(crate) by_id: BTreeMap<u64, Entity>,
    /// Ids that went since the last frame, in order.
    pub(crate) gone: Vec<u64>,
}

fn added(mut world: DeferredWorld<'_>, context: HookContext) {
    let restored = world.get::<Net>(context.entity).map_or(0, |net| net.id);
    let Some(mut index) = world.get_resource_mut::<NetIndex>() else { return };
    let id = if restored == 0 {
        index.next += 1;
        index.next
    } else {
        restored
    };
    index.by_id.insert(id, context.entity);
    if let Some(mut net) = world.get_mut::<Net>(context.entity) {
        net.id = id;
    }
}

fn removed(mut world: DeferredWorld<'_>, context: HookContext) {
    let id = world.get::<Net>(context.entity).map_or(0, |net| net.id);
    if let Some(mut index) = world.get_resource_mut::<NetIndex>()
        && index.by_id.remove(&id).is_some()
    {
        index.gone.push(id);
    }
}

/// Which entity is which seat.
#[derive(Resource, Debug, Default)]
pub(crate) struct SeatIndex {
    pub(crate) by_id: BTreeMap<SeatId, Entity>,
    pub(crate) by_player: BTreeMap<PlayerId, Entity>,
}

/// The id as games see it.
pub(crate) fn net_id(net: &Net) -> NetId {
    NetId(net.id)
}
