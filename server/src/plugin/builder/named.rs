//! What can be said about one registered name.

use std::{marker::PhantomData, sync::Arc};

use bevy_ecs::{
    system::{In, IntoSystem},
    world::EntityRef,
};
use serde::{Serialize, de::DeserializeOwned};

use super::RoomBuilder;
use crate::plugin::{
    Fired,
    messages::{self, RoomMessage},
    registry::{ComponentDef, Migration, Migrations, ResourceDef, Scope},
    values::{decode, encode},
};

fn migration<Old: DeserializeOwned, New: Serialize>(f: impl Fn(Old) -> New + Send + Sync + 'static) -> Migration {
    Arc::new(move |bytes| {
        let mut out = Vec::new();
        encode(&mut out, &f(decode(bytes)?))?;
        Ok(out)
    })
}

/// Says how a component is kept and who sees it.
#[derive(Debug)]
pub struct ComponentBuilder<'a, T> {
    room: &'a mut RoomBuilder,
    marker: PhantomData<fn() -> T>,
}

impl<'a, T> ComponentBuilder<'a, T> {
    pub(super) fn new(room: &'a mut RoomBuilder) -> Self {
        Self { room, marker: PhantomData }
    }

    fn with(self, change: impl FnOnce(&mut ComponentDef)) -> Self {
        if let Some(def) = self.room.registry.components.last_mut() {
            change(def);
        }
        self
    }

    /// Version of its form, from 1.
    pub fn version(self, version: u32) -> Self {
        self.with(|c| c.migrations.version = version)
    }

    /// How a stored value of version `from` becomes one of version `from + 1`.
    pub fn migrate_from<Old: DeserializeOwned, New: Serialize>(
        self,
        from: u32,
        f: impl Fn(Old) -> New + Send + Sync + 'static,
    ) -> Self {
        self.with(|c| insert(&mut c.migrations, from, migration(f)))
    }

    /// Stores the older version `version` for now, so that the build before this one, which a rollback brings back, can read it; `f`
    /// makes it of the present one. What `f` leaves out is lost at each move. The next deploy takes this line away.
    pub fn writes<Old: Serialize>(self, version: u32, f: impl Fn(T) -> Old + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned + 'static,
    {
        self.with(|c| c.migrations.writes = Some((version, migration(f))))
    }

    /// Every seat sees it.
    pub fn replicated(self) -> Self {
        self.with(|c| c.scope = c.scope.take().or(Some(Scope::All)))
    }

    /// Only the owner sees it: the seat whose entity it is on, or that [`OwnedBy`](crate::plugin::OwnedBy) names.
    pub fn to_owner(self) -> Self {
        self.with(|c| c.scope = Some(Scope::Owner))
    }

    /// Seats see it where the filter says so: `filter(the seat's entity, the entity)`. It is asked for every seat and entity in
    /// every tick.
    pub fn visible_by(self, filter: impl Fn(EntityRef<'_>, EntityRef<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|c| c.scope = Some(Scope::Filtered(Arc::new(filter))))
    }

    /// It is in the checkpoint.
    pub fn persisted(self) -> Self {
        self.with(|c| c.persisted = true)
    }

    /// Names of its fields for the name table, where serde cannot tell them.
    pub fn fields(self, names: &[&str]) -> Self {
        self.with(|c| c.fields = Some(names.iter().map(|n| (*n).to_owned()).collect()))
    }
}

fn insert(migrations: &mut Migrations, from: u32, migration: Migration) {
    migrations.from.insert(from, migration);
}

/// Says how a resource is kept and whether it is seen.
#[derive(Debug)]
pub struct ResourceBuilder<'a, T> {
    room: &'a mut RoomBuilder,
    marker: PhantomData<fn() -> T>,
}

impl<'a, T> ResourceBuilder<'a, T> {
    pub(super) fn new(room: &'a mut RoomBuilder) -> Self {
        Self { room, marker: PhantomData }
    }

    fn with(self, change: impl FnOnce(&mut ResourceDef)) -> Self {
        if let Some(def) = self.room.registry.resources.last_mut() {
            change(def);
        }
        self
    }

    /// Version of its form, from 1.
    pub fn version(self, version: u32) -> Self {
        self.with(|r| r.migrations.version = version)
    }

    /// How a stored value of version `from` becomes one of version `from + 1`.
    pub fn migrate_from<Old: DeserializeOwned, New: Serialize>(
        self,
        from: u32,
        f: impl Fn(Old) -> New + Send + Sync + 'static,
    ) -> Self {
        self.with(|r| insert(&mut r.migrations, from, migration(f)))
    }

    /// Stores the older version `version` for now, so that the build before this one, which a rollback brings back, can read it; `f`
    /// makes it of the present one. What `f` leaves out is lost at each move. The next deploy takes this line away.
    pub fn writes<Old: Serialize>(self, version: u32, f: impl Fn(T) -> Old + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned + 'static,
    {
        self.with(|r| r.migrations.writes = Some((version, migration(f))))
    }

    /// Every seat sees it.
    pub fn replicated(self) -> Self {
        self.with(|r| r.replicated = true)
    }

    /// It is in the checkpoint.
    pub fn persisted(self) -> Self {
        self.with(|r| r.persisted = true)
    }

    /// Names of its fields for the name table, where serde cannot tell them.
    pub fn fields(self, names: &[&str]) -> Self {
        self.with(|r| r.fields = Some(names.iter().map(|n| (*n).to_owned()).collect()))
    }
}

/// Says what of a message counts.
#[derive(Debug)]
pub struct MessageBuilder<'a, T> {
    room: &'a mut RoomBuilder,
    marker: PhantomData<fn() -> T>,
}

impl<'a, T: RoomMessage> MessageBuilder<'a, T> {
    pub(super) fn new(room: &'a mut RoomBuilder) -> Self {
        Self { room, marker: PhantomData }
    }

    /// Of several from one seat in a tick only the newest is in the inbox.
    pub fn latest(self) -> Self {
        if let Some((_, erased)) = self.room.registry.messages.last_mut() {
            *erased = Arc::new(messages::Typed::<T> { latest: true, marker: PhantomData });
        }
        self
    }

    /// Version of its form, for clients; from 1.
    pub fn version(self, version: u32) -> Self {
        if let Some((def, _)) = self.room.registry.messages.last_mut() {
            def.version = version;
        }
        self
    }
}

/// Says when a timer's handler runs.
#[derive(Debug)]
pub struct TimerBuilder<'a> {
    room: &'a mut RoomBuilder,
    name: Arc<str>,
}

impl<'a> TimerBuilder<'a> {
    pub(super) fn new(room: &'a mut RoomBuilder, name: Arc<str>) -> Self {
        Self { room, name }
    }

    /// Asked at the fire: the handler runs only if it says yes ("if still gone since T").
    pub fn guard<M>(self, guard: impl IntoSystem<In<Fired>, bool, M>) -> Self {
        if let Some(timer) = self.room.handlers.timers.get_mut(&self.name) {
            timer.guard = Some(Box::new(IntoSystem::into_system(guard)));
        }
        self
    }
}
