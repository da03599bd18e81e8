//! A kind of room: what a plugin registered, checked once.

use std::{sync::Arc, time::Duration};

use tenure_shared::wire::TableRow;

/// Builds a kind of room. Any `Fn(&mut RoomBuilder)` is one. It runs once per room and must register the same things each time.
pub trait RoomPlugin: Send + Sync + 'static {
    /// Registers components, messages, systems and hooks.
    fn build(&self, room: &mut RoomBuilder);
}

impl<F: Fn(&mut RoomBuilder) + Send + Sync + 'static> RoomPlugin for F {
    fn build(&self, room: &mut RoomBuilder) {
        self(room);
    }
}

/// What a plugin registers with.
#[derive(Debug)]
pub struct RoomBuilder {
    tick_rate: u32,
    max_seats: u32,
}

/// A kind of room, as registered and checked.
pub struct RoomKind {
    name: Arc<str>,
    tick_rate: u32,
    max_seats: u32,
    grace: Option<Duration>,
    table: Arc<Vec<TableRow>>,
    hash: u64,
}

impl RoomKind {
    /// Runs the plugin and checks what it registered.
    ///
    /// # Errors
    /// All faults of the registration at once.
    pub fn new(name: &str, plugin: impl RoomPlugin) -> Result<Arc<Self>, Vec<String>> {
        let mut room = RoomBuilder { tick_rate: 20, max_seats: 50 };
        plugin.build(&mut room);
        let table = Arc::new(Vec::new());
        let hash = tenure_shared::wire::table_hash(&table);
        let (tick_rate, max_seats) = (room.tick_rate, room.max_seats);
        Ok(Arc::new(Self { name: name.into(), tick_rate, max_seats, grace: None, table, hash }))
    }

    /// Its name: the first part of its rooms' ids.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ticks per second.
    pub fn tick_rate(&self) -> u32 {
        self.tick_rate
    }

    /// Most seats.
    pub fn max_seats(&self) -> u32 {
        self.max_seats
    }

    /// How long a seat outlives its socket, if the kind says so.
    pub fn reconnect_grace(&self) -> Option<Duration> {
        self.grace
    }

    /// Whether its rooms are hidden from `join_or_create` without a name.
    pub fn private(&self) -> bool {
        false
    }

    /// Whether its empty rooms are unloaded and later deleted.
    pub fn auto_dispose(&self) -> bool {
        true
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
        std::iter::empty()
    }

    /// Ids of schedules that have a hook here.
    pub fn reward_hooks(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }
}
