//! Where and when: the tick, the room's name, its switches.

use std::{ops::Deref, sync::Arc, time::Duration};

use bevy_ecs::{
    change_detection::{Res, ResMut},
    resource::Resource,
    system::SystemParam,
};
use bytes::Bytes;
use tenure_shared::{RoomId, limits};

use crate::{plugin::Refuse, runtime::Wall};

/// The running tick.
#[derive(Resource, Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickState {
    /// Its number; it goes on after a move.
    pub n: u64,
    /// Length of a tick.
    pub dt: Duration,
    /// Room time: it stands still while the room does not tick.
    pub now: Duration,
    /// The store's clock, as far as known. For people and schedules; game logic counts in room time.
    pub wall: Wall,
}

impl TickState {
    /// Length of a tick, seconds.
    pub fn seconds(&self) -> f32 {
        self.dt.as_secs_f32()
    }

    /// The tick at which the wall clock reaches `at`, if the room ticks on until then; this one if that is past.
    pub fn tick_at(&self, at: Wall) -> u64 {
        let ahead = u128::from(at.0.saturating_sub(self.wall.0)) * 1_000;
        let ticks = ahead.div_ceil(self.dt.as_nanos().max(1));
        self.n.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

/// The running tick: `n`, `dt`, `now`, `wall`.
#[derive(SystemParam, Debug)]
pub struct Tick<'w> {
    state: Res<'w, TickState>,
}

impl Deref for Tick<'_> {
    type Target = TickState;
    fn deref(&self) -> &TickState {
        &self.state
    }
}

/// Which room this is.
#[derive(Resource, Clone, Debug, PartialEq, Eq)]
pub struct RoomInfoState {
    /// Its id, `kind/region/name`.
    pub id: RoomId,
    /// Name of the node that it runs at.
    pub node: Arc<str>,
}

/// Which room this is: `id`, `kind()`, `region()`, `name()`; and `node()`.
#[derive(SystemParam, Debug)]
pub struct RoomInfo<'w> {
    state: Res<'w, RoomInfoState>,
}

impl RoomInfo<'_> {
    /// The whole id.
    pub fn id(&self) -> &RoomId {
        &self.state.id
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.state.id.kind()
    }

    /// The region.
    pub fn region(&self) -> &str {
        self.state.id.region()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.state.id.name()
    }

    /// The node that the room runs at: to be shown to people, no more. It is another one after a move, which game code has no way to
    /// notice and no reason to (H12): decide nothing by it, and persist it nowhere. Empty in tests.
    pub fn node(&self) -> &str {
        &self.state.node
    }
}

/// A room's switches.
#[derive(Resource, Clone, Debug, Default)]
pub(crate) struct ControlState {
    pub(crate) locked: bool,
    pub(crate) private: bool,
    pub(crate) metadata: Bytes,
    pub(crate) dispose: bool,
}

/// Locks the room, hides it, describes it, ends it.
#[derive(SystemParam, Debug)]
pub struct RoomControl<'w> {
    state: ResMut<'w, ControlState>,
}

impl RoomControl<'_> {
    /// Whether new players are refused.
    pub fn locked(&self) -> bool {
        self.state.locked
    }

    /// Refuses or takes new players; those with a seat may come back all the same.
    pub fn set_locked(&mut self, locked: bool) {
        self.state.locked = locked;
    }

    /// Hides the room from `join_or_create`, or shows it.
    pub fn set_private(&mut self, private: bool) {
        self.state.private = private;
    }

    /// Text for lobbies, at most 1 KiB.
    ///
    /// # Errors
    /// When it is longer.
    pub fn set_metadata(&mut self, text: &str) -> Result<(), Refuse> {
        if text.len() > limits::METADATA_BYTES {
            return Err(Refuse::new(format!("metadata has {} bytes; at most {}", text.len(), limits::METADATA_BYTES)));
        }
        self.state.metadata = Bytes::copy_from_slice(text.as_bytes());
        Ok(())
    }

    /// Ends the room: its tick goes on until what it granted and charged is told, then its sockets are closed with 4012 and the stored
    /// room is deleted. `on_leave` does not run.
    pub fn dispose(&mut self) {
        self.state.dispose = true;
    }
}
