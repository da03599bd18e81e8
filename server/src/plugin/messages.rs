//! Messages to the room: decoded into a queue that [`Inbox`](super::params::Inbox) reads and the tick empties.

use std::marker::PhantomData;

use bevy_ecs::{entity::Entity, resource::Resource, world::World};
use serde::de::DeserializeOwned;

use super::values::decode_client;

/// What may be registered as a message or request.
pub trait RoomMessage: DeserializeOwned + Send + Sync + 'static {}
impl<T: DeserializeOwned + Send + Sync + 'static> RoomMessage for T {}

/// This tick's messages of one type, in order of arrival.
#[derive(Resource)]
pub(crate) struct Queue<T: Send + Sync + 'static> {
    pub(crate) items: Vec<(Entity, T)>,
}

pub(crate) trait ErasedMessage: Send + Sync {
    fn init(&self, world: &mut World);
    /// Decodes a client's payload into the queue.
    fn push(&self, world: &mut World, seat: Entity, payload: &[u8]) -> Result<(), String>;
    fn clear(&self, world: &mut World);
}

pub(crate) struct Typed<T> {
    pub(crate) latest: bool,
    pub(crate) marker: PhantomData<fn() -> T>,
}

impl<T: RoomMessage> ErasedMessage for Typed<T> {
    fn init(&self, world: &mut World) {
        world.insert_resource(Queue::<T> { items: Vec::new() });
    }

    fn push(&self, world: &mut World, seat: Entity, payload: &[u8]) -> Result<(), String> {
        let value: T = decode_client(payload)?;
        if let Some(mut queue) = world.get_resource_mut::<Queue<T>>() {
            if self.latest {
                queue.items.retain(|(other, _)| *other != seat);
            }
            queue.items.push((seat, value));
        }
        Ok(())
    }

    fn clear(&self, world: &mut World) {
        if let Some(mut queue) = world.get_resource_mut::<Queue<T>>()
            && !queue.items.is_empty()
        {
            queue.items.clear();
        }
    }
}
