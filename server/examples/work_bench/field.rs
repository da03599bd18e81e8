//! The game: a room that counts what was harvested in it.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tenure::{plugin::RoomKind, prelude::*, runtime::Clock};
use tenure_shared::RoomId;

use crate::size;

/// The kind of the rooms.
pub(crate) const KIND: &str = "field";

/// How long after its due time each item was done, µs.
pub(crate) static LATE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// What was harvested.
#[derive(Resource, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Barn(u64);

fn field(room: &mut RoomBuilder) {
    room.tick_rate(20).max_seats(8);
    room.resource::<Barn>("barn").persisted();
    for job in ["far", "near", "bare", "fire"] {
        room.work::<u64, _>(job, harvest);
    }
}

fn harvest(In(crop): In<Work<u64>>, mut barn: ResMut<Barn>) -> Result<(), Refuse> {
    barn.0 += crop.body;
    if let Ok(mut late) = LATE.lock() {
        late.push(Clock::system().wall().0.saturating_sub(crop.due.0));
    }
    Ok(())
}

/// The game as a host wants it.
pub(crate) fn kind() -> anyhow::Result<Arc<RoomKind>> {
    RoomKind::new(KIND, field).map_err(|faults| anyhow::anyhow!("{}", faults.join("; ")))
}

/// All rooms.
pub(crate) fn rooms() -> impl Iterator<Item = Result<RoomId, tenure_shared::IdError>> {
    (0..size().0).map(|nth| RoomId::from_parts(KIND, "eu", &format!("r{nth}")))
}
