//! Which items of schedules a room should have, pure: what to schedule and what to take back at load, and what follows a completion.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use tenure_shared::RoomId;

use crate::{
    plugin::Audience,
    runtime::Wall,
    store::{WorkId, WorkItem},
    timers::{RewardBook, Schedule},
};

/// The job of a schedule's items.
const PREFIX: &str = "schedule/";

/// The occurrences of a room's schedules that are pending in the store.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    // By schedule and scheduled_for: when it is due.
    pending: BTreeMap<(Arc<str>, Wall), Wall>,
    // Last told to the world.
    told: BTreeMap<Arc<str>, Option<Wall>>,
}

/// What the store must be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) scheduled: Vec<WorkItem>,
    pub(super) cancelled: Vec<WorkId>,
    /// Missed occurrences that are not run.
    pub(super) dropped: u64,
}

/// The schedule and the occurrence of an item, if it is one of a schedule.
pub(super) fn occurrence(id: &WorkId) -> Option<(&str, Wall)> {
    Some((id.job.strip_prefix(PREFIX)?, Wall(id.key.parse().ok()?)))
}

/// The first id that an item of a schedule of this room can have.
pub(super) fn first_id(room: &RoomId) -> WorkId {
    WorkId { room: room.clone(), job: "".into(), key: "".into() }
}

fn item(schedule: &Schedule, room: &RoomId, scheduled_for: Wall) -> WorkItem {
    let id = WorkId { room: room.clone(), job: schedule.job().into(), key: scheduled_for.0.to_string().into() };
    WorkItem { id, due: schedule.due(scheduled_for, room), attempt: 0, parked: None, payload: Bytes::new() }
}

impl Occurrences {
    /// Compares what is stored with what the book wants, at load or when a room stays after all. Pending occurrences are never shifted;
    /// what is overdue follows the schedule's catch-up rule; a decision that has begun is finished; what no schedule wants is taken back.
    pub(super) fn reconcile(&mut self, book: &RewardBook, room: &RoomId, stored: &[WorkItem], now: Wall) -> Change {
        let mut change = Change::default();
        let mut have: BTreeMap<&str, Vec<(Wall, &WorkItem)>> = BTreeMap::new();
        for stored in stored.iter().filter(|item| item.parked.is_none()) {
            if let Some((id, at)) = occurrence(&stored.id) {
                have.entry(id).or_default().push((at, stored));
            }
        }
        self.pending.clear();
        for schedule in book.for_room(room) {
            let now = schedule.undelayed(now, room);
            let have = have.remove(schedule.id().as_ref()).unwrap_or_default();
            let first = have.iter().map(|(at, _)| *at).min();
            let decided = match first {
                Some(first) if first <= now => schedule.catch_up_pending(first, now),
                _ => schedule.catch_up(now, now),
            };
            change.dropped += decided.dropped;
            let wanted: Vec<Wall> = decided.run.into_iter().chain(decided.next).collect();
            for (at, stored) in &have {
                if wanted.contains(at) || !stored.payload.is_empty() {
                    self.pending.insert((schedule.id().clone(), *at), stored.due);
                } else {
                    change.cancelled.push(stored.id.clone());
                }
            }
            // A parked occurrence waits for a person.
            let parked = |at: &Wall| {
                stored.iter().any(|s| s.parked.is_some() && occurrence(&s.id) == Some((&**schedule.id(), *at)))
            };
            for at in wanted.into_iter().filter(|at| !parked(at)) {
                self.add(schedule, room, at, &mut change);
            }
        }
        change.cancelled.extend(have.into_values().flatten().map(|(_, item)| item.id.clone()));
        change
    }

    /// An occurrence is done, or parked: what follows it, computed from its own time and never from now.
    pub(super) fn done(&mut self, book: &RewardBook, id: &WorkId, now: Wall) -> Change {
        let mut change = Change::default();
        let Some((schedule, at)) = occurrence(id) else { return change };
        self.pending.remove(&(schedule.into(), at));
        let Some(schedule) = book.for_room(&id.room).find(|s| s.id().as_ref() == schedule) else {
            return change;
        };
        // With one at hand already (a catch-up of several), nothing new is decided until the last of them.
        let waiting = self.pending.range((schedule.id().clone(), Wall(0))..).next();
        if waiting.is_some_and(|((id, _), _)| id == schedule.id()) {
            return change;
        }
        let decided = schedule.catch_up(at, schedule.undelayed(now, &id.room));
        change.dropped = decided.dropped;
        for at in decided.run.into_iter().chain(decided.next) {
            self.add(schedule, &id.room, at, &mut change);
        }
        change
    }

    /// A handler failed: the occurrence is due later.
    pub(super) fn put_off(&mut self, id: &WorkId, due: Wall) {
        if let Some((schedule, at)) = occurrence(id)
            && let Some(old) = self.pending.get_mut(&(schedule.into(), at))
        {
            *old = due;
        }
    }

    /// The room becomes dormant: occurrences that could have no effect there are taken back.
    pub(super) fn leave(&mut self, book: &RewardBook, room: &RoomId) -> Vec<WorkId> {
        let mut cancelled = Vec::new();
        for schedule in book.for_room(room).filter(|s| s.audience() == Audience::Present) {
            self.pending.retain(|(id, at), _| {
                let stays = id != schedule.id();
                if !stays {
                    cancelled.push(item(schedule, room, *at).id);
                }
                stays
            });
        }
        cancelled
    }

    /// Whether the room has this item pending; items of other kinds are always known.
    pub(super) fn knows(&self, id: &WorkId) -> bool {
        occurrence(id).is_none_or(|(schedule, at)| self.pending.contains_key(&(schedule.into(), at)))
    }

    /// Next due time per schedule, for the world: changes since the last call only.
    pub(super) fn news(&mut self) -> Vec<(Arc<str>, Option<Wall>)> {
        let mut next: BTreeMap<Arc<str>, Option<Wall>> = self.told.keys().map(|id| (id.clone(), None)).collect();
        for ((id, _), due) in &self.pending {
            let slot = next.entry(id.clone()).or_default();
            *slot = Some(slot.map_or(*due, |old| old.min(*due)));
        }
        let news = next.iter().filter(|(id, due)| self.told.get(*id) != Some(*due));
        let news: Vec<_> = news.map(|(id, due)| (id.clone(), *due)).collect();
        self.told = next;
        news
    }

    /// The world is a new one: it is told everything again.
    pub(super) fn tell_again(&mut self) {
        self.told.clear();
    }

    fn add(&mut self, schedule: &Schedule, room: &RoomId, at: Wall, change: &mut Change) {
        let key = (schedule.id().clone(), at);
        if !self.pending.contains_key(&key) {
            let item = item(schedule, room, at);
            self.pending.insert(key, item.due);
            change.scheduled.push(item);
        }
    }
}
