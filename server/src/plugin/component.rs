//! Erased access to a component type: saving, loading, and collecting changes for frames.

use std::marker::PhantomData;

use bevy_ecs::{
    change_detection::{DetectChanges as _, Ref},
    component::{Component, Mutable},
    entity::Entity,
    query::{Has, QueryState},
    world::{EntityRef, EntityWorldMut, World},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Net, Seat, Values, decode, encode};

/// What may be registered as a component.
pub trait RoomComponent: Component<Mutability = Mutable> + Serialize + DeserializeOwned {}
impl<T: Component<Mutability = Mutable> + Serialize + DeserializeOwned> RoomComponent for T {}

pub(crate) trait ErasedComponent: Send + Sync {
    /// Entities with this component get a network id.
    fn register(&self, world: &mut World) -> Result<(), String>;
    /// Appends the value, if the entity has one.
    fn save(&self, entity: EntityRef<'_>, out: &mut Vec<u8>) -> Result<bool, String>;
    /// Inserts a stored value.
    fn load(&self, entity: &mut EntityWorldMut<'_>, bytes: &[u8]) -> Result<(), String>;
    /// What finds its changes in one world.
    fn collector(&self, world: &mut World, number: u16) -> Box<dyn Collector>;
}

/// An entity that has a component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) net: u64,
    pub(crate) entity: Entity,
    /// Whether the component changed since trackers were cleared.
    pub(crate) changed: bool,
    pub(crate) is_seat: bool,
}

/// Finds one component's changes in one world.
pub(crate) trait Collector: Send + Sync {
    /// Values that changed since trackers were cleared.
    fn changed(&mut self, world: &World, values: &mut Values);
    /// All values.
    fn all(&mut self, world: &World, values: &mut Values);
    /// Calls back for each entity that has it.
    fn each(&mut self, world: &World, visit: &mut dyn FnMut(Holder));
    /// Appends one value.
    fn one(&self, entity: EntityRef<'_>, net: u64, values: &mut Values) -> bool;
    /// Entities that lost it since trackers were cleared; some of them may have it again or be gone.
    fn removed(&self, world: &World, visit: &mut dyn FnMut(Entity));
    /// Whether the entity has it.
    fn has(&self, entity: EntityRef<'_>) -> bool;
}

pub(crate) struct Typed<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: RoomComponent> ErasedComponent for Typed<T> {
    fn register(&self, world: &mut World) -> Result<(), String> {
        world.try_register_required_components::<T, Net>().map_err(|e| e.to_string())
    }

    fn save(&self, entity: EntityRef<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
        match entity.get::<T>() {
            Some(value) => encode(out, value).map(|()| true),
            None => Ok(false),
        }
    }

    fn load(&self, entity: &mut EntityWorldMut<'_>, bytes: &[u8]) -> Result<(), String> {
        let value: T = decode(bytes)?;
        entity.insert(value);
        Ok(())
    }

    fn collector(&self, world: &mut World, number: u16) -> Box<dyn Collector> {
        Box::new(TypedCollector::<T> { query: world.query(), number })
    }
}

struct TypedCollector<T: Component> {
    query: QueryState<(Entity, &'static Net, Ref<'static, T>, Has<Seat>)>,
    number: u16,
}

impl<T: RoomComponent> Collector for TypedCollector<T> {
    fn changed(&mut self, world: &World, values: &mut Values) {
        for (_, net, value, _) in self.query.iter(world) {
            if value.is_changed() {
                values.push(net.id, self.number, &*value);
            }
        }
    }

    fn all(&mut self, world: &World, values: &mut Values) {
        for (_, net, value, _) in self.query.iter(world) {
            values.push(net.id, self.number, &*value);
        }
    }

    fn each(&mut self, world: &World, visit: &mut dyn FnMut(Holder)) {
        for (entity, net, value, is_seat) in self.query.iter(world) {
            visit(Holder { net: net.id, entity, changed: value.is_changed(), is_seat });
        }
    }

    fn one(&self, entity: EntityRef<'_>, net: u64, values: &mut Values) -> bool {
        let Some(value) = entity.get::<T>() else { return false };
        values.push(net, self.number, value);
        true
    }

    fn removed(&self, world: &World, visit: &mut dyn FnMut(Entity)) {
        world.removed::<T>().for_each(visit);
    }

    fn has(&self, entity: EntityRef<'_>) -> bool {
        entity.contains::<T>()
    }
}
