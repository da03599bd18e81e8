//! A room follows the schedules of its node: when the file was read anew, what is pending here is compared with it.

use std::time::Duration;

use super::{
    super::{schedules, shard::pending::Request},
    Actor,
};
use crate::{plugin::Reward, runtime::Mono, store::WorkId};

/// Over this time the loaded rooms of a node follow a new book, each at a moment of its own.
const FOLLOW_WITHIN: Duration = Duration::from_secs(2);
/// Another function of the room id than those that choose shards and moments of checkpoints.
const FOLLOW_SEED: u64 = 0x666f_6c6c;

impl Actor {
    /// What an occurrence decides, as the room's book has it; `None` for other items, and for those of a schedule that is not there.
    pub(super) fn reward_of(&self, id: &WorkId) -> Option<Reward> {
        let (of, at) = schedules::occurrence(id)?;
        let room = &self.handle.room;
        let now = self.book.for_room(room).find(|schedule| schedule.id().as_ref() == of);
        // Begun by a book that had it, and finished by that.
        let former = self.former.as_ref().filter(|_| now.is_none() && self.is_begun(id));
        let former = former.and_then(|book| book.for_room(room).find(|schedule| schedule.id().as_ref() == of));
        Some(now.or(former)?.reward(at))
    }

    /// Whether the room has it in hand, or has paid a page of it.
    fn is_begun(&self, id: &WorkId) -> bool {
        self.work.contains_key(id) || self.paged.contains_key(id)
    }

    /// The book of this moment is the room's from now on.
    pub(super) fn take_book(&mut self) {
        self.book = self.host.book.current();
        self.follow_at = None;
        if let Some(world) = &mut self.world {
            world.remember(schedules::remembered(&self.book, &self.handle.room));
        }
        let mut due = std::mem::take(&mut self.due);
        for work in &mut due {
            work.reward = self.reward_of(&work.item.id);
        }
        self.due = due;
    }

    /// Follows a newer book: in its own time, or at once when an occurrence is due, which the book of that moment decides.
    pub(super) fn follow_book(&mut self, now: Mono) {
        if self.host.book.is_current(&self.book) {
            return;
        }
        let at = *self.follow_at.get_or_insert_with(|| {
            let within = u64::try_from(FOLLOW_WITHIN.as_nanos()).unwrap_or(u64::MAX);
            let hash = xxhash_rust::xxh3::xxh3_64_with_seed(self.handle.room.as_str().as_bytes(), FOLLOW_SEED);
            Mono(now.0.saturating_add(hash % within))
        });
        if now < at && !self.due.iter().any(|work| schedules::occurrence(&work.item.id).is_some()) {
            return;
        }
        let old = self.book.clone();
        self.former = Some(old.clone());
        self.take_book();
        let (room, store_now) = (self.handle.room.clone(), self.host.store_now());
        let (work, paged) = (&self.work, &self.paged);
        let in_hand = |id: &WorkId| work.contains_key(id) || paged.contains_key(id);
        let mut change = self.occurrences.follow([&old, &self.book], &room, in_hand, store_now);
        // Also one that a person made due again, of a schedule that is no more.
        let orphans =
            self.due.iter().filter(|work| work.reward.is_none() && schedules::occurrence(&work.item.id).is_some());
        let orphans: Vec<WorkId> = orphans.map(|work| work.item.id.clone()).collect();
        change.cancelled.extend(orphans.into_iter().filter(|id| !change.cancelled.contains(id)).collect::<Vec<_>>());
        self.host.count_dropped(change.dropped, &room);
        for id in &change.cancelled {
            self.work.remove(id);
        }
        self.due.retain(|work| !change.cancelled.contains(&work.item.id));
        if !(change.cancelled.is_empty() && change.scheduled.is_empty()) {
            let request = Request { cancelled: change.cancelled, scheduled: change.scheduled, ..Request::default() };
            self.commit(request, true, now);
        }
    }
}
