//! Erased access to a component type: saving, loading without being news (H12), and collecting changes for frames.

use std::marker::PhantomData;

use bevy_ecs::{
    change_detection::{DetectChanges as _, DetectChangesMut as _, MAX_CHANGE_AGE, Ref, Tick},
    component::{Component, Mutable},
    entity::Entity,
    query::QueryState,
    world::{EntityRef, EntityWorldMut, World},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Net, Values, decode, encode};

/// What may be registered as a component.
pub trait RoomComponent: Component<Mutability = Mutable> + Serialize + DeserializeOwned {}
impl<T: Component<Mutability = Mutable> + Serialize + DeserializeOwned> RoomComponent for T {}

pub(crate) trait ErasedComponent: Send + Sync {
    /// Entities with this component get a network id.
    fn register(&self, world: &mut World) -> Result<(), String>;
    /// Appends the value, if the entity has one.
    fn save(&self, entity: EntityRef<'_>, out: &mut Vec<u8>) -> Result<bool, String>;
    /// Inserts a stored value, aged: it is not news.
    fn load(&self, entity: &mut EntityWorldMut<'_>, bytes: &[u8]) -> Result<(), String>;
    /// Makes it old news, whatever put it there.
    fn age(&self, entity: &mut EntityWorldMut<'_>);
    /// What finds its changes in one world.
    fn collector(&self, world: &mut World, number: u16) -> Box<dyn Collector>;
}

/// Finds one component's changes in one world.
pub(crate) trait Collector: Send + Sync {
    /// Values that changed since trackers were cleared.
    fn changed(&mut self, world: &World, values: &mut Values);
    /// All values.
    fn all(&mut self, world: &World, values: &mut Values);
    /// Calls back for each entity that has it: id, entity, whether it changed.
    fn each(&mut self, world: &World, visit: &mut dyn FnMut(u64, Entity, bool));
    /// Appends one value.
    fn one(&self, entity: EntityRef<'_>, net: u64, values: &mut Values) -> bool;
    /// Entities that lost it since trackers were cleared; some of them may have it again or be gone.
    fn removed(&self, world: &World, visit: &mut dyn FnMut(Entity));
    /// Whether the entity has it.
    fn has(&self, entity: EntityRef<'_>) -> bool;
}

pub(crate) struct Typed<T>(pub(crate) PhantomData<fn() -> T>);

/// A tick so old that no system ever takes it for news.
pub(crate) fn aged(world: &mut World) -> Tick {
    Tick::new(world.change_tick().get().wrapping_sub(MAX_CHANGE_AGE))
}

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
        self.age(entity);
        Ok(())
    }

    fn age(&self, entity: &mut EntityWorldMut<'_>) {
        age::<T>(entity);
    }

    fn collector(&self, world: &mut World, number: u16) -> Box<dyn Collector> {
        Box::new(TypedCollector::<T> { query: world.query(), number })
    }
}

/// Makes a component old news (see `docs/writing-a-game.md`, "A move is invisible").
pub(crate) fn age<T: Component<Mutability = Mutable>>(entity: &mut EntityWorldMut<'_>) {
    let tick = entity.world_scope(aged);
    if let Some(mut value) = entity.get_mut::<T>() {
        value.set_last_added(tick);
    }
}

struct TypedCollector<T: Component> {
    query: QueryState<(Entity, &'static Net, Ref<'static, T>)>,
    number: u16,
}

impl<T: RoomComponent> Collector for TypedCollector<T> {
    fn changed(&mut self, world: &World, values: &mut Values) {
        for (entity, net, value) in self.query.iter(world) {
            if value.is_changed() {
                values.push(net.id, entity, self.number, &*value);
            }
        }
    }

    fn all(&mut self, world: &World, values: &mut Values) {
        for (entity, net, value) in self.query.iter(world) {
            values.push(net.id, entity, self.number, &*value);
        }
    }

    fn each(&mut self, world: &World, visit: &mut dyn FnMut(u64, Entity, bool)) {
        for (entity, net, value) in self.query.iter(world) {
            visit(net.id, entity, value.is_changed());
        }
    }

    fn one(&self, entity: EntityRef<'_>, net: u64, values: &mut Values) -> bool {
        let Some(value) = entity.get::<T>() else { return false };
        values.push(net, entity.id(), self.number, value);
        true
    }

    fn removed(&self, world: &World, visit: &mut dyn FnMut(Entity)) {
        world.removed::<T>().for_each(visit);
    }

    fn has(&self, entity: EntityRef<'_>) -> bool {
        entity.contains::<T>()
    }
}
