//! What must be read from the store next: walks over the due items of the shard, page by page, each beginning where something may be
//! missing.

use std::time::Duration;

use super::{NEAR_ITEMS, Near, ROOM_AHEAD};
use crate::{
    room::host::config::WORK_PER_ROOM,
    runtime::Wall,
    store::{WorkId, WorkItem},
};

/// Time after a reading that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two walks over everything: what an operator made due again (`work retry`), and what nobody could take and somebody
/// can now, is found by then.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// A place among the due items: read is what is behind it. `None`: the beginning.
pub(in crate::room::host) type Cursor = Option<(Wall, WorkId)>;

/// How far the reading is.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// A walk is under way.
    walk: Option<Walk>,
    /// From when on items must be read again, once that time has come.
    again: Option<(Wall, WorkId)>,
    /// When everything is read again, from the beginning.
    whole: Wall,
    /// Not before this.
    rest: Wall,
    /// Up to when everything was read.
    reach: Wall,
    passed: usize,
}

#[derive(Debug, Default)]
struct Walk {
    after: Cursor,
    /// Began at the beginning: what it passes is all that nobody takes.
    whole: bool,
    /// Overdue items that nobody could take.
    passed: usize,
}

impl Reading {
    pub(super) fn reach(&self) -> Wall {
        self.reach
    }

    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Something due at that time may be missing.
    pub(super) fn again(&mut self, due: Wall, id: &WorkId) {
        if self.again.as_ref().is_none_or(|(known, _)| due < *known) {
            self.again = Some((due, id.clone()));
        }
    }

    /// Anything may be missing.
    pub(super) fn whole(&mut self) {
        self.whole = Wall(0);
    }

    /// What was known behind this item is forgotten: it is read again when there is room.
    pub(super) fn stop_at(&mut self, last: &(Wall, WorkId)) {
        let behind = Some(last.clone());
        match &mut self.walk {
            // `None` is the beginning, and less than any place.
            Some(walk) => walk.after = walk.after.take().min(behind),
            None => self.walk = Some(Walk { after: behind, ..Walk::default() }),
        }
        self.reach = self.reach.min(last.0);
    }

    /// Begins a walk if it is time for one.
    fn begin(&mut self, now: Wall, full: bool) {
        let again = self.again.as_ref().filter(|(due, _)| *due <= now);
        if now >= self.whole && (self.walk.is_none() || full) {
            self.walk = Some(Walk { whole: true, ..Walk::default() });
            self.whole = now.plus(WHOLE_EVERY);
            self.again = None;
            self.reach = Wall(0);
        } else if let Some((due, id)) = again
            && (self.walk.is_none() || full)
        {
            // Behind the moment before it, whatever the item: so all that is due at it is read.
            let before = Wall(due.0.saturating_sub(1));
            self.walk = Some(Walk { after: Some((before, id.clone())), ..Walk::default() });
            self.again = None;
            self.reach = before;
        }
    }
}

impl Near {
    fn is_full(&self) -> bool {
        self.pending.len() > NEAR_ITEMS / 2
    }

    /// Where the next page begins, if one is to be read now.
    pub(in crate::room::host) fn next_page(&mut self, now: Wall) -> Option<Cursor> {
        if now < self.reading.rest {
            return None;
        }
        // Memory that is full of later items must not hide earlier ones: a walk that waits for room gives way.
        let waits = self.is_full() && self.reading.walk.as_ref().is_some_and(|walk| self.is_behind_all(walk));
        self.reading.begin(now, waits);
        let walk = self.reading.walk.as_ref()?;
        let waits = self.is_full() && self.is_behind_all(walk);
        (!waits).then(|| walk.after.clone())
    }

    /// Whether all that is in memory comes before the walk's place.
    fn is_behind_all(&self, walk: &Walk) -> bool {
        let last = self.pending.last_key_value().map(|(key, _)| key);
        walk.after.as_ref().is_some_and(|after| last.is_none_or(|last| last <= after))
    }

    /// When the next page is to be read, if nothing happens before.
    pub(in crate::room::host) fn next_reading(&self, now: Wall) -> Wall {
        let reading = &self.reading;
        let begins = reading.again.as_ref().map_or(reading.whole, |(due, _)| reading.whole.min(*due));
        let next = match &reading.walk {
            Some(walk) if !(self.is_full() && self.is_behind_all(walk)) => now,
            _ => begins,
        };
        next.max(reading.rest)
    }

    /// A page could not be read.
    pub(in crate::room::host) fn not_read(&mut self, now: Wall) {
        self.reading.rest = now.plus(PAUSE);
    }

    /// Takes the next page in: what is due up to `before`; `cut`: there is more behind it. `takes`: whether anybody can take an item.
    pub(in crate::room::host) fn page(
        &mut self,
        items: Vec<WorkItem>,
        (now, before): (Wall, Wall),
        cut: bool,
        takes: impl Fn(&WorkId) -> bool,
    ) {
        let last = items.last().map(|item| (item.due, item.id.clone()));
        let mut stopped = false;
        for item in items {
            if takes(&item.id) {
                stopped |= self.take_in(item);
            } else {
                self.remove(&item.id);
                if let Some(walk) = &mut self.reading.walk {
                    walk.passed += usize::from(item.due <= now);
                }
            }
        }
        let in_memory = self.pending.keys().next_back().cloned();
        let Some(mut walk) = self.reading.walk.take() else { return };
        let place = match (last, in_memory) {
            (Some(last), Some(kept)) if stopped => Some(last.min(kept)),
            (Some(last), _) if cut => Some(last),
            _ => None,
        };
        if walk.whole && (stopped || place.is_none()) {
            self.reading.passed = walk.passed;
        }
        self.reading.reach = place.as_ref().map_or(before, |(due, _)| *due);
        if place.is_some() {
            walk.after = place;
            self.reading.walk = Some(walk);
        }
    }

    /// Takes an item in; when its room has its fill, the one that is due last stays in the store. Whether memory is full now.
    fn take_in(&mut self, item: WorkItem) -> bool {
        let room = item.id.room.clone();
        let known = self.due.contains_key(&item.id) || self.handed.contains_key(&item.id);
        let fill = if self.is_full() { WORK_PER_ROOM } else { ROOM_AHEAD };
        if !known && self.of_room(&room) >= fill {
            let latest = self.waiting.get(&room).and_then(|waiting| waiting.last().cloned());
            match latest {
                Some(latest) if item.due < latest.0 => {
                    self.remove(&latest.1);
                    self.leave(&room, latest.0);
                }
                _ => {
                    self.leave(&room, item.due);
                    return false;
                }
            }
        }
        self.insert(item);
        self.forget_latest()
    }
}
