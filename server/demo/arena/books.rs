//! Drill rooms keep books of what they paid, in their world: a load test compares them with the work that the store has as completed
//! (H6). Where they differ, an effect and its completion were not one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

/// Schedules whose occurrences are counted.
const COUNTED: [&str; 7] = ["steady", "capped", "recent", "renamed", "everyone", "open", "shut"];
/// While this one is in the file, something is planted each second.
const SEASON: &str = "steady";
/// Time between two plantings, and from one to its harvest.
const PLANT: Duration = Duration::from_secs(1);
const RIPE: Duration = Duration::from_secs(2);
/// Of so many crops one is not ripe at the first attempt.
const UNRIPE: u64 = 5;

/// By the room's own count.
#[derive(Resource, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Books {
    /// Occurrences of schedules decided, and the sum of the instants at which they were due, ms.
    occurrences: u64,
    due: u64,
    /// Crops planted and harvested, and the sum of the harvested numbers.
    planted: u64,
    harvested: u64,
    numbers: u64,
}

/// From the room, to everybody, each second: occurrences, their sum, harvests, their sum.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Shown(u64, u64, u64, u64);

/// Registers them.
pub(crate) fn keep(room: &mut RoomBuilder) {
    room.resource::<Books>("books").persisted();
    room.event::<Shown>("books");
    room.timer("plant", plant);
    room.work("crop", harvest);
    for schedule in COUNTED {
        room.reward(schedule, count);
    }
    room.startup(|mut timers: Timers| timers.every("plant", 0, PLANT));
}

fn count(In(due): In<RewardDue>, mut books: ResMut<Books>) -> Vec<Recipient> {
    if due.first {
        books.occurrences += 1;
        books.due += due.scheduled_for.millis();
    }
    due.recipients
}

fn plant(In(_): In<Fired>, mut books: ResMut<Books>, schedules: Schedules, mut due: Due, mut out: Out) {
    out.all(&Shown(books.occurrences, books.due, books.harvested, books.numbers));
    if schedules.next(SEASON).is_some() {
        books.planted += 1;
        due.schedule_in("crop", &books.planted.to_string(), RIPE, &books.planted);
    }
}

fn harvest(In(crop): In<Work<u64>>, mut books: ResMut<Books>, mut grants: Grants, seats: Seats) -> Result<(), Refuse> {
    if crop.attempt == 0 && crop.body % UNRIPE == 0 {
        return Err("it is not ripe yet".into());
    }
    books.harvested += 1;
    books.numbers += crop.body;
    if let Some((_, seat)) = seats.connected().next() {
        grants.give(seat.player(), "crop", &[("corn", 1)]);
    }
    Ok(())
}
