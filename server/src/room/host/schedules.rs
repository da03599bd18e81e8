//! Which items of schedules a room should have, pure: what to schedule and what to take back at load, and what follows a completion.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use bytes::Bytes;
use tenure_shared::RoomId;

use crate::{
    plugin::Audience,
    room::world::Remember,
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
    // The latest occurrence done, by schedule: none up to it is decided again.
    done: BTreeMap<Arc<str>, Wall>,
    // Last told to the world, and whether anything moved since.
    told: BTreeMap<Arc<str>, Option<Wall>>,
    moved: bool,
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

/// Whom a room must remember for its schedules.
pub(super) fn remembered(book: &RewardBook, room: &RoomId) -> Remember {
    let of = |schedule: &Arc<Schedule>| match schedule.audience() {
        Audience::Present => Remember::Newest,
        Audience::Active(within) => Remember::Within(within),
        Audience::AllKnown => Remember::Everybody,
    };
    book.for_room(room).map(of).fold(Remember::Newest, Remember::and)
}

/// The first id that an item of a schedule of this room can have.
pub(super) fn first_id(room: &RoomId) -> WorkId {
    WorkId { room: room.clone(), job: "".into(), key: "".into() }
}

/// The item of an occurrence.
fn id_of(room: &RoomId, schedule: &str, scheduled_for: Wall) -> WorkId {
    WorkId { room: room.clone(), job: format!("{PREFIX}{schedule}").into(), key: scheduled_for.0.to_string().into() }
}

/// An occurrence that is pending in the store.
struct Have {
    at: Wall,
    due: Wall,
    /// It is finished, whatever its schedule says now.
    begun: bool,
}

fn item(schedule: &Schedule, room: &RoomId, scheduled_for: Wall) -> WorkItem {
    let id = id_of(room, schedule.id(), scheduled_for);
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
        // Some of them may be of a world that is gone.
        self.done.clear();
        self.moved = true;
        for schedule in book.for_room(room) {
            let have = have.remove(schedule.id().as_ref()).unwrap_or_default();
            // One whose handler failed, or that a person made due again, is tried until it is done or parked.
            let begun = |at: Wall, stored: &WorkItem| {
                let moved = stored.due <= now && stored.due != schedule.due(at, room);
                !stored.payload.is_empty() || stored.attempt > 0 || moved
            };
            let have = have.iter().map(|(at, item)| Have { at: *at, due: item.due, begun: begun(*at, item) }).collect();
            // A parked occurrence waits for a person.
            let parked = |at: &Wall| {
                stored.iter().any(|s| s.parked.is_some() && occurrence(&s.id) == Some((&**schedule.id(), *at)))
            };
            self.settle(schedule, room, have, parked, now, &mut change);
        }
        change.cancelled.extend(have.into_values().flatten().map(|(_, item)| item.id.clone()));
        change
    }

    /// The book of a loaded room is another one from now on. What means the same in both is untouched: not a word of it to the store. A
    /// changed schedule follows the same rule as at load; of one that is gone everything is taken back but what is begun. `in_hand` knows the
    /// items that the room has been given, or has paid a page of: they are begun.
    pub(super) fn follow(
        &mut self,
        [old, new]: [&RewardBook; 2],
        room: &RoomId,
        in_hand: impl Fn(&WorkId) -> bool,
        now: Wall,
    ) -> Change {
        let mut change = Change::default();
        self.moved = true;
        let gone: Vec<(Arc<str>, Wall)> = {
            let stays: BTreeSet<&Arc<str>> = new.for_room(room).map(|schedule| schedule.id()).collect();
            self.pending.keys().filter(|(id, _)| !stays.contains(id)).cloned().collect()
        };
        for key in gone {
            let id = id_of(room, &key.0, key.1);
            // One that is begun is finished: of its players some are paid, perhaps, and the others would never be.
            if !in_hand(&id) {
                self.pending.remove(&key);
                change.cancelled.push(id);
            }
        }
        for schedule in new.for_room(room) {
            let before = old.for_room(room).find(|before| before.id() == schedule.id());
            if before == Some(schedule) {
                continue;
            }
            let of = (schedule.id().clone(), Wall(0))..=(schedule.id().clone(), Wall(u64::MAX));
            let have = self.pending.range(of).map(|((_, at), due)| {
                let put_off = before.is_some_and(|before| *due != before.due(*at, room));
                Have { at: *at, due: *due, begun: put_off || in_hand(&id_of(room, schedule.id(), *at)) }
            });
            let have: Vec<Have> = have.collect();
            for have in &have {
                self.pending.remove(&(schedule.id().clone(), have.at));
            }
            // A parked one was decided: nothing up to it is wanted again.
            self.settle(schedule, room, have, |_| false, now, &mut change);
        }
        change
    }

    /// What a schedule wants, and what there is of it: the rest is scheduled or taken back.
    fn settle(
        &mut self,
        schedule: &Schedule,
        room: &RoomId,
        have: Vec<Have>,
        parked: impl Fn(&Wall) -> bool,
        now: Wall,
        change: &mut Change,
    ) {
        let now = schedule.undelayed(now, room);
        let done = self.done.get(schedule.id()).copied().unwrap_or_default();
        let first = have.iter().map(|have| have.at).min();
        let decided = match first {
            Some(first) if first <= now => schedule.catch_up(done.max(Wall(first.0.saturating_sub(1))), now),
            _ => schedule.catch_up(done.max(now), now),
        };
        change.dropped += decided.dropped;
        let wanted: Vec<Wall> = decided.run.into_iter().chain(decided.next).collect();
        for have in have {
            if wanted.contains(&have.at) || have.begun {
                self.pending.insert((schedule.id().clone(), have.at), have.due);
            } else {
                change.cancelled.push(id_of(room, schedule.id(), have.at));
            }
        }
        for at in wanted.into_iter().filter(|at| !parked(at)) {
            self.add(schedule, room, at, change);
        }
    }

    /// An occurrence is done, or parked: what follows it, computed from its own time and never from now.
    pub(super) fn done(&mut self, book: &RewardBook, id: &WorkId, now: Wall) -> Change {
        let mut change = Change::default();
        let Some((schedule, at)) = occurrence(id) else { return change };
        self.pending.remove(&(schedule.into(), at));
        self.moved = true;
        let latest = self.done.entry(schedule.into()).or_default();
        *latest = at.max(*latest);
        let latest = *latest;
        let Some(schedule) = book.for_room(&id.room).find(|s| s.id().as_ref() == schedule) else {
            return change;
        };
        // With one at hand already (a catch-up of several), nothing new is decided until the last of them.
        let waiting = self.pending.range((schedule.id().clone(), Wall(0))..).next();
        if waiting.is_some_and(|((id, _), _)| id == schedule.id()) {
            return change;
        }
        let decided = schedule.catch_up(latest, schedule.undelayed(now, &id.room));
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
            self.moved = true;
        }
    }

    /// The room becomes dormant: occurrences that could have no effect there are taken back.
    pub(super) fn leave(&mut self, book: &RewardBook, room: &RoomId) -> Vec<WorkId> {
        let mut cancelled = Vec::new();
        self.moved = true;
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

    /// The unload for which these were taken back is called off: they are pending again, whatever the time is now.
    pub(super) fn come_back(&mut self, book: &RewardBook, taken_back: &[WorkId]) -> Vec<WorkItem> {
        let mut change = Change::default();
        for id in taken_back {
            let Some((of, at)) = occurrence(id) else { continue };
            if let Some(schedule) = book.for_room(&id.room).find(|s| s.id().as_ref() == of) {
                self.add(schedule, &id.room, at, &mut change);
            }
        }
        self.moved = true;
        change.scheduled
    }

    /// When the next of them is due.
    pub(super) fn next_due(&self) -> Option<Wall> {
        self.pending.values().min().copied()
    }

    /// Whether the room has this item pending; items of other kinds are always known.
    #[cfg(test)]
    fn knows(&self, id: &WorkId) -> bool {
        occurrence(id).is_none_or(|(schedule, at)| self.pending.contains_key(&(schedule.into(), at)))
    }

    /// The items of occurrences that are pending, but for those that were put off: of these the store knows more.
    pub(super) fn waiting(&self, book: &RewardBook, room: &RoomId) -> Vec<WorkItem> {
        let of = |schedule: &Arc<Schedule>| {
            let pending = self.pending.iter().filter(|((id, _), _)| id == schedule.id());
            let items = pending.map(|((_, at), due)| (item(schedule, room, *at), *due));
            items.filter(|(item, due)| item.due == *due).map(|(item, _)| item).collect::<Vec<_>>()
        };
        book.for_room(room).flat_map(of).collect()
    }

    /// Next due time per schedule, for the world: changes since the last call only.
    pub(super) fn news(&mut self) -> Vec<(Arc<str>, Option<Wall>)> {
        if !std::mem::take(&mut self.moved) {
            return Vec::new();
        }
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
        self.moved = true;
    }

    fn add(&mut self, schedule: &Schedule, room: &RoomId, at: Wall, change: &mut Change) {
        if let Entry::Vacant(slot) = self.pending.entry((schedule.id().clone(), at)) {
            let item = item(schedule, room, at);
            slot.insert(item.due);
            change.scheduled.push(item);
        }
    }
}

#[cfg(test)]
mod tests;
