//! A kind of room: what a plugin registered, checked once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tenure_shared::wire::{TableRow, table_hash};

use super::{Handlers, RoomBuilder, handlers::Stages, registry::Registry};

/// Builds a kind of room. Any `Fn(&mut RoomBuilder)` is one. It runs once for the kind and once for each room, and must register the
/// same things each time.
pub trait RoomPlugin: Send + Sync + 'static {
    /// Registers components, messages, systems and hooks.
    fn build(&self, room: &mut RoomBuilder);
}

impl<F: Fn(&mut RoomBuilder) + Send + Sync + 'static> RoomPlugin for F {
    fn build(&self, room: &mut RoomBuilder) {
        self(room);
    }
}

/// A kind of room, as registered and checked.
pub struct RoomKind {
    name: Arc<str>,
    plugin: Box<dyn RoomPlugin>,
    pub(super) options: Options,
    registry: Registry,
    table: Arc<Vec<TableRow>>,
    hash: u64,
    jobs: BTreeSet<Arc<str>>,
    charges: BTreeSet<Arc<str>>,
    reward_hooks: BTreeSet<Arc<str>>,
}

/// Numbers and switches of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) tick_rate: u32,
    pub(crate) max_seats: u32,
    pub(crate) grace: Option<Duration>,
    pub(crate) dispose_after: Option<Duration>,
    pub(crate) private: bool,
    pub(crate) auto_dispose: bool,
}

impl RoomKind {
    /// Runs the plugin and checks what it registered.
    ///
    /// # Errors
    /// All faults of the registration at once.
    pub fn new(name: &str, plugin: impl RoomPlugin) -> Result<Arc<Self>, Vec<String>> {
        let mut room = RoomBuilder::new();
        plugin.build(&mut room);
        let (options, mut registry, (handlers, _), mut faults) = room.finish();
        faults.extend(super::names::fault("kind of room", name));
        if !faults.is_empty() {
            return Err(faults.into_iter().map(|fault| format!("room kind {name:?}: {fault}")).collect());
        }
        registry.number();
        let table = Arc::new(registry.table());
        Ok(Arc::new(Self {
            name: name.into(),
            plugin: Box::new(plugin),
            options,
            registry,
            hash: table_hash(&table),
            table,
            jobs: handlers.work.keys().cloned().collect(),
            charges: handlers.charges.keys().cloned().collect(),
            reward_hooks: handlers.rewards.keys().cloned().collect(),
        }))
    }

    /// Systems for one room; `None` if the plugin registers something else than it did at first.
    pub(crate) fn handlers(&self) -> Option<(Handlers, Stages)> {
        let mut room = RoomBuilder::new();
        self.plugin.build(&mut room);
        let (options, mut registry, handlers, faults) = room.finish();
        registry.number();
        let same = faults.is_empty()
            && options == self.options
            && registry.filter == self.registry.filter
            && registry.table() == *self.table;
        same.then_some(handlers)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Its name: the first part of its rooms' ids.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ticks per second.
    pub fn tick_rate(&self) -> u32 {
        self.options.tick_rate
    }

    /// Most seats.
    pub fn max_seats(&self) -> u32 {
        self.options.max_seats
    }

    /// How long a seat outlives its socket, if the kind says so.
    pub fn reconnect_grace(&self) -> Option<Duration> {
        self.options.grace
    }

    /// How long its dormant rooms are kept, if the kind says so.
    pub fn dispose_after(&self) -> Option<Duration> {
        self.options.dispose_after
    }

    /// Whether its rooms are hidden from `join_or_create` without a name.
    pub fn private(&self) -> bool {
        self.options.private
    }

    /// Keys that a filter of a client may name.
    pub fn filter_keys(&self) -> &[Arc<str>] {
        &self.registry.filter
    }

    /// Whether its empty rooms are unloaded and later deleted.
    pub fn auto_dispose(&self) -> bool {
        self.options.auto_dispose
    }

    /// The name table.
    pub fn table(&self) -> &Arc<Vec<TableRow>> {
        &self.table
    }

    /// Hash of the name table.
    pub fn table_hash(&self) -> u64 {
        self.hash
    }

    /// Names of registered durable jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.iter().map(AsRef::as_ref)
    }

    /// Whether there is a handler for charges of this source.
    pub(crate) fn has_charge(&self, source: &str) -> bool {
        self.charges.contains(source)
    }

    /// Whether there is a handler for this job of game code.
    pub(crate) fn has_job(&self, job: &str) -> bool {
        self.jobs.contains(job)
    }

    /// Ids of schedules that have a hook here.
    pub fn reward_hooks(&self) -> impl Iterator<Item = &str> {
        self.reward_hooks.iter().map(AsRef::as_ref)
    }
}

impl std::fmt::Debug for RoomKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoomKind({})", self.name)
    }
}
