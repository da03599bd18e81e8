//! What a fake client sees, by name.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tenure_shared::{
    delta::View,
    wire::{Space, TableRow},
};

use crate::plugin::decode;

/// What a fake client sees, by the names of the game's table.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub(super) view: &'a View,
    pub(super) table: &'a Arc<Vec<TableRow>>,
    pub(super) tick: u64,
}

impl State<'_> {
    /// The tick of the newest frame or snapshot.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Numbers of all entities.
    pub fn entities(&self) -> Vec<u64> {
        self.view.entities().keys().copied().collect()
    }

    /// A component of an entity.
    ///
    /// # Panics
    /// When the game has no such component, or it is not a `T`.
    pub fn component<T: DeserializeOwned>(&self, entity: u64, name: &str) -> Option<T> {
        let bytes = self.view.component(entity, self.number(Space::Component, name))?;
        Some(decode(bytes).expect("a component of that type"))
    }

    /// All entities with this component.
    ///
    /// # Panics
    /// When the game has no such component, or it is not a `T`.
    pub fn all<T: DeserializeOwned>(&self, name: &str) -> Vec<(u64, T)> {
        let entities = self.view.entities().keys();
        entities.filter_map(|entity| Some((*entity, self.component(*entity, name)?))).collect()
    }

    /// A resource.
    ///
    /// # Panics
    /// When the game has no such resource, or it is not a `T`.
    pub fn resource<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = self.view.resource(self.number(Space::Resource, name))?;
        Some(decode(bytes).expect("a resource of that type"))
    }

    /// The hash of `docs/wire.md`, "State hash".
    pub fn hash(&self) -> u64 {
        self.view.hash()
    }

    fn number(&self, space: Space, name: &str) -> u16 {
        let row = self.table.iter().find(|row| row.space == space && row.name == name);
        row.unwrap_or_else(|| panic!("no {space:?} is named {name:?}")).number
    }
}
