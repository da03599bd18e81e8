//! Erased access to a resource type.

use std::marker::PhantomData;

use bevy_ecs::{
    change_detection::DetectChanges as _,
    component::Mutable,
    resource::Resource,
    world::{FromWorld, World},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{decode, encode, shown::encode_shown};

/// What may be registered as a resource: it is made by default (`FromWorld`) unless a checkpoint has it.
pub trait RoomResource: Resource<Mutability = Mutable> + Serialize + DeserializeOwned + FromWorld {}
impl<T: Resource<Mutability = Mutable> + Serialize + DeserializeOwned + FromWorld> RoomResource for T {}

pub(crate) trait ErasedResource: Send + Sync {
    /// Makes the default.
    fn init(&self, world: &mut World);
    /// Appends the value, if there is one.
    fn save(&self, world: &World, out: &mut Vec<u8>) -> Result<bool, String>;
    /// Appends the value as clients are shown it; `false` if it is not there.
    fn show(&self, world: &World, out: &mut Vec<u8>) -> Result<bool, String>;
    /// Inserts a stored value.
    fn load(&self, world: &mut World, bytes: &[u8]) -> Result<(), String>;
    /// Whether it changed since trackers were cleared; `None` if it is not there.
    fn changed(&self, world: &World) -> Option<bool>;
}

pub(crate) struct Typed<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: RoomResource> ErasedResource for Typed<T> {
    fn init(&self, world: &mut World) {
        world.init_resource::<T>();
    }

    fn save(&self, world: &World, out: &mut Vec<u8>) -> Result<bool, String> {
        match world.get_resource::<T>() {
            Some(value) => encode(out, value).map(|()| true),
            None => Ok(false),
        }
    }

    fn show(&self, world: &World, out: &mut Vec<u8>) -> Result<bool, String> {
        match world.get_resource::<T>() {
            Some(value) => encode_shown(out, value).map(|()| true),
            None => Ok(false),
        }
    }

    fn load(&self, world: &mut World, bytes: &[u8]) -> Result<(), String> {
        let value: T = decode(bytes)?;
        world.insert_resource(value);
        Ok(())
    }

    fn changed(&self, world: &World) -> Option<bool> {
        world.get_resource_ref::<T>().map(|value| value.is_changed())
    }
}
