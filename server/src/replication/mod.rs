//! What changed in a tick, as operations: one array for all who see the same, and a private one for each seat (docs/ARCHITECTURE.md).
//!
//! The shared part is encoded once. Private parts (`.to_owner()`, `.visible_by(filter)`) are found once per tick, too, and cost a
//! seat nothing while there is no news for it. A seat is told nothing about an entity outside its view (docs/invariants.md C56).

mod private;
mod shared;
mod snapshot;

use std::{collections::BTreeMap, sync::Arc};

use bevy_ecs::{entity::Entity, world::World};

use crate::plugin::{Change, Collector, ErasedResource, Filter, Registry, Scope, Values};

/// Bit set of component numbers.
type Mask = u128;

fn bit(number: u16) -> Mask {
    1_u128.checked_shl(u32::from(number)).unwrap_or(0)
}

struct Part {
    number: u16,
    collector: Box<dyn Collector>,
}

/// Turns one world's changes into operations.
pub(crate) struct Replicator {
    shared: Vec<Part>,
    owned: Vec<Part>,
    filtered: Vec<(Part, Filter)>,
    resources: Vec<(u16, Arc<dyn ErasedResource>)>,
    /// What everybody has been shown: entity → components. An entity is here as long as it has a shared component.
    shown: BTreeMap<u64, Mask>,
    shown_resources: Vec<bool>,
    /// Owners of `.to_owner()` components on entities that are no seats, as last shown.
    owners: BTreeMap<(u64, u16), Entity>,
    values: Values,
    removals: Vec<(u64, u16)>,
    news: News,
}

/// Private news of a tick.
#[derive(Default)]
struct News {
    /// Entities that are gone, and whether everybody saw them.
    gone: Vec<(u64, bool)>,
    /// Entities that everybody saw and that live on, but with private components only.
    vanished: Vec<u64>,
    /// Private components that are gone: for whom (all who know it, if `None`), entity, component.
    lost: Vec<(Option<Entity>, u64, u16)>,
    /// Changed components of an owner, by owner.
    owned: Vec<(Entity, Change)>,
    /// All entities with filtered components.
    filtered: Vec<Filtered>,
}

struct Filtered {
    part: usize,
    net: u64,
    entity: Entity,
    changed: bool,
    value: Option<Change>,
}

/// What one seat has been shown beyond the shared part.
#[derive(Debug, Default)]
pub(crate) struct SeatView {
    known: BTreeMap<u64, Mask>,
}

impl Replicator {
    pub(crate) fn new(registry: &Registry, world: &mut World) -> Self {
        let (mut shared, mut owned, mut filtered) = (Vec::new(), Vec::new(), Vec::new());
        for def in &registry.components {
            let Some(scope) = &def.scope else { continue };
            let part = Part { number: def.number, collector: def.erased.collector(world, def.number) };
            match scope {
                Scope::All => shared.push(part),
                Scope::Owner => owned.push(part),
                Scope::Filtered(filter) => filtered.push((part, filter.clone())),
            }
        }
        let resources: Vec<_> =
            registry.resources.iter().filter(|r| r.replicated).map(|r| (r.number, r.erased.clone())).collect();
        Self {
            shared,
            owned,
            filtered,
            shown_resources: vec![false; resources.len()],
            resources,
            shown: BTreeMap::new(),
            owners: BTreeMap::new(),
            values: Values::default(),
            removals: Vec::new(),
            news: News::default(),
        }
    }

    /// Values that could not be encoded since this was last asked.
    pub(crate) fn take_faults(&mut self) -> u64 {
        std::mem::take(&mut self.values.faults)
    }
}
