//! Where and when: the tick, the room's name, its switches.

use std::{ops::Deref, sync::Arc, time::Duration};

use bevy_ecs::{
    change_detection::{Res, ResMut},
    resource::Resource,
    system::SystemParam,
};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::{Filter, RoomId, Scalar, limits};

use super::metadata;
use crate::{
    plugin::{Refuse, values},
    runtime::Wall,
};

/// The running tick, as the framework keeps it: game code has no resource that it could overwrite.
#[derive(Resource, Clone, Copy, Debug)]
pub(crate) struct TickNow(pub(crate) TickState);

/// The running tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    state: Res<'w, TickNow>,
}

impl Deref for Tick<'_> {
    type Target = TickState;
    fn deref(&self) -> &TickState {
        &self.state.0
    }
}

/// Which room this is.
#[derive(Resource, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoomInfoState {
    /// Its id, `kind/region/name`.
    pub(crate) id: RoomId,
    /// Name of the node that it runs at.
    pub(crate) node: Arc<str>,
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
    /// What others see of the room has changed, and was not told yet.
    pub(crate) switched: bool,
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
        if self.state.locked != locked {
            (self.state.locked, self.state.switched) = (locked, true);
        }
    }

    /// Whether `join_or_create` and lists of rooms do not find it.
    pub fn private(&self) -> bool {
        self.state.private
    }

    /// Hides the room from `join_or_create` and lists of rooms, or shows it. Who knows its id may join all the same.
    pub fn set_private(&mut self, private: bool) {
        if self.state.private != private {
            (self.state.private, self.state.switched) = (private, true);
        }
    }

    /// Describes the room for lists and filters: each field of `fields` (a struct or a map with text keys) takes the place of the one of
    /// that name, the others stay. At most 1 KiB in all; filters compare texts up to 64 bytes, whole numbers, booleans and nil.
    ///
    /// # Errors
    /// When it is longer, or no struct or map; then nothing changes.
    pub fn set_metadata<T: Serialize + ?Sized>(&mut self, fields: &T) -> Result<(), Refuse> {
        let mut more = Vec::new();
        values::encode_named(&mut more, fields).map_err(Refuse::new)?;
        let merged = metadata::merged(&self.state.metadata, &more).map_err(Refuse::new)?;
        if merged.len() > limits::METADATA_BYTES {
            let (found, most) = (merged.len(), limits::METADATA_BYTES);
            return Err(Refuse::new(format!("metadata has {found} bytes; at most {most}")));
        }
        if merged != self.state.metadata {
            (self.state.metadata, self.state.switched) = (merged.into(), true);
        }
        Ok(())
    }

    /// The metadata as a struct of the game; `None` if a field of it is missing or of another type.
    pub fn metadata<T: DeserializeOwned>(&self) -> Option<T> {
        values::decode(&self.state.metadata).ok()
    }

    /// One value of the metadata that filters can compare. A room that a `join_or_create` or `create` with a filter made begins with the
    /// filter's, also in `startup`.
    pub fn metadata_value(&self, key: &str) -> Option<Scalar> {
        Filter::of_metadata(&self.state.metadata).get(key).cloned()
    }

    /// Ends the room: its tick goes on until what it granted and charged is told, then its sockets are closed with 4012 and the stored
    /// room is deleted. `on_leave` does not run.
    pub fn dispose(&mut self) {
        self.state.dispose = true;
    }
}
