//! Which forms of stored values a build writes and which it reads: what two nodes compare before a room goes from one to the other.

use std::{collections::BTreeMap, fmt};

use super::{RoomKind, registry::Migrations};

/// Versions by what they are of: `component coin`, `resource arena`.
pub type Versions = BTreeMap<String, u32>;

/// A name whose stored form a build cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableName {
    /// `component coin` or `resource arena`.
    pub name: String,
    /// The version that is stored.
    pub stored: u32,
    /// The oldest and the newest version that this build reads.
    pub reads: (u32, u32),
}

/// A build cannot read what another one writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    /// The kind of room.
    pub kind: String,
    /// Each of the names, in order; at least one.
    pub names: Vec<UnreadableName>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rooms of kind {:?} cannot be read by this build:", self.kind)?;
        for (at, name) in self.names.iter().enumerate() {
            let (oldest, newest) = name.reads;
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma} {} has version {}, read are {oldest} to {newest}", name.name, name.stored)?;
        }
        Ok(())
    }
}

impl RoomKind {
    fn stored(&self) -> impl Iterator<Item = (String, &Migrations)> {
        let registry = self.registry();
        let components = registry.components.iter().filter(|c| c.persisted);
        let resources = registry.resources.iter().filter(|r| r.persisted);
        components
            .map(|c| (format!("component {}", c.name), &c.migrations))
            .chain(resources.map(|r| (format!("resource {}", r.name), &r.migrations)))
    }

    /// What this build stores, and in which version.
    pub fn versions(&self) -> Versions {
        self.stored().map(|(name, migrations)| (name, migrations.written())).collect()
    }

    /// Whether this build reads rooms that were stored in these versions. Names that it does not know are no fault: their values are
    /// carried along.
    ///
    /// # Errors
    /// All names whose version is too new or too old.
    pub fn reads(&self, versions: &Versions) -> Result<(), Unreadable> {
        // A name may be registered without being persisted: a stored value of it is read all the same.
        let registry = self.registry();
        let known = registry.components.iter().map(|c| (format!("component {}", c.name), &c.migrations));
        let known: BTreeMap<_, _> =
            known.chain(registry.resources.iter().map(|r| (format!("resource {}", r.name), &r.migrations))).collect();
        let names: Vec<_> = versions
            .iter()
            .filter_map(|(name, stored)| {
                let reads = known.get(name).map(|migrations| (migrations.oldest(), migrations.version))?;
                let unreadable = *stored < reads.0 || *stored > reads.1;
                unreadable.then(|| UnreadableName { name: name.clone(), stored: *stored, reads })
            })
            .collect();
        if names.is_empty() { Ok(()) } else { Err(Unreadable { kind: self.name().to_owned(), names }) }
    }
}
