//! What a plugin registered: names, versions, and erased access to the types behind them.

use std::{any::TypeId, collections::BTreeMap, sync::Arc};

use bevy_ecs::world::EntityRef;
use tenure_shared::wire::{Space, TableRow};

use super::{component::ErasedComponent, messages::ErasedMessage, resource::ErasedResource};

/// Bytes of an older version to bytes of the next.
pub(crate) type Migration = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// A filter: may this seat (first) see that entity (second)?
pub(crate) type Filter = Arc<dyn Fn(EntityRef<'_>, EntityRef<'_>) -> bool + Send + Sync>;

/// Who sees a replicated component.
#[derive(Clone)]
pub(crate) enum Scope {
    All,
    Owner,
    Filtered(Filter),
}

/// Version and the way up to it.
#[derive(Clone)]
pub(crate) struct Migrations {
    pub(crate) version: u32,
    pub(crate) from: BTreeMap<u32, Migration>,
    /// An older version that is written for now, and the way down to it.
    pub(crate) writes: Option<(u32, Migration)>,
}

impl Migrations {
    pub(crate) fn first() -> Self {
        Self { version: 1, from: BTreeMap::new(), writes: None }
    }

    /// The version of what this build stores.
    pub(crate) fn written(&self) -> u32 {
        self.writes.as_ref().map_or(self.version, |(version, _)| *version)
    }

    /// The oldest version that this build reads.
    pub(crate) fn oldest(&self) -> u32 {
        self.from.keys().next().copied().unwrap_or(self.version)
    }

    /// Brings a value of this version down to the one that is written; as it is where they are the same.
    pub(crate) fn lower(&self, value: Vec<u8>) -> Result<Vec<u8>, String> {
        match &self.writes {
            Some((_, down)) => down(&value),
            None => Ok(value),
        }
    }

    pub(crate) fn faults(&self, what: &str, name: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if self.version == 0 {
            faults.push(format!("{what} {name:?}: versions count from 1"));
        }
        let oldest = self.from.keys().next().copied().unwrap_or(1);
        for from in oldest..self.version {
            if !self.from.contains_key(&from) {
                faults.push(format!(
                    "{what} {name:?} has version {}, but no migration from version {from}: add .migrate_from({from}, …)",
                    self.version
                ));
            }
        }
        if let Some(from) = self.from.keys().find(|from| **from >= self.version) {
            faults.push(format!("{what} {name:?} has version {}, but a migration from {from}", self.version));
        }
        // What it writes it must read again, at the next move at the latest.
        if let Some((writes, _)) = &self.writes
            && (*writes >= self.version || !self.from.contains_key(writes))
        {
            faults.push(format!(
                "{what} {name:?} has version {}, but writes {writes}: that must be an older one with .migrate_from({writes}, …)",
                self.version
            ));
        }
        faults
    }

    /// Brings a stored value up to this version; `None` if there is nothing to do.
    pub(crate) fn apply(&self, stored: u32, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut value = None;
        for from in stored..self.version {
            let Some(migration) = self.from.get(&from) else {
                return Err(format!("no migration from version {from}"));
            };
            value = Some(migration(value.as_deref().unwrap_or(bytes))?);
        }
        Ok(value)
    }
}

/// A registered component.
#[derive(Clone)]
pub(crate) struct ComponentDef {
    pub(crate) name: Arc<str>,
    pub(crate) type_id: TypeId,
    pub(crate) migrations: Migrations,
    pub(crate) scope: Option<Scope>,
    pub(crate) persisted: bool,
    pub(crate) fields: Option<Vec<String>>,
    /// Number on the wire, if replicated.
    pub(crate) number: u16,
    pub(crate) erased: Arc<dyn ErasedComponent>,
}

/// A registered resource.
#[derive(Clone)]
pub(crate) struct ResourceDef {
    pub(crate) name: Arc<str>,
    pub(crate) type_id: TypeId,
    pub(crate) migrations: Migrations,
    pub(crate) replicated: bool,
    pub(crate) persisted: bool,
    pub(crate) fields: Option<Vec<String>>,
    /// Number on the wire, if replicated.
    pub(crate) number: u16,
    pub(crate) erased: Arc<dyn ErasedResource>,
}

/// A message to the room, a request or a message from the room.
#[derive(Clone)]
pub(crate) struct MessageDef {
    pub(crate) name: Arc<str>,
    pub(crate) type_id: TypeId,
    pub(crate) version: u32,
    pub(crate) fields: Option<Vec<String>>,
}

/// Most replicated components of a kind: what a seat knows of an entity is a bit set.
pub(crate) const MAX_REPLICATED: usize = 128;

/// Everything with a name.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// Keys that filters of clients may name.
    pub(crate) filter: Vec<Arc<str>>,
    pub(crate) components: Vec<ComponentDef>,
    pub(crate) resources: Vec<ResourceDef>,
    pub(crate) messages: Vec<(MessageDef, Arc<dyn ErasedMessage>)>,
    pub(crate) requests: Vec<MessageDef>,
    pub(crate) events: Vec<MessageDef>,
}

impl Registry {
    /// Gives numbers to what goes on the wire, in the order of registration.
    pub(crate) fn number(&mut self) {
        let replicated = self.components.iter_mut().filter(|c| c.scope.is_some());
        replicated.zip(0..).for_each(|(c, n)| c.number = n);
        self.resources.iter_mut().filter(|r| r.replicated).zip(0..).for_each(|(r, n)| r.number = n);
    }

    pub(crate) fn table(&self) -> Vec<TableRow> {
        let row = |space, number, name: &str, version, fields: &Option<Vec<String>>| TableRow {
            space,
            number,
            name: name.to_owned(),
            version,
            fields: fields.clone(),
        };
        let mut rows = Vec::new();
        for c in self.components.iter().filter(|c| c.scope.is_some()) {
            rows.push(row(Space::Component, c.number, &c.name, c.migrations.version, &c.fields));
        }
        for r in self.resources.iter().filter(|r| r.replicated) {
            rows.push(row(Space::Resource, r.number, &r.name, r.migrations.version, &r.fields));
        }
        let lists = [
            (Space::Message, self.messages.iter().map(|(m, _)| m).collect::<Vec<_>>()),
            (Space::Request, self.requests.iter().collect()),
            (Space::Event, self.events.iter().collect()),
        ];
        for (space, list) in lists {
            for (number, m) in (0..).zip(list) {
                rows.push(row(space, number, &m.name, m.version, &m.fields));
            }
        }
        rows
    }
}
