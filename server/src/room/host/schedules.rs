//! Which items of schedules a room should have, pure: what to schedule and what to take back at load, and what follows a completion.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

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
        // Some of them may be of a world that is gone.
        self.done.clear();
        self.moved = true;
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
                // One whose handler failed, or that a person made due again, is tried until it is done or parked.
                let begun = !stored.payload.is_empty() || stored.attempt > 0 || stored.due != schedule.due(*at, room);
                if wanted.contains(at) || begun {
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
mod tests {
    use super::*;

    const BOOK: &str = r#"
[[schedule]]
id = "chest"
every = "30s"
audience = "present"
rooms = "arena/*/*"
grant = { gold = 10 }

[[schedule]]
id = "daily"
every = "1h"
audience = "all-known"
catch_up = "all"
rooms = "arena/*/*"
grant = { gold = 100 }
"#;

    const SECOND: u64 = 1_000_000;
    // On the grid of both schedules.
    const START: u64 = 1_764_446_400 * SECOND;

    fn book() -> RewardBook {
        RewardBook::parse("rewards.toml", BOOK).expect("valid")
    }

    fn room() -> RoomId {
        RoomId::from_parts("arena", "eu", "a").expect("valid")
    }

    fn at(seconds: u64) -> Wall {
        Wall(START + seconds * SECOND)
    }

    fn keys(items: &[WorkItem]) -> Vec<(String, u64)> {
        items.iter().map(|i| (i.id.job.to_string(), (i.id.key.parse::<u64>().expect("µs") - START) / SECOND)).collect()
    }

    #[test]
    fn what_waits_can_be_told_to_a_store_that_forgot_it() {
        let mut occurrences = Occurrences::default();
        let scheduled = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
        let sorted = |mut items: Vec<WorkItem>| {
            items.sort_by(|a, b| a.id.cmp(&b.id));
            items
        };
        assert_eq!(sorted(occurrences.waiting(&book(), &room())), sorted(scheduled.clone()));
        let chest = scheduled.iter().find(|item| item.id.job.ends_with("chest")).expect("scheduled");
        occurrences.put_off(&chest.id, at(90));
        assert!(!occurrences.waiting(&book(), &room()).contains(chest), "the store has its attempts");
    }

    #[test]
    fn a_new_room_gets_the_next_occurrence_of_each_schedule_and_a_restart_changes_nothing() {
        let mut first = Occurrences::default();
        let change = first.reconcile(&book(), &room(), &[], at(5));
        assert_eq!(keys(&change.scheduled), [("schedule/chest".into(), 30), ("schedule/daily".into(), 3_600)]);
        for restart in [6, 20, 29] {
            let again = Occurrences::default().reconcile(&book(), &room(), &change.scheduled, at(restart));
            assert_eq!(again, Change::default(), "restart at {restart}");
        }
        // Down over the due time for a moment: late means now, once.
        let late = Occurrences::default().reconcile(&book(), &room(), &change.scheduled, at(31));
        assert_eq!((keys(&late.scheduled), late.cancelled.len()), (vec![("schedule/chest".into(), 60)], 0));
    }

    #[test]
    fn the_next_occurrence_comes_from_the_last_one_and_never_from_now() {
        let mut occurrences = Occurrences::default();
        let change = occurrences.reconcile(&book(), &room(), &[], at(5));
        let next = occurrences.done(&book(), &change.scheduled[0].id, at(47));
        assert_eq!(keys(&next.scheduled), [("schedule/chest".into(), 60)]);
        assert_eq!(next.dropped, 0);
    }

    #[test]
    fn missed_occurrences_follow_the_rule_of_their_schedule() {
        let stored = Occurrences::default().reconcile(&book(), &room(), &[], at(5)).scheduled;
        let mut occurrences = Occurrences::default();
        // Down for three hours and a bit.
        let change = occurrences.reconcile(&book(), &room(), &stored, at(3 * 3_600 + 5));
        let (chest, daily): (Vec<_>, Vec<_>) =
            keys(&change.scheduled).into_iter().partition(|(job, _)| job.ends_with("chest"));
        assert_eq!(chest.iter().map(|c| c.1).collect::<Vec<_>>(), [10_800, 10_830], "latest, and the next");
        assert_eq!(change.cancelled.iter().map(|id| id.key.to_string()).collect::<Vec<_>>(), [at(30).0.to_string()]);
        assert_eq!(
            daily.iter().map(|d| d.1).collect::<Vec<_>>(),
            [7_200, 10_800, 14_400],
            "all; 3600 is stored already"
        );
        assert_eq!(change.dropped, 359);
        // Each of them ends alone; only the last one leads on.
        let id =
            |seconds: u64| WorkId { room: room(), job: "schedule/daily".into(), key: at(seconds).0.to_string().into() };
        for seconds in [3_600, 7_200, 10_800] {
            assert_eq!(occurrences.done(&book(), &id(seconds), at(10_900)), Change::default(), "{seconds}");
        }
        assert_eq!(
            keys(&occurrences.done(&book(), &id(14_400), at(14_400)).scheduled),
            [("schedule/daily".into(), 18_000)]
        );
    }

    #[test]
    fn a_dormant_room_keeps_only_what_can_have_an_effect_there() {
        let mut occurrences = Occurrences::default();
        let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
        let cancelled = occurrences.leave(&book(), &room());
        assert_eq!(cancelled, [stored[0].id.clone()]);
        assert!(!occurrences.knows(&stored[0].id) && occurrences.knows(&stored[1].id));
    }

    #[test]
    fn an_unload_that_is_called_off_changes_nothing_however_long_it_took() {
        let mut occurrences = Occurrences::default();
        let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
        let cancelled = occurrences.leave(&book(), &room());
        // Its moment passes while the last checkpoint is stored; then somebody comes, and the room stays.
        let back = occurrences.come_back(&book(), &cancelled);
        assert_eq!(back, stored[..1], "the occurrence itself, not the one after now");
        assert!(occurrences.knows(&stored[0].id) && occurrences.knows(&stored[1].id));
    }

    #[test]
    fn an_old_occurrence_that_is_done_late_brings_none_back_that_is_done() {
        let mut occurrences = Occurrences::default();
        let mut stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
        let id =
            |seconds: u64| WorkId { room: room(), job: "schedule/chest".into(), key: at(seconds).0.to_string().into() };
        // One that a person made due again disturbs nothing.
        assert_eq!(occurrences.done(&book(), &id(0), at(7)), Change::default(), "the next one is pending already");
        // The first one failed and is put off beyond the next one.
        (stored[0].attempt, stored[0].due) = (1, at(70));
        let mut occurrences = Occurrences::default();
        assert_eq!(
            keys(&occurrences.reconcile(&book(), &room(), &stored, at(45)).scheduled),
            [("schedule/chest".into(), 60)]
        );
        assert_eq!(occurrences.done(&book(), &id(60), at(61)), Change::default(), "not before the last of them");
        let next = occurrences.done(&book(), &id(30), at(71));
        assert_eq!(keys(&next.scheduled), [("schedule/chest".into(), 90)], "60 is done once and for ever");
    }

    #[test]
    fn a_removed_schedule_stops_a_begun_decision_goes_on_and_a_parked_one_waits() {
        let mut stored = Occurrences::default().reconcile(&book(), &room(), &[], at(5)).scheduled;
        let gone = WorkId { room: room(), job: "schedule/gone".into(), key: at(9).0.to_string().into() };
        stored.push(WorkItem { id: gone.clone(), ..stored[0].clone() });
        let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(6));
        assert_eq!((change.cancelled, change.scheduled), (vec![gone], vec![]));

        stored.pop();
        stored[0].payload = Bytes::from_static(b"cursor");
        let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(600));
        assert_eq!(change.cancelled, [], "its first page is paid: it is finished");

        stored[0].payload = Bytes::new();
        stored[0].attempt = 1;
        let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(600));
        assert_eq!(change.cancelled, [], "it failed once: it is tried again, and never dropped");

        stored[0].attempt = 0;
        stored[0].parked = Some("failed".into());
        let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(6));
        assert_eq!((keys(&change.scheduled), change.cancelled), (vec![], vec![]));
    }

    #[test]
    fn the_world_hears_of_changes_once() {
        let mut occurrences = Occurrences::default();
        let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
        assert_eq!(occurrences.news(), [("chest".into(), Some(at(30))), ("daily".into(), Some(at(3_600)))]);
        assert_eq!(occurrences.news(), []);
        occurrences.done(&book(), &stored[0].id, at(30));
        assert_eq!(occurrences.news(), [("chest".into(), Some(at(60)))]);
        occurrences.leave(&book(), &room());
        assert_eq!(occurrences.news(), [("chest".into(), None)]);
    }
}
