//! Local timers: data in the world. They run on room time and travel in the checkpoint.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bevy_ecs::{
    change_detection::{Res, ResMut},
    resource::Resource,
    system::SystemParam,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::TickNow;
use crate::plugin::values::{Faults, bounded};

/// Most bytes that a timer carries.
const PAYLOAD_BYTES: usize = 1_024;

/// A timer that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimerEntry {
    /// Room time, nanoseconds.
    pub(crate) due: u64,
    /// Nanoseconds; set for `every`.
    pub(crate) period: Option<u64>,
    /// Grows each time a timer is set: a fire of an older one is dropped.
    pub(crate) generation: u64,
    pub(crate) payload: Bytes,
}

/// All timers of a room.
#[derive(Resource, Debug, Default)]
pub(crate) struct TimerBook {
    pub(crate) entries: BTreeMap<(Arc<str>, u64), TimerEntry>,
    pub(crate) generation: u64,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) limit: usize,
    /// Timers of a name that this build does not know: they wait for one that does, as they are.
    pub(crate) carried: Vec<(Arc<str>, u64, TimerEntry)>,
    /// No timer is due before this room time: most ticks look at nothing else.
    pub(crate) earliest: u64,
    /// Fires of an older generation that were dropped.
    pub(crate) stale: u64,
    pub(crate) faults: Faults,
}

impl TimerBook {
    fn set(&mut self, name: &str, key: u64, due: u64, period: Option<u64>, payload: Result<Vec<u8>, String>) {
        let Some(name) = self.names.iter().find(|known| ***known == *name).cloned() else {
            self.faults.push(format!("timer {name:?} is not registered"));
            return;
        };
        let payload = match payload {
            Ok(payload) => payload.into(),
            Err(e) => return self.faults.push(format!("timer {name:?}: {e}")),
        };
        if self.entries.len() + self.carried.len() >= self.limit && !self.entries.contains_key(&(name.clone(), key)) {
            self.faults.push(format!("timer {name:?} {key} was not set: the room has {} already", self.limit));
            return;
        }
        self.generation += 1;
        self.earliest = self.earliest.min(due);
        self.entries.insert((name, key), TimerEntry { due, period, generation: self.generation, payload });
    }

    /// Timers due at `now`, by due time.
    pub(crate) fn due(&mut self, now: u64) -> Vec<((Arc<str>, u64), u64)> {
        if now < self.earliest {
            return Vec::new();
        }
        self.earliest = self.entries.values().map(|t| t.due).filter(|due| *due > now).min().unwrap_or(u64::MAX);
        let mut due: Vec<_> = self.entries.iter().filter(|(_, t)| t.due <= now).collect();
        due.sort_by_key(|(_, t)| (t.due, t.generation));
        due.into_iter().map(|(id, t)| (id.clone(), t.generation)).collect()
    }

    /// Takes a fire, or re-arms it; `None` if the timer was cancelled or set anew since.
    pub(crate) fn fire(&mut self, id: &(Arc<str>, u64), generation: u64, now: u64) -> Option<TimerEntry> {
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.generation == generation) else {
            self.stale += 1;
            return None;
        };
        let fired = entry.clone();
        match entry.period {
            None => drop(self.entries.remove(id)),
            // On its own grid: a late fire does not shift the next, missed ones are not caught up.
            Some(period) => {
                let missed = now.saturating_sub(entry.due) / period.max(1);
                entry.due = entry.due.saturating_add(period.saturating_mul(missed + 1));
                self.earliest = self.earliest.min(entry.due);
            }
        }
        Some(fired)
    }
}

/// Sets and cancels local timers. A timer is named by a registered name and a number of the game's own (a seat's, say); setting it
/// again replaces it. They run while the room ticks: in a room that is dormant they stand still, until somebody comes or work is due. What goes
/// wrong (an unregistered name, too many timers, a payload over 1 KiB) is reported with the tick.
#[derive(SystemParam, Debug)]
pub struct Timers<'w> {
    book: ResMut<'w, TimerBook>,
    tick: Res<'w, TickNow>,
}

impl Timers<'_> {
    /// Fires once, after this much room time.
    pub fn after(&mut self, name: &str, key: u64, delay: Duration) {
        self.after_with(name, key, delay, &());
    }

    /// The same, carrying something.
    pub fn after_with<T: Serialize + ?Sized>(&mut self, name: &str, key: u64, delay: Duration, payload: &T) {
        let due = nanos(self.tick.0.now.saturating_add(delay));
        self.book.set(name, key, due, None, bounded("payload", payload, PAYLOAD_BYTES));
    }

    /// Fires again and again, first after one period; a period under a tick is a tick.
    pub fn every(&mut self, name: &str, key: u64, period: Duration) {
        let period = period.max(self.tick.0.dt);
        let due = nanos(self.tick.0.now.saturating_add(period));
        self.book.set(name, key, due, Some(nanos(period)), bounded("payload", &(), PAYLOAD_BYTES));
    }

    /// Cancels; whether it was set.
    pub fn cancel(&mut self, name: &str, key: u64) -> bool {
        self.book.entries.remove(&(Arc::from(name), key)).is_some()
    }

    /// How long until it fires, if it is set.
    pub fn remaining(&self, name: &str, key: u64) -> Option<Duration> {
        let entry = self.book.entries.get(&(Arc::from(name), key))?;
        Some(Duration::from_nanos(entry.due).saturating_sub(self.tick.0.now))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
