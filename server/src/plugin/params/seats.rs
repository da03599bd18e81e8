//! Who sits here, and which entity is which number on the wire.

use bevy_ecs::{
    change_detection::Res,
    entity::Entity,
    system::{Query, SystemParam},
};
use tenure_shared::{NetId, PlayerId, SeatId};

use crate::plugin::{Net, NetIndex, Seat, SeatIndex, seat::net_id};

/// The seats of the room.
#[derive(SystemParam)]
pub struct Seats<'w, 's> {
    seats: Query<'w, 's, &'static Seat>,
    index: Res<'w, SeatIndex>,
}

impl Seats<'_, '_> {
    /// The seat of an entity.
    pub fn get(&self, entity: Entity) -> Option<&Seat> {
        self.seats.get(entity).ok()
    }

    /// The entity of a seat's number.
    pub fn by_id(&self, id: SeatId) -> Option<Entity> {
        self.index.by_id.get(&id).copied()
    }

    /// The entity of a player's seat.
    pub fn by_player(&self, player: &PlayerId) -> Option<Entity> {
        self.index.by_player.get(player).copied()
    }

    /// All seats by rising number.
    pub fn iter(&self) -> impl Iterator<Item = (Entity, &Seat)> {
        self.index.by_id.values().filter_map(|entity| Some((*entity, self.get(*entity)?)))
    }

    /// Those with a socket.
    pub fn connected(&self) -> impl Iterator<Item = (Entity, &Seat)> {
        self.iter().filter(|(_, seat)| seat.connected())
    }

    /// Seats taken.
    pub fn len(&self) -> usize {
        self.index.by_id.len()
    }

    /// Whether nobody sits here.
    pub fn is_empty(&self) -> bool {
        self.index.by_id.is_empty()
    }
}

impl std::fmt::Debug for Seats<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.index.by_id.keys()).finish()
    }
}

/// Entities as wire and disk name them. Persisted and replicated types hold a [`NetId`], never an `Entity`.
#[derive(SystemParam)]
pub struct NetIds<'w, 's> {
    nets: Query<'w, 's, &'static Net>,
    index: Res<'w, NetIndex>,
}

impl NetIds<'_, '_> {
    /// The number of an entity that has a registered component.
    pub fn id(&self, entity: Entity) -> Option<NetId> {
        self.nets.get(entity).ok().map(net_id)
    }

    /// The entity of a number; `None` when it is gone.
    pub fn entity(&self, id: NetId) -> Option<Entity> {
        self.index.by_id.get(&id.0).copied()
    }
}

impl std::fmt::Debug for NetIds<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NetIds({})", self.index.by_id.len())
    }
}
